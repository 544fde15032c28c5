package wireguard

import (
	"testing"
	"unsafe"

	"golang.zx2c4.com/wireguard/device"
)

// TestShrinkBuffers holds that this version of the library has the pool that
// shrinkBuffers replaces, and that buffers are apart by their size.
func TestShrinkBuffers(t *testing.T) {
	q, _ := testQueue(t)
	d := device.NewDevice(q, newBind(maxPacket), &device.Logger{Verbosef: device.DiscardLogf, Errorf: device.DiscardLogf})
	defer d.Close()
	if !shrinkBuffers(d, limitOf(1420)) {
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
