package kube

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"
)

// answerLimit is how long the API server may take until an answer begins, also that to a watch.
const answerLimit = 30 * time.Second

// mostHanging is the number of requests that may hang at once in the client library.
const mostHanging = 16

// errNoAnswer ends a request whose answer does not begin.
var errNoAnswer = fmt.Errorf("no answer within %v: the API server, what stands before it, or a credential plugin "+
	"that the kubeconfig names (exec) hangs", answerLimit)

// errHanging refuses a request while earlier ones hang.
var errHanging = errors.New("earlier requests hang: a credential plugin that the kubeconfig names (exec) does not end")

// bounded gives requests a limit of time until their answer begins, whatever is under way. The client library runs a
// credential plugin in the middle of a request, and waits for it without regard to the request's context.
type bounded struct {
	http.RoundTripper
	limit time.Duration
	// hanging holds a place for each request that has no answer yet. One that was given up keeps its place
	// until the library returns.
	hanging chan struct{}
}

// bound bounds the requests of a client.
func bound(c *http.Client, limit time.Duration) {
	if c.Transport == nil {
		c.Transport = http.DefaultTransport
	}
	c.Transport = &bounded{c.Transport, limit, make(chan struct{}, mostHanging)}
}

// answer is the result of a request.
type answer struct {
	resp *http.Response
	err  error
}

// RoundTrip implements [http.RoundTripper].
func (b *bounded) RoundTrip(req *http.Request) (*http.Response, error) {
	select {
	case b.hanging <- struct{}{}:
	default:
		return nil, errHanging
	}
	ctx, cancel := context.WithCancelCause(req.Context())
	answers := make(chan answer, 1)
	go func() {
		defer func() { <-b.hanging }()
		resp, err := b.RoundTripper.RoundTrip(req.WithContext(ctx))
		if resp != nil {
			resp.Body = &endingBody{resp.Body, cancel}
		}
		answers <- answer{resp, err}
	}()
	timer := time.NewTimer(b.limit)
	defer timer.Stop()
	select {
	case a := <-answers:
		if a.err != nil {
			cancel(nil)
		}
		return a.resp, a.err
	case <-timer.C:
		cancel(errNoAnswer)
	case <-ctx.Done():
		cancel(nil)
	}
	go discard(answers)
	return nil, context.Cause(ctx)
}

// discard closes a late answer.
func discard(answers <-chan answer) {
	if a := <-answers; a.resp != nil {
		_ = a.resp.Body.Close()
	}
}

// endingBody ends the context of a request with its answer.
type endingBody struct {
	io.ReadCloser
	cancel context.CancelCauseFunc
}

// Close implements [io.Closer].
func (b *endingBody) Close() error {
	defer b.cancel(nil)
	return b.ReadCloser.Close()
}
