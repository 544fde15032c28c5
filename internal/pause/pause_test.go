package pause_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flanneld/flannel/internal/pause"
)

func TestFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		whole := pause.For(context.Background(), time.Minute)
		if passed := time.Since(began); !whole || passed != time.Minute {
			t.Errorf("waited %s (to the end: %t), want a minute", passed, whole)
		}

		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		began = time.Now()
		whole = pause.For(ctx, time.Minute)
		if passed := time.Since(began); whole || passed != time.Second {
			t.Errorf("waited %s (to the end: %t), want the context to end it after a second", passed, whole)
		}
		if pause.For(ctx, 0) {
			t.Error("a pause within an ended context went on")
		}
	})
}
