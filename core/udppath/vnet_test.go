package udppath

import (
	"encoding/binary"
	"testing"
)

// The header has the layout of struct virtio_net_hdr, in the machine's byte order.
func TestVnetLayout(t *testing.T) {
	v := Vnet{Flags: 1, GSOType: 5, HeaderLen: 0x1234, GSOSize: 0x2345, CsumStart: 0x3456, CsumOffset: 0x4567}
	var b [VnetSize]byte
	v.Put(&b)
	if b[0] != 1 || b[1] != 5 {
		t.Errorf("flags %d and type %d, want 1 and 5", b[0], b[1])
	}
	for i, want := range []uint16{0x1234, 0x2345, 0x3456, 0x4567} {
		if got := binary.NativeEndian.Uint16(b[2+2*i:]); got != want {
			t.Errorf("field %d is %#x, want %#x", i, got, want)
		}
	}
	if back := ParseVnet(&b); back != v {
		t.Errorf("read back as %+v, want %+v", back, v)
	}
}
