package following

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
)

// Close waits for all work, and none begins after it.
func TestWorkEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := NewWork(context.Background())
		var ended atomic.Int64
		for range 3 {
			w.Start(func() {
				<-w.Context().Done()
				ended.Add(1)
			})
			synctest.Wait()
		}
		release := make(chan struct{})
		w.Start(func() { <-release })
		closed := make(chan struct{})
		go func() {
			defer close(closed)
			w.Close()
		}()
		synctest.Wait()
		select {
		case <-closed:
			t.Error("Close does not wait")
		default: // some work is still under way
		}
		close(release)
		<-closed
		w.Start(func() { t.Error("work begins after Close") })
		synctest.Wait()
		if n := ended.Load(); n != 3 {
			t.Errorf("%d of 3 pieces of work have ended", n)
		}
	})
}
