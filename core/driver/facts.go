package driver

import (
	"net/netip"
	"slices"

	"github.com/flanneld/flannel/core/dataplane"
)

// Facts is what a driver reports of a host beside the objects flannel owns.
// Slices are ordered as the kernel orders them, so equal hosts give equal Facts.
type Facts struct {
	Links  []Link  // by index
	Routes []Route // of the main table, IPv4 first, each family in the kernel's order
}

// Link is a device as far as the choice of an uplink needs it.
type Link struct {
	Name     string
	Index    int // valid until the link is recreated; for ordering, not for reference
	MTU      int // bytes
	Up       bool
	Loopback bool
	MAC      dataplane.MAC
	Addrs    []LinkAddr // in the kernel's order
}

// LinkAddr is an address of a device.
type LinkAddr struct {
	Prefix     netip.Prefix
	LinkLocal  bool // scope link or an fe80::/10 or 169.254.0.0/16 address
	Permanent  bool // not learnt from a router or DHCP with a lifetime
	Temporary  bool // RFC 8981 privacy address
	Deprecated bool // preferred lifetime has ended
}

// Route is an underlay route: any unicast route of the main table that does
// not carry [dataplane.Protocol].
type Route struct {
	Dst    netip.Prefix // 0.0.0.0/0 or ::/0 for the default route
	Metric uint32       // as the kernel has it
	Hops   []Hop        // one, or more for a multipath route
	Src    netip.Addr   // preferred source, zero if none
}

// Hop is a way out of the host.
type Hop struct {
	Link string
	Via  netip.Addr // zero: on-link
}

// Equal compares by value.
func (f Facts) Equal(o Facts) bool {
	return slices.EqualFunc(f.Links, o.Links, Link.Equal) && slices.EqualFunc(f.Routes, o.Routes, Route.Equal)
}

// Equal compares by value.
func (l Link) Equal(o Link) bool {
	return l.Name == o.Name && l.Index == o.Index && l.MTU == o.MTU && l.Up == o.Up && l.Loopback == o.Loopback &&
		l.MAC == o.MAC && slices.Equal(l.Addrs, o.Addrs)
}

// Equal compares by value.
func (r Route) Equal(o Route) bool {
	return r.Dst == o.Dst && r.Metric == o.Metric && r.Src == o.Src && slices.Equal(r.Hops, o.Hops)
}
