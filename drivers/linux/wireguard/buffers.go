package wireguard

import (
	"reflect"
	"sync"
	"unsafe"

	"golang.zx2c4.com/wireguard/device"
)

const (
	// around is the room that a buffer needs besides the packet: the message's
	// header, padding and tag.
	around = 64

	// usualMTU is the least size of a packet for which a buffer has room: a peer may
	// have a larger MTU than this node.
	usualMTU = 1500

	// slab is the number of buffers that are allocated together.
	slab = 64
)

// limitOf returns the size of the largest message or packet that a device with that MTU takes.
func limitOf(mtu int) int { return max(mtu, usualMTU) + around }

// shrinkBuffers makes a device use buffers of limit bytes, and reports whether it
// could. The library's own have 64 KiB each, whatever the MTU: so each packet lies
// in a page of its own, and a stream spends a fifth of its time on misses of the
// caches, and on zeroing new buffers. The library has no option for their size.
//
// The library's type for a buffer is an array of 64 KiB. Here it overlaps with the
// following buffers, of which the two ends ([queue], [bind]) never touch a byte:
// they drop what exceeds the limit. Between them the library writes no more than
// it reads, apart from the room that around leaves.
func shrinkBuffers(d *device.Device, limit int) bool {
	pools := reflect.ValueOf(d).Elem().FieldByName("pool")
	if pools.Kind() != reflect.Struct {
		return false
	}
	pool := pools.FieldByName("messageBuffers")
	if !pool.IsValid() || pool.Type() != reflect.TypeFor[*device.WaitPool]() {
		return false
	}
	size := (limit + around + 63) &^ 63
	var mu sync.Mutex
	var free []byte
	small := device.NewWaitPool(device.PreallocatedBuffersPerPool, func() any {
		mu.Lock()
		defer mu.Unlock()
		if len(free) < device.MaxMessageSize {
			free = make([]byte, slab*size+device.MaxMessageSize)
		}
		b := (*[device.MaxMessageSize]byte)(free)
		free = free[size:]
		return b
	})
	*(**device.WaitPool)(unsafe.Pointer(pool.UnsafeAddr())) = small
	return true
}
