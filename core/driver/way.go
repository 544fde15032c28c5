package driver

import "net/netip"

// Packet holds the properties of a packet by which a host may choose its way.
type Packet struct {
	Src, Dst netip.Addr // Src may be zero
	In       string     // the device by which it comes; empty: the host sends it
	Protocol uint8      // the number of its IP protocol; one without ports, other than ICMP, is not taken into account
	Port     uint16     // the destination's, with tcp and udp; 0: not known
	Mark     uint32
}

// Way is a host's choice for a packet.
type Way struct {
	Kind uint8      // the kernel's number, such as RTN_UNICAST
	Link string     // device by which the packet leaves
	Via  netip.Addr // gateway; zero: the destination is on the link
	Src  netip.Addr // preferred source, if the kernel names one
	MTU  int        // of the path, if the kernel knows a smaller one than the device's; else 0
	// Table is the number of the table in which the host found the way; 0: it is not known.
	Table uint32
}

// Router is a host that says which way it would choose.
type Router interface {
	// Way fails with the kernel's own error if the kernel would drop the packet.
	Way(Packet) (Way, error)
}
