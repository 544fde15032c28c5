package dataplane

import (
	"encoding/hex"
	"fmt"
	"net/netip"
)

// Protocol is the route protocol by which every route of ours is recognised
// after a restart without memory (rtm_protocol; free in iproute2's rt_protos).
const Protocol = 102

// ProtocolBoot is what a route carries when nobody set a protocol
// (RTPROT_BOOT); upstream flannel leaves its routes this way (interop 6.0).
const ProtocolBoot = 3

// ProtocolKernel marks routes the kernel made itself, for example for a
// connected subnet (RTPROT_KERNEL).
const ProtocolKernel = 2

// MAC is an Ethernet address. The zero value means "not set".
type MAC [6]byte

// ParseMAC reads the form aa:bb:cc:dd:ee:ff, in either case.
func ParseMAC(s string) (MAC, error) {
	var m MAC
	if len(s) != 17 {
		return MAC{}, fmt.Errorf("MAC %q: want six hex octets separated by colons", s)
	}
	for i := range m {
		if _, err := hex.Decode(m[i:i+1], []byte(s[i*3:i*3+2])); err != nil || (i < 5 && s[i*3+2] != ':') {
			return MAC{}, fmt.Errorf("MAC %q: want six hex octets separated by colons", s)
		}
	}
	return m, nil
}

// String returns the lowercase, colon separated form.
func (m MAC) String() string {
	return fmt.Sprintf("%02x:%02x:%02x:%02x:%02x:%02x", m[0], m[1], m[2], m[3], m[4], m[5])
}

// IsZero reports whether the address is not set.
func (m MAC) IsZero() bool { return m == MAC{} }

// LinkType names the kernel's kind of a link (IFLA_INFO_KIND).
type LinkType string

// The link types flannel makes.
const (
	LinkVXLAN LinkType = "vxlan"
	LinkTUN   LinkType = "tun" // of IP packets without a header, and one that stays when nobody has it open
)

// Link is a network device of ours.
type Link struct {
	Name  string
	Type  LinkType
	MTU   int // bytes
	MAC   MAC // zero in a wanted state: whatever the device has
	Up    bool
	VXLAN VXLAN // meaningful for LinkVXLAN only
}

// VXLAN holds the parameters of a vxlan device (Linux drivers/net/vxlan).
type VXLAN struct {
	VNI      uint32
	Parent   string     // name of the underlay link
	Local    netip.Addr // outer source address
	Port     uint16     // outer UDP destination port
	Learning bool
	GBP      bool
}

// Addr is an address on a link of ours, without broadcast, global scope,
// and permanent.
type Addr struct {
	Link   string
	Prefix netip.Prefix
}

// Scope is how far a route's destination is (rtm_scope).
type Scope uint8

// The scopes flannel uses. IPv6 routes always read back as ScopeGlobal.
const (
	ScopeGlobal Scope = 0
	ScopeLink   Scope = 253
)

// RouteKey identifies a route of the main table. The metric is the kernel's,
// with an IPv6 route's default of 1024 written as 0.
type RouteKey struct {
	Dst    netip.Prefix
	Metric uint32
}

// RouteKind is what a route does with packets (rtm_type).
type RouteKind string

// The kinds flannel uses.
const (
	Unicast   RouteKind = ""          // they go to the next hop
	Blackhole RouteKind = "blackhole" // they vanish; the route has neither link nor gateway
)

// Route is a route of the main table with at most one next hop.
type Route struct {
	RouteKey
	Kind     RouteKind
	Link     string
	Via      netip.Addr // zero: directly connected
	OnLink   bool       // the gateway is reachable on Link whatever the addresses say
	Scope    Scope
	Protocol uint8
	// Other is set by a driver that read a route which none of the fields
	// above describe: multipath, unreachable. It is never wanted.
	Other string
}

// NeighKey identifies a neighbour entry (ARP or NDP).
type NeighKey struct {
	Link string
	IP   netip.Addr
}

// Neigh is a permanent neighbour entry.
type Neigh struct {
	NeighKey
	MAC MAC
}

// FDBKey identifies a forwarding entry of a vxlan device.
type FDBKey struct {
	Link string
	MAC  MAC
}

// FDBEntry is a permanent "self" entry: frames to MAC leave in packets to Dst.
type FDBEntry struct {
	FDBKey
	Dst netip.Addr
}

// Sysctl is a kernel setting by its path below /proc/sys, such as
// "net/ipv6/conf/flannel.1/accept_ra".
type Sysctl struct {
	Path  string
	Value string
	// Link is the device the setting belongs to, which must exist first.
	Link string
}
