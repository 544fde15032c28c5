package driver

import (
	"maps"
	"net/netip"
	"slices"

	"github.com/flanneld/flannel/core/dataplane"
)

// HostFacts are the links of a host, those of its underlay routes that the look
// asked for (see [dataplane.Extent]), and the host's answers about keys and kinds of
// links. Slices are ordered as the kernel orders them, so equal hosts give equal
// facts.
type HostFacts struct {
	Links  []Link  // by index
	Routes []Route // of the main table, IPv4 first, each family in the kernel's order

	// Keys answers the extent's Keys.
	Keys map[dataplane.SecretName]Key
	// Unsupported holds, for those of the extent's Kinds of which the kernel can
	// make no link, the reason and the remedy. A driver that does not know says nothing.
	Unsupported map[dataplane.LinkKind]string
	// NextHops means that the kernel has next-hop objects (Linux 5.3).
	NextHops bool
}

// Key is the public half of a private key.
type Key struct {
	Public dataplane.PublicKey
	Err    string // if there is none: why, and the remedy
}

// Link holds the properties of a device that the choice of an uplink needs.
type Link struct {
	Name  string
	Index int // valid until the link is recreated; for ordering, not for reference
	MTU   int // bytes
	Up    bool
	// NoCarrier means that the link is up and cannot send: its cable is out, or the other end is down. It is not known
	// of a bridge, whose carrier is that of its ports.
	NoCarrier bool
	Loopback  bool
	Bridge    bool
	Master    string // the link of which this one is a port; "": none
	MAC       dataplane.MAC
	Addrs     []LinkAddr // in the kernel's order

	// NoForwarding tells for each family whether the host certainly forwards no
	// packet that comes in by this link. For IPv4 the link's own setting decides,
	// for IPv6 that of [dataplane.Forwarding], unless the link overrules it.
	NoForwarding [2]bool

	// Inside means that packets which leave by the link seem to stay on this host: it is a
	// veth without a network of its own whose other end is in another namespace, such as the
	// host's end of a pod's, or a bridge without ports except such veths. The uplink of a host
	// that is a container itself may look the same.
	Inside bool
}

// LinkAddr is an address of a device.
type LinkAddr struct {
	Prefix     netip.Prefix
	LinkLocal  bool // scope link or an fe80::/10 or 169.254.0.0/16 address
	Permanent  bool // without a lifetime, unlike addresses from a router or DHCP
	Temporary  bool // RFC 8981 privacy address
	Deprecated bool // preferred lifetime has ended
	Tentative  bool // not usable yet: the kernel looks for another host with the address
	Duplicate  bool // not usable: another host has the address
}

// Route is an underlay route: a unicast route of the main table that does not
// carry [dataplane.Protocol].
type Route struct {
	Dst    netip.Prefix // 0.0.0.0/0 or ::/0 for the default route
	Metric uint32       // as the kernel has it
	Hops   []Hop        // one, or several of a multipath route, also those of a next-hop object
	Src    netip.Addr   // preferred source, zero if none
	MTU    int          // the route's own, in bytes; 0: that of the link
}

// Hop is a way out of the host.
type Hop struct {
	Link string
	Via  netip.Addr // zero: on-link; of an IPv4 route it may be an IPv6 address
}

// Equal reports whether the facts are the same.
func (f HostFacts) Equal(o HostFacts) bool {
	return slices.EqualFunc(f.Links, o.Links, Link.Equal) && slices.EqualFunc(f.Routes, o.Routes, Route.Equal) &&
		f.NextHops == o.NextHops && maps.Equal(f.Keys, o.Keys) && maps.Equal(f.Unsupported, o.Unsupported)
}

// Equal reports whether all fields are the same.
func (l Link) Equal(o Link) bool {
	return l.Name == o.Name &&
		l.Index == o.Index &&
		l.MTU == o.MTU &&
		l.Up == o.Up &&
		l.NoCarrier == o.NoCarrier &&
		l.Loopback == o.Loopback &&
		l.Bridge == o.Bridge &&
		l.Master == o.Master &&
		l.MAC == o.MAC &&
		slices.Equal(l.Addrs, o.Addrs) &&
		l.NoForwarding == o.NoForwarding &&
		l.Inside == o.Inside
}

// Equal reports whether all fields are the same.
func (r Route) Equal(o Route) bool {
	return r.Dst == o.Dst && r.Metric == o.Metric && r.Src == o.Src && r.MTU == o.MTU && slices.Equal(r.Hops, o.Hops)
}
