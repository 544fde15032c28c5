package udppath

import "encoding/binary"

// Vnet is the header of virtio-net, which precedes each packet on a TUN device
// with IFF_VNET_HDR. It says how to finish a packet that Linux left unfinished;
// the zero value says that the packet is complete.
type Vnet struct {
	Flags      uint8
	GSOType    uint8
	HeaderLen  uint16 // of all headers; unreliable on forwarded packets
	GSOSize    uint16 // bytes of payload in each packet but the last
	CsumStart  uint16 // where the sum begins
	CsumOffset uint16 // where it goes, from there
}

// VnetSize is the default length of the header on a TUN device, without the
// number of buffers at the end of newer headers.
const VnetSize = 10

// The flag and the types of a virtio-net header that can come with IPv4.
const (
	VnetNeedsCsum = 1 // the checksum holds the sum of the pseudo header only

	VnetGSONone  = 0
	VnetGSOTCPv4 = 1
	VnetGSOUDP   = 5    // datagrams of one size (UDP_L4), not fragments of one
	VnetGSOECN   = 0x80 // with TCP: the first packet has CWR
)

// ParseVnet reads a header. Its numbers are in the machine's byte order, the
// default of a TUN device.
func ParseVnet(b *[VnetSize]byte) Vnet {
	return Vnet{
		Flags:      b[0],
		GSOType:    b[1],
		HeaderLen:  binary.NativeEndian.Uint16(b[2:]),
		GSOSize:    binary.NativeEndian.Uint16(b[4:]),
		CsumStart:  binary.NativeEndian.Uint16(b[6:]),
		CsumOffset: binary.NativeEndian.Uint16(b[8:]),
	}
}

// Put writes the header.
func (v Vnet) Put(b *[VnetSize]byte) {
	b[0], b[1] = v.Flags, v.GSOType
	binary.NativeEndian.PutUint16(b[2:], v.HeaderLen)
	binary.NativeEndian.PutUint16(b[4:], v.GSOSize)
	binary.NativeEndian.PutUint16(b[6:], v.CsumStart)
	binary.NativeEndian.PutUint16(b[8:], v.CsumOffset)
}
