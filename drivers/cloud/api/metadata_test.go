package api_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/flanneld/flannel/drivers/cloud"
	"github.com/flanneld/flannel/drivers/cloud/api"
)

// get reads a fact from a service that always gives the same answer.
func get(ctx context.Context, status int, answer string) (string, error) {
	serve := carrier(func(r *http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: status, Body: io.NopCloser(strings.NewReader(answer)), Request: r}, nil
	})
	return api.NewMetadata(api.Options{Transport: serve}, "http://169.254.169.254", nil, nil).Get(ctx, "/instance-id")
}

func TestFacts(t *testing.T) {
	for answer, want := range map[string]string{
		"i-1": "i-1", "i-1\n": "i-1", "projects/1/zones/z": "projects/1/zones/z", "example.com:p": "example.com:p",
		"52:54:00:ab:cd:ef": "52:54:00:ab:cd:ef",
	} {
		if got, err := get(t.Context(), 200, answer); got != want || err != nil {
			t.Errorf("%q gives %q, %v", answer, got, err)
		}
	}
	for _, answer := range []string{
		"", "<html>", "two words", "a?b=c", "a#b", "a%2fb", "../x", "a/../b", "-x", "/x", "x\ny", strings.Repeat("x", 257),
	} {
		got, err := get(t.Context(), 200, answer)
		if !errors.Is(err, cloud.ErrNoIdentity) {
			t.Errorf("%q gives %q, %v", answer, got, err)
		}
	}
}

func TestFactsThatDoNotExist(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, status := range []int{404, 403, 301, 500, 429} {
			if _, err := get(t.Context(), status, "i-1"); !errors.Is(err, cloud.ErrNoIdentity) {
				t.Errorf("status %d: %v", status, err)
			}
		}
	})
}
