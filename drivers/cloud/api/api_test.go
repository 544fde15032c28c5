package api_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flanneld/flannel/drivers/cloud"
	"github.com/flanneld/flannel/drivers/cloud/api"
)

func TestRetryWaitsAsLongAsTheProviderWants(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		calls := 0
		err := api.Retry(t.Context(), func(context.Context) error {
			calls++
			return &api.Fault{Class: cloud.ErrThrottled, Temporary: true, Wait: 7 * time.Second}
		})
		if !errors.Is(err, cloud.ErrThrottled) || calls != api.Attempts {
			t.Errorf("%d calls, %v", calls, err)
		}
		if d := time.Since(begin); d != (api.Attempts-1)*7*time.Second {
			t.Errorf("they took %s", d)
		}
	})
}

func TestRetryWaitsLongerEachTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var at []time.Time
		api.Retry(t.Context(), func(context.Context) error {
			at = append(at, time.Now())
			return &api.Fault{Temporary: true}
		})
		for i := 2; i < len(at); i++ {
			if before, now := at[i-1].Sub(at[i-2]), at[i].Sub(at[i-1]); now <= before {
				t.Errorf("wait %d is %s after %s", i, now, before)
			}
		}
	})
}

func TestRetryAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for value, want := range map[string]time.Duration{
			"": 0, "x": 0, "-3": 0, "7": 7 * time.Second, "86400": 30 * time.Second, "99999999999999999999": 0,
			time.Now().Add(9 * time.Second).UTC().Format(http.TimeFormat): 9 * time.Second,
			time.Now().Add(-time.Hour).UTC().Format(http.TimeFormat):      0,
		} {
			if got := api.RetryAfter(http.Header{"Retry-After": {value}}); got != want {
				t.Errorf("%q is %s and not %s", value, got, want)
			}
		}
	})
}

// carrier answers each request with a function.
type carrier func(*http.Request) (*http.Response, error)

func (c carrier) RoundTrip(r *http.Request) (*http.Response, error) { return c(r) }

func send(t *testing.T, c carrier) (api.Reply, error) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://api.example/?Secret=hidden", nil)
	if err != nil {
		t.Fatal(err)
	}
	return api.Send(api.HTTP(api.Options{Transport: c}), req, "asking", nil)
}

func TestAnswersAreBounded(t *testing.T) {
	_, err := send(t, func(r *http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: 200, Body: io.NopCloser(endless{}), Request: r}, nil
	})
	if err == nil || !strings.Contains(err.Error(), "longer than") {
		t.Error(err)
	}
}

// endless is a body without an end.
type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }

func TestRedirectsAreNotFollowed(t *testing.T) {
	hosts := []string{}
	reply, err := send(t, func(r *http.Request) (*http.Response, error) {
		hosts = append(hosts, r.URL.Host)
		return &http.Response{
			StatusCode: 307, Header: http.Header{"Location": {"http://evil.example/"}}, Body: http.NoBody, Request: r,
		}, nil
	})
	if err != nil || reply.Status != 307 || len(hosts) != 1 {
		t.Errorf("status %d, error %v, requests for %v", reply.Status, err, hosts)
	}
}

func TestErrorsShowNoURL(t *testing.T) {
	_, err := send(t, func(*http.Request) (*http.Response, error) { return nil, errors.New("refused") })
	if err == nil || strings.Contains(err.Error(), "hidden") || !strings.Contains(err.Error(), "refused") {
		t.Error(err)
	}
}

func TestPagesEnd(t *testing.T) {
	walk := api.Pages{Doing: "listing"}
	for _, token := range []string{"a", "b"} {
		if more, err := walk.Next(token); !more || err != nil {
			t.Error(more, err)
		}
	}
	if _, err := walk.Next("a"); err == nil {
		t.Error("a list may lead in a circle")
	}
	if more, err := walk.Next(""); more || err != nil {
		t.Error(more, err)
	}
	long := api.Pages{}
	n := 0
	for n < 10_000 {
		n++
		if _, err := long.Next(strings.Repeat("x", n)); err != nil {
			break
		}
	}
	if n > 1000 {
		t.Error("a list may have any number of pages")
	}
}

func TestACredentialThatBeginsWithAnother(t *testing.T) {
	for range 20 {
		secrets := api.Secrets{}
		secrets.Add("abcd", "abcdefgh", "abcdef")
		if clean := secrets.Clean("key abcdefgh"); clean != "key REDACTED" {
			t.Fatal(clean)
		}
	}
}

// FuzzClean puts a credential into a text in several forms.
func FuzzClean(f *testing.F) {
	f.Add("secret/with+signs==", "text before ", " and after")
	f.Add(`a"quoted\secret`, "", "")
	f.Add("aaaa", "a", "aaa")
	f.Add("REDACTED", "", "")
	f.Add("secret", strings.Repeat("long ", 1000), strings.Repeat("ü", 1000))
	f.Add("line\nbreak", "\x00", "\u2028")
	f.Fuzz(func(t *testing.T, secret, before, after string) {
		secrets := api.Secrets{}
		secrets.Add(secret)
		text := before + secret + after + api.Escape(secret)
		clean := secrets.Clean(text)
		if len(clean) > 310 {
			t.Errorf("%d bytes", len(clean))
		}
		if strings.ContainsAny(clean, "\n\r\x00\x1b") {
			t.Errorf("%q", clean)
		}
		if len(secret) >= 4 && !strings.Contains("REDACTED", secret) && !strings.Contains(before+after, secret) &&
			strings.Contains(strings.ReplaceAll(clean, "REDACTED", "\x00"), secret) {
			t.Errorf("%q shows %q", clean, secret)
		}
	})
}
