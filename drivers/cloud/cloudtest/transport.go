package cloudtest

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
)

// Transport carries requests to a handler without a connection, so that a test
// may run in virtual time. A request is for the host that the client means.
type Transport struct{ Handler http.Handler }

var errReset = errors.New("connection reset by peer")

// RoundTrip returns the handler's answer, or the context's error when that ends first.
func (t Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	var body []byte
	if r.Body != nil {
		var err error
		body, err = io.ReadAll(r.Body)
		r.Body.Close()
		if err != nil {
			return nil, err
		}
	}
	in := r.Clone(r.Context())
	in.Body = io.NopCloser(bytes.NewReader(body))
	in.RequestURI = r.URL.RequestURI()
	if in.Host == "" {
		in.Host = r.URL.Host
	}
	answer := make(chan *http.Response, 1)
	go func() {
		defer close(answer)
		defer func() {
			if p := recover(); p != nil && p != http.ErrAbortHandler {
				panic(p)
			}
		}()
		w := httptest.NewRecorder()
		t.Handler.ServeHTTP(w, in)
		answer <- w.Result()
	}()
	select {
	case resp, ok := <-answer:
		if !ok {
			return nil, errReset
		}
		resp.Request = r
		return resp, nil
	case <-r.Context().Done():
		<-answer // the handler's last look at the fake comes before the test's next change
		return nil, r.Context().Err()
	}
}
