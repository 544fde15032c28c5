package api

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/flanneld/flannel/drivers/cloud"
	"github.com/flanneld/flannel/internal/pause"
)

// The bounds of requests.
const (
	Attempts    = 5 // of one request (interop 6.9: aws retries five times)
	tryFor      = 20 * time.Second
	longestWait = 30 * time.Second // that a provider may ask for
	largestBody = 8 << 20
)

// HTTP returns a client for an API. The proxy of the environment applies to it.
// It follows no redirect: a signed request is for one host.
func HTTP(o Options) *http.Client {
	transport := o.Transport
	if transport == nil {
		transport = http.DefaultTransport.(*http.Transport).Clone()
	}
	return &http.Client{Transport: transport, CheckRedirect: stay}
}

func stay(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// Reply is the answer to a request, whole.
type Reply struct {
	Status int
	Header http.Header
	Body   []byte
}

// Send sends a request and reads the answer. An error is a *Fault, which Retry
// understands.
func Send(client *http.Client, req *http.Request, doing string, secrets Secrets) (Reply, error) {
	resp, err := client.Do(req)
	if err != nil {
		return Reply{}, broken(doing, err, secrets)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, largestBody+1))
	if err != nil {
		return Reply{}, broken(doing, err, secrets)
	}
	if len(body) > largestBody {
		return Reply{}, &Fault{Doing: doing, Text: fmt.Sprintf("the answer is longer than %d bytes", largestBody)}
	}
	return Reply{resp.StatusCode, resp.Header, body}, nil
}

// broken makes the fault of a request without an answer. It leaves the URL out,
// since some APIs have credentials in it.
func broken(doing string, err error, secrets Secrets) *Fault {
	var wrapped *url.Error
	if errors.As(err, &wrapped) {
		err = wrapped.Err
	}
	return &Fault{Doing: doing, Text: secrets.Clean(err.Error()), Temporary: true}
}

// RetryAfter reads the wait that an answer asks for, in seconds or as a time.
func RetryAfter(h http.Header) time.Duration {
	value := h.Get("Retry-After")
	if n, err := strconv.Atoi(value); err == nil && n > 0 {
		return time.Duration(min(n, int(longestWait/time.Second))) * time.Second
	}
	if at, err := http.ParseTime(value); err == nil {
		return min(max(time.Until(at), 0), longestWait)
	}
	return 0
}

// Retry calls f until it succeeds, its fault is not temporary, or the attempts
// are used up. It waits longer from time to time, and as long as the provider
// asks for. When ctx ends, its error is in the result.
func Retry(ctx context.Context, f func(ctx context.Context) error) error {
	var backoff pause.Backoff
	for n := 1; ; n++ {
		within, cancel := context.WithTimeout(ctx, tryFor)
		err := f(within)
		cancel()
		var fault *Fault
		switch {
		case err == nil:
			return nil
		case !errors.As(err, &fault):
			return err
		case !fault.Temporary:
			return fault
		case ctx.Err() != nil:
			return ended(ctx, fault)
		case n == Attempts:
			return fault
		}
		waited := false
		if fault.Wait > 0 {
			waited = pause.For(ctx, min(fault.Wait, longestWait))
		} else {
			waited = backoff.Wait(ctx)
		}
		if !waited {
			return ended(ctx, fault)
		}
	}
}

// ended adds the end of the context to the last fault. A provider that throttles
// is the reason why the time was not enough, and stays the class.
func ended(ctx context.Context, last *Fault) error {
	told := *last
	if told.Class != cloud.ErrThrottled {
		told.Class = ctx.Err()
	}
	return &told
}

// Escape encodes a text as providers' signatures want it: like a URL's path, with
// only letters, digits and "-_.~" as they are (RFC 3986).
func Escape(s string) string {
	const hex = "0123456789ABCDEF"
	out := make([]byte, 0, len(s))
	for i := range len(s) {
		c := s[i]
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '-', c == '_', c == '.', c == '~':
			out = append(out, c)
		default:
			out = append(out, '%', hex[c>>4], hex[c&15])
		}
	}
	return string(out)
}
