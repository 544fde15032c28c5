package lang

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/driver"
)

// underlayFamilies returns the families of which every uplink has an address.
func (s *Session) underlayFamilies() []cidr.Family {
	if s.top.HasIPv6() {
		return cidr.Families[:]
	}
	return []cidr.Family{cidr.V4}
}

// loseAddress takes the addresses of a node's uplink until the heal.
func (s *Session) loseAddress(name string, n Node, u Uplink) error {
	i, _, err := s.indexes(name, name)
	if err != nil {
		return err
	}
	k, err := able[Kernel](s, n)
	if err != nil {
		return err
	}
	each := func(do func(dataplane.Object) error, but error) error {
		var errs []error
		for _, f := range s.underlayFamilies() {
			length := UnderlayAddr(f, s.top.Segment(i), i+1).Bits()
			a := dataplane.Addr{Link: "eth0", Prefix: netip.PrefixFrom(s.address(i, f), length)}
			errs = append(errs, unless(but, do(a)))
		}
		return errors.Join(errs...)
	}
	lose := func() error { return each(k.Remove, driver.ErrNotFound) }
	return s.lasting(name+" uplink-address", true, lose, func() error {
		errs := []error{each(k.Add, driver.ErrExists)} // of both families, before their routes
		for _, f := range s.underlayFamilies() {
			errs = append(errs, u.UplinkAddress(s.address(i, f)))
		}
		return errors.Join(errs...)
	})
}

// faultDefaultRoute performs "fault n2 default-route off|on": the host has no default route by its uplink until
// the heal, as while a DHCP client or a routing daemon restarts.
func faultDefaultRoute(s *Session, name string, n Node, a *args, _ string) error {
	off := a.either("off", "on")
	k, err := afterArgs[Kernel](s, n, a)
	if err != nil {
		return err
	}
	i, _, err := s.indexes(name, name)
	if err != nil {
		return err
	}
	var routes []dataplane.Route
	for _, f := range s.underlayFamilies() {
		router := UnderlayAddr(f, s.top.Segment(i), RouterHost).Addr()
		all, err := router.Prefix(0)
		if err != nil {
			return err
		}
		routes = append(routes, dataplane.Route{RouteKey: dataplane.RouteKey{Dst: all}, Via: router, Link: "eth0",
			Protocol: dataplane.ProtocolBoot})
	}
	return setting(s, name+" default-route", off, func(off bool) error {
		var errs []error
		for _, r := range routes {
			if off {
				errs = append(errs, unless(driver.ErrNotFound, k.Remove(r)))
			} else {
				err := unless(driver.ErrExists, k.Add(r))
				// Without its address or its link the uplink cannot have a route: it gets that along with them.
				errs = append(errs, unless(driver.ErrUnreachable, unless(driver.ErrLinkDown, err)))
			}
		}
		return errors.Join(errs...)
	})
}

// faultNIC performs "fault n2 nic eth1 address=172.20.0.1/24 [metric=600]": until the heal the host has a
// second network card with this address, and a default route to the first address of its subnet.
func faultNIC(s *Session, name string, n Node, a *args, _ string) error {
	dev, text := a.word("device"), ""
	metric := 600
	a.text("address", &text)
	a.integer("metric", &metric)
	links, err := afterArgs[LinkEditor](s, n, a)
	if err != nil {
		return err
	}
	address, err := netip.ParsePrefix(text)
	if err != nil {
		return fmt.Errorf("address=%s: %w", text, err)
	}
	all, err := address.Addr().Prefix(0)
	if err != nil {
		return err
	}
	cards, err := able[NICAdder](s, n)
	if err != nil {
		return err
	}
	k, err := able[Kernel](s, n)
	if err != nil {
		return err
	}
	plug := func() error {
		if err := cards.AddNIC(dev); err != nil {
			return err
		}
		if err := k.Add(dataplane.Addr{Link: dev, Prefix: address}); err != nil {
			return err
		}
		return k.Add(dataplane.Route{RouteKey: dataplane.RouteKey{Dst: all, Metric: uint32(metric)},
			Via: address.Masked().Addr().Next().Next(), Link: dev, Protocol: dataplane.ProtocolBoot})
	}
	unplug := func() error { return unless(driver.ErrNotFound, links.LinkDelete(dev)) }
	return s.lasting(name+" nic "+dev, true, plug, unplug)
}
