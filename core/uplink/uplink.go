package uplink

import (
	"fmt"
	"net/netip"
	"slices"
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
	MTU        int        // of the way to the peers, in bytes
	IP         netip.Addr // on the link
	IPv6       netip.Addr
	PublicIP   netip.Addr // for peers
	PublicIPv6 netip.Addr
	// PassedOver says why each selector before the chosen one failed.
	PassedOver string `json:",omitempty"`
	// By is the flag that chose the link, or "default route".
	By string `json:",omitempty"`
	// RouteMTU is the bound of the default route of each family to MTU; 0: none.
	RouteMTU [2]int `json:",omitzero"`
}

// Addr returns the link's own address of one family.
func (u Uplink) Addr(f cidr.Family) netip.Addr {
	return cidr.Pick(f, u.IP, u.IPv6)
}

// Public returns the published address of one family.
func (u Uplink) Public(f cidr.Family) netip.Addr {
	return cidr.Pick(f, u.PublicIP, u.PublicIPv6)
}

// Select chooses the uplink for the families of the network, for a host on which none is in use. The error says why
// each selector failed.
func Select(opts Options, network config.Network, on Host) (Uplink, error) {
	h, err := newHost(opts, network, on, Uplink{})
	if err != nil {
		return Uplink{}, err
	}
	u, _, err := h.fresh()
	return u, err
}

// newHost returns the facts for a choice by these options.
func newHost(opts Options, network config.Network, on Host, used Uplink) (host, error) {
	h := host{facts: on.Facts, own: Own{Devices: on.Own.Devices, Bridges: on.Own.Bridges}, network: network, used: used}
	h.own.Networks = slices.Concat(on.Own.Networks, network.Off)
	for _, f := range cidr.Families {
		if network.Of(f).Enabled() {
			h.families = append(h.families, f)
			h.own.Networks = append(h.own.Networks, network.Of(f).Network)
		}
	}
	public, err := opts.public()
	if err != nil {
		return h, err
	}
	for f, a := range public {
		if network, inside := h.overlay(a); inside {
			return h, fmt.Errorf("%s %q: the address is inside the network %s, and no peer reaches it",
				publicFlag[f], a, network)
		}
	}
	h.public = public
	h.selectors = opts.selectors(public, h.families)
	return h, nil
}

// fresh returns the choice of the first selector that has one, and the selector's place.
func (h host) fresh() (u Uplink, place int, err error) {
	var failed []string
	for i, s := range h.selectors {
		c, err := s.choose(h)
		if err == nil {
			err = h.complete(&c)
		}
		if err == nil {
			u := h.uplink(c)
			u.By, u.PassedOver = s.flag, strings.Join(failed, "; ")
			return u, i, nil
		}
		failed = append(failed, fmt.Sprintf("%s: %v", s.flag, err))
	}
	return Uplink{}, 0, fmt.Errorf("no usable interface: %s", strings.Join(failed, "; "))
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

func (h host) uplink(c candidate) Uplink {
	u := Uplink{Link: c.link.Name, IP: c.addrs[cidr.V4], IPv6: c.addrs[cidr.V6]}
	u.MTU, u.RouteMTU = h.mtu(c.link, c.addrs)
	for _, f := range h.families {
		a := h.public[f]
		if !a.IsValid() {
			a = c.addrs[f]
		}
		*cidr.Pick(f, &u.PublicIP, &u.PublicIPv6) = a
	}
	return u
}
