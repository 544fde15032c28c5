package uplink

import (
	"net/netip"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/config"
	"github.com/flanneld/flannel/core/driver"
)

// Options are the selectors an operator gave, as text (interop 1.2).
type Options struct {
	Ifaces     []string // --iface, in order
	Regexes    []string // --iface-regex, in order
	CanReach   string   // --iface-can-reach
	PublicIP   string   // --public-ip
	PublicIPv6 string   // --public-ipv6
}

// Uplink is the link that carries the overlay's packets. Addresses of a
// family that is off are invalid.
type Uplink struct {
	Link       string
	MTU        int        // bytes
	IP         netip.Addr // on the link
	IPv6       netip.Addr
	PublicIP   netip.Addr // what peers use
	PublicIPv6 netip.Addr
}

// Addr returns the link's own address of one family.
func (u Uplink) Addr(f cidr.Family) netip.Addr {
	if f == cidr.V4 {
		return u.IP
	}
	return u.IPv6
}

// Public returns the published address of one family.
func (u Uplink) Public(f cidr.Family) netip.Addr {
	if f == cidr.V4 {
		return u.PublicIP
	}
	return u.PublicIPv6
}

// Select chooses the uplink for the families the network has on. The error
// says for each selector that was tried why it failed.
func Select(opts Options, network config.Network, facts driver.Facts) (Uplink, error) {
	panic("TODO")
}

// Lookup finds the route to dst by longest prefix, then lowest metric.
func Lookup(routes []driver.Route, dst netip.Addr) (driver.Route, bool) {
	panic("TODO")
}
