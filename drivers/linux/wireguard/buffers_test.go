package wireguard

import (
	"testing"
	"unsafe"
)

// TestShrinkBuffers checks that this version of the library has the pool that
// shrinkBuffers replaces, and that buffers do not overlap. Under the race detector it
// also checks that no goroutine takes a buffer before the pool is replaced.
func TestShrinkBuffers(t *testing.T) {
	q, _ := testQueue(t)
	d, small := start(q, newBind(limitOf(1420), q.counts))
	defer d.Close()
	if !small {
		t.Fatal("the library has another pool of buffers now")
	}
	at := map[uintptr]bool{}
	for range 3 * slab {
		at[uintptr(unsafe.Pointer(d.GetMessageBuffer()))] = true
	}
	for a := range at {
		for b := range at {
			if a < b && b-a < uintptr(limitOf(1420)+around) {
				t.Fatalf("two buffers are %d bytes apart", b-a)
			}
		}
	}
	if len(at) != 3*slab {
		t.Errorf("%d buffers for %d requests", len(at), 3*slab)
	}
}
