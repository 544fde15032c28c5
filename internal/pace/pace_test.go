package pace_test

import (
	"testing"
	"time"

	"github.com/flanneld/flannel/internal/pace"
)

func TestScale(t *testing.T) {
	wants := map[string]time.Duration{"": 2 * time.Second, "1": 2 * time.Second, "12.5": 25 * time.Second}
	for slowness, want := range wants {
		t.Setenv(pace.Env, slowness)
		if got := pace.Scale(2 * time.Second); got != want {
			t.Errorf("%s=%q: a deadline of 2s becomes %s, want %s", pace.Env, slowness, got, want)
		}
	}
}

func TestSlownessIsAtLeastOne(t *testing.T) {
	for _, bad := range []string{"fast", "0.5", "NaN", "-3", "+Inf"} {
		t.Setenv(pace.Env, bad)
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s=%s is accepted", pace.Env, bad)
				}
			}()
			pace.Slowness()
		}()
	}
}
