package udppath

import "encoding/binary"

// Vnet is what Linux says beside a packet that it has not finished: the header
// of virtio-net, which precedes each packet on a TUN device with IFF_VNET_HDR.
// The zero value says that the packet is complete.
type Vnet struct {
	Flags      uint8
	GSOType    uint8
	HeaderLen  uint16 // of all headers; not to be believed on forwarded packets
	GSOSize    uint16 // bytes of payload in each packet but the last
	CsumStart  uint16 // where the sum begins
	CsumOffset uint16 // where it goes, from there
}

// VnetSize is the length of the header as a TUN device has it unless told
// otherwise, without the number of buffers that newer ones end with.
const VnetSize = 10

// The flag and the types of a virtio-net header that can come with IPv4.
const (
	VnetNeedsCsum = 1 // the checksum holds the sum of the pseudo header only

	VnetGSONone  = 0
	VnetGSOTCPv4 = 1
	VnetGSOUDP   = 5    // datagrams of one size (UDP_L4), not fragments of one
	VnetGSOECN   = 0x80 // with TCP: the first packet has CWR
)

// ParseVnet reads the header that begins with b[0]. Its numbers are in the
// machine's own order, which is a TUN device's unless told otherwise.
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
