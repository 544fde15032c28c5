package uplink

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/flanneld/flannel/core/driver"
)

// CanReachAddr returns the address of --iface-can-reach, whose route the facts
// must hold.
func (o Options) CanReachAddr() (netip.Addr, error) {
	to, err := netip.ParseAddr(o.CanReach)
	if err != nil || to.Zone() != "" {
		return netip.Addr{}, errors.New("want an IP address")
	}
	return to.Unmap(), nil
}

// Unreachable returns a warning that names the address of --iface-can-reach if
// the host cannot reach it, or "". Another selector may have chosen the uplink
// all the same, or the address is in the subnet of a link that is down.
func (o Options) Unreachable(facts driver.HostFacts) string {
	if o.CanReach == "" {
		return ""
	}
	to, err := o.CanReachAddr()
	if err == nil {
		err = host{facts: facts}.reaches(to)
	}
	if err == nil {
		return ""
	}
	return fmt.Sprintf("--iface-can-reach %q: %v", o.CanReach, err)
}

// reaches returns why packets to an address do not leave the host, or nil.
func (h host) reaches(to netip.Addr) error {
	if !to.IsGlobalUnicast() && !to.IsLinkLocalUnicast() {
		return fmt.Errorf("%v is not the address of another host", to)
	}
	_, l, err := h.toward(to)
	if err != nil {
		return err
	}
	if !l.Up {
		return fmt.Errorf("the route to %v leaves through %s, which is down", to, l.Name)
	}
	return nil
}

// toward returns the route to an address, and the link through which it leaves.
func (h host) toward(to netip.Addr) (driver.Route, driver.Link, error) {
	route, ok := lookup(append(slices.Clip(h.facts.Routes), h.connected()...), to)
	if !ok || len(route.Hops) == 0 {
		return route, driver.Link{}, fmt.Errorf("there is no route to %v", to)
	}
	l, ok := h.link(route.Hops[0].Link)
	if !ok {
		return route, l, fmt.Errorf("the route to %v leaves through unknown interface %q", to, route.Hops[0].Link)
	}
	return route, l, nil
}
