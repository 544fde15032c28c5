package remote

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"sync/atomic"

	"github.com/flanneld/flannel/core/lease"
	"github.com/flanneld/flannel/drivers/remote/api"
)

// maxAnswer bounds an answer to a request that is no watch, in bytes.
const maxAnswer = 1 << 20

// refusedError is an error of a request that no server has carried out.
type refusedError struct{ err error }

func (e *refusedError) Error() string { return e.err.Error() }
func (e *refusedError) Unwrap() error { return e.err }

// refused reports whether an error means that nothing has changed.
func refused(err error) bool {
	return errors.As(err, new(*refusedError)) || errors.Is(err, lease.ErrConflict) || errors.Is(err, lease.ErrLost)
}

// request is a request that changes something.
type request struct {
	method, path string // below the network
	body         []byte
	terms        api.Terms
	harmless     bool // repeating it changes nothing, so it may go to another server without a known outcome
}

// answer is the answer to a request that the server carried out.
type answer struct {
	terms api.Terms
	old   bool // the server speaks only the old API, and the terms are empty
	body  []byte
}

// do sends a request to the server in use. If that server has not carried it out, or if
// the request is harmless, do tries the other servers in turn. The timeout, ctx and the
// life of the store bound it.
func (s *Store) do(ctx context.Context, r request) (answer, error) {
	if s.ctx.Err() != nil {
		return answer{}, &refusedError{fmt.Errorf("%w: %w", errClosed, s.ctx.Err())}
	}
	if ctx.Err() != nil {
		return answer{}, &refusedError{ctx.Err()}
	}
	ctx, cancel := context.WithTimeout(ctx, s.o.Timeout)
	defer cancel()
	stop := context.AfterFunc(s.ctx, cancel)
	defer stop()
	s.conns.Cut() // the request may announce a new address

	at, _ := s.server()
	var errs []error
	for i := range s.bases {
		base := s.bases[(at+i)%len(s.bases)]
		a, retry, err := s.ask(ctx, base, r)
		if !retry {
			return a, err
		}
		errs = append(errs, fmt.Errorf("server %s: %w", base, err))
		if ctx.Err() != nil {
			break
		}
	}
	return answer{}, &refusedError{errors.Join(errs...)}
}

// ask sends a request to one server. Retry means that another server may carry it
// out.
func (s *Store) ask(ctx context.Context, base string, r request) (a answer, retry bool, err error) {
	var connected atomic.Bool
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn: func(httptrace.GotConnInfo) { connected.Store(true) },
	})
	req, err := http.NewRequestWithContext(ctx, r.method, base+r.path, bytes.NewReader(r.body))
	if err != nil {
		return answer{}, true, err
	}
	req.Header.Set(api.Header, r.terms.String())
	req.Header.Set("Content-Type", "application/json; charset=utf-8")
	resp, err := s.client.Do(req)
	if err != nil {
		return answer{}, r.harmless || !connected.Load(), err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		retry, err := verdict(resp, r)
		return answer{}, retry, err
	}
	a.body, err = io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return answer{}, false, err
	}
	a.old = resp.Header.Get(api.Header) == ""
	if !a.old {
		a.terms, err = api.ParseTerms(resp.Header.Get(api.Header))
	}
	return a, false, err
}

// verdict reads an answer other than success. A server of our own answers 4xx
// and 503 only if it has changed nothing.
func verdict(resp *http.Response, r request) (retry bool, err error) {
	ours := resp.Header.Get(api.Header) != ""
	switch code := resp.StatusCode; {
	case ours && code == http.StatusConflict:
		terms, err := api.ParseTerms(resp.Header.Get(api.Header))
		if err != nil {
			return false, &refusedError{err}
		}
		conflict := &lease.ConflictError{Key: terms.Key, Revision: terms.Revision}
		if terms.Key == r.terms.Key || terms.Key == r.terms.To {
			return false, conflict
		}
		return false, fmt.Errorf("%s: %w", textOf(resp), conflict) // it says why another record matters
	case ours && code == http.StatusGone:
		return false, lease.ErrLost
	case ours && (code == http.StatusServiceUnavailable || code == http.StatusTooManyRequests):
		return true, errors.New(textOf(resp))
	case code/100 == 4:
		return false, &refusedError{fmt.Errorf("%s %s: %s", r.method, r.path, textOf(resp))}
	}
	return false, fmt.Errorf("%s %s: %s", r.method, r.path, textOf(resp))
}
