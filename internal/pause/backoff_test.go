package pause_test

import (
	"context"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flanneld/flannel/internal/pause"
)

func TestBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b pause.Backoff
		want := []float64{0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5, 5} // seconds
		for i, seconds := range want {
			began := time.Now()
			if !b.Wait(t.Context()) {
				t.Fatal("a wait was cut short")
			}
			if got := time.Since(began).Seconds(); math.Abs(got-seconds) > pause.Jitter*seconds+1e-6 {
				t.Errorf("wait %d took %g s, want %g more or less by a fifth", i, got, seconds)
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if b.Wait(ctx) {
			t.Error("a wait within an ended context went on")
		}
	})
}
