package proxy

// Vnet is what Linux says beside a packet that it has not finished: the header
// of virtio-net, which precedes each packet on a TUN device with IFF_VNET_HDR.
// The zero value says that the packet is complete.
type Vnet struct {
	Flags      uint8
	GSOType    uint8
	HeaderLen  uint16 // not to be believed on forwarded packets
	GSOSize    uint16 // bytes of payload in each packet but the last
	CsumStart  uint16 // where the sum begins
	CsumOffset uint16 // where it goes, from there
}

// Flags and types of a virtio-net header that can come with IPv4.
const (
	VnetNeedsCsum = 1 // the checksum holds the pseudo header only
	VnetDataValid = 2 // the checksum was verified

	VnetGSONone  = 0
	VnetGSOTCPv4 = 1
	VnetGSOUDP   = 5    // datagrams of one size (UDP_L4), not fragments of one
	VnetGSOECN   = 0x80 // with TCP: the first packet has CWR
)
