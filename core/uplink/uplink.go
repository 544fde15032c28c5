package uplink

import (
	"fmt"
	"net/netip"
	"strings"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/config"
	"github.com/flanneld/flannel/core/driver"
)

// Options are the selectors from an operator's flags, as text (interop 1.2).
type Options struct {
	Ifaces     []string // --iface, in order
	Regexes    []string // --iface-regex, in order
	CanReach   string   // --iface-can-reach
	PublicIP   string   // --public-ip
	PublicIPv6 string   // --public-ipv6

	FromNode bool          // --iface-from-node
	Node     string        // the node object, for people
	NodeIPs  [2]netip.Addr // its InternalIP of each family; invalid if there is none
}

// Uplink is the link that carries the overlay's packets. Addresses of a
// family that is off are invalid.
type Uplink struct {
	Link       string
	MTU        int        // bytes
	IP         netip.Addr // on the link
	IPv6       netip.Addr
	PublicIP   netip.Addr // for peers
	PublicIPv6 netip.Addr
	// PassedOver says why each selector before the chosen one failed.
	PassedOver string `json:",omitempty"`
}

// Addr returns the link's own address of one family.
func (u Uplink) Addr(f cidr.Family) netip.Addr {
	return cidr.Pick(f, u.IP, u.IPv6)
}

// Public returns the published address of one family.
func (u Uplink) Public(f cidr.Family) netip.Addr {
	return cidr.Pick(f, u.PublicIP, u.PublicIPv6)
}

// Select chooses the uplink for the families of the network. It keeps the link
// and the addresses in use as long as they are valid: peers know them, and
// another address or a better route that appears later is no reason to move.
// The zero Uplink means that none is in use. The error says why each selector failed.
func Select(opts Options, network config.Network, facts driver.HostFacts, used Uplink) (Uplink, error) {
	public, err := opts.public()
	if err != nil {
		return Uplink{}, err
	}
	h := host{facts: facts, used: used}
	for _, f := range cidr.Families {
		if network.Of(f).Enabled() {
			h.families = append(h.families, f)
		}
	}
	var failed []string
	for _, s := range opts.selectors(public, h.families) {
		c, err := s.choose(h)
		if err == nil {
			err = h.complete(&c)
		}
		if err == nil {
			u := c.uplink(h.families, public)
			u.PassedOver = strings.Join(failed, "; ")
			return u, nil
		}
		failed = append(failed, fmt.Sprintf("%s: %v", s.flag, err))
	}
	return Uplink{}, fmt.Errorf("no usable interface: %s", strings.Join(failed, "; "))
}

// public parses the public addresses, each invalid if absent.
func (o Options) public() ([2]netip.Addr, error) {
	var addrs [2]netip.Addr
	for _, f := range cidr.Families {
		text := cidr.Pick(f, o.PublicIP, o.PublicIPv6)
		if text == "" {
			continue
		}
		a, ok := cidr.ParseAddr(f, text)
		if !ok || a.IsUnspecified() {
			return addrs, fmt.Errorf("%s %q: want an %v address that peers can reach", publicFlag[f], text, f)
		}
		addrs[f] = a
	}
	return addrs, nil
}

// candidate is a link that a selector chose, with the addresses that the
// selector fixed. Each selector makes its own candidate, so a failed one leaves
// no address to the next (interop F8: upstream leaks such an address).
type candidate struct {
	link  driver.Link
	addrs [2]netip.Addr
}

func (c candidate) uplink(families []cidr.Family, public [2]netip.Addr) Uplink {
	u := Uplink{Link: c.link.Name, MTU: c.link.MTU, IP: c.addrs[cidr.V4], IPv6: c.addrs[cidr.V6]}
	for _, f := range families {
		a := public[f]
		if !a.IsValid() {
			a = c.addrs[f]
		}
		*cidr.Pick(f, &u.PublicIP, &u.PublicIPv6) = a
	}
	return u
}
