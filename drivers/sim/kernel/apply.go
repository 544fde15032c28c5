package kernel

import (
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"slices"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/driver"
)

// apply performs one op wholly or not at all.
func (s *stack) apply(op dataplane.Op) error {
	known := []dataplane.Verb{dataplane.Create, dataplane.Replace, dataplane.Delete}
	if !slices.Contains(known, op.Verb) {
		return fmt.Errorf("unknown verb: %w", driver.ErrInvalid)
	}
	switch o := op.Object.(type) {
	case dataplane.Link:
		return s.applyLink(op.Verb, o)
	case dataplane.Addr:
		return s.applyAddr(op.Verb, o)
	case dataplane.Route:
		return s.applyRoute(op.Verb, o)
	case dataplane.NextHop:
		return s.applyNextHop(op.Verb, o)
	case dataplane.Neigh:
		return s.applyNeigh(op.Verb, o)
	case dataplane.FDBEntry:
		return s.applyFDB(op.Verb, o)
	case dataplane.Policy:
		return s.applyPolicy(op.Verb, o)
	case dataplane.WGPeer:
		return s.applyWGPeer(op.Verb, o, dataplane.Secret{})
	case dataplane.Sysctl:
		if op.Verb == dataplane.Delete {
			return fmt.Errorf("a setting cannot be deleted: %w", driver.ErrUnsupported)
		}
		if !fs.ValidPath(o.Path) {
			return fmt.Errorf("path leaves /proc/sys: %w", driver.ErrInvalid)
		}
		return s.setSysctl(o.Path, o.Value)
	}
	return fmt.Errorf("unknown kind of object: %w", driver.ErrUnsupported)
}

func (s *stack) applyAddr(verb dataplane.Verb, o dataplane.Addr) error {
	l, err := s.find(o.Link)
	if err != nil {
		return err
	}
	if verb == dataplane.Delete {
		return l.delAddr(o.Prefix)
	}
	err = l.addAddr(o.Prefix)
	if verb == dataplane.Replace && errors.Is(err, driver.ErrExists) {
		l.refresh(o.Prefix.Addr())
		return nil
	}
	return err
}

func (s *stack) applyNeigh(verb dataplane.Verb, o dataplane.Neigh) error {
	l, err := s.find(o.Link)
	if err != nil {
		return err
	}
	if cidr.FamilyOf(o.IP) == cidr.V6 && s.no6 {
		return fmt.Errorf("the kernel has no IPv6: %w", driver.ErrUnsupported)
	}
	if verb != dataplane.Delete && cidr.FamilyOf(o.IP) == cidr.V6 && (!l.has6 || l.disabled6()) {
		return fmt.Errorf("IPv6 is disabled on the link: %w", driver.ErrInvalid)
	}
	_, there := l.neighs.get(o.IP)
	if err := possible(verb, there); err != nil {
		return err
	}
	if verb == dataplane.Delete {
		l.neighs.delete(o.IP)
		return nil
	}
	l.neighs.set(o.IP, neigh{o.MAC, true})
	return nil
}

// possible returns the kernel's error for the creation of an object that exists, or for the
// deletion of one that does not.
func possible(verb dataplane.Verb, there bool) error {
	switch {
	case verb == dataplane.Create && there:
		return driver.ErrExists
	case verb == dataplane.Delete && !there:
		return driver.ErrNotFound
	}
	return nil
}

func (s *stack) applyFDB(verb dataplane.Verb, o dataplane.FDBEntry) error {
	l, err := s.find(o.Link)
	if err != nil {
		return err
	}
	v, ok := l.device.(*vxlanDevice)
	if !ok {
		return fmt.Errorf("not a vxlan link: %w", driver.ErrUnsupported)
	}
	if verb != dataplane.Delete && cidr.FamilyOf(o.Dst) != v.outer {
		return fmt.Errorf("destination of another family than the link: %w", driver.ErrUnsupported)
	}
	have, there := l.fdb.get(o.MAC)
	if verb == dataplane.Replace && validMAC(o.MAC) {
		if !there || !have.value.IsUnspecified() { // the kernel keeps a next hop, and reports no error
			l.fdb.set(o.MAC, fdbEntry{o.Dst, true})
		}
		return nil
	}
	if verb == dataplane.Replace {
		if there { // the kernel keeps a learnt entry all the same
			l.fdb.set(o.MAC, fdbEntry{have.value, true})
		}
		return fmt.Errorf("entries for all frames or a group's are added, not replaced: %w", driver.ErrUnsupported)
	}
	if err := possible(verb, there); err != nil {
		return err
	}
	if verb == dataplane.Delete {
		l.fdb.delete(o.MAC)
		return nil
	}
	l.fdb.set(o.MAC, fdbEntry{o.Dst, true})
	return nil
}

func (s *stack) applyRoute(verb dataplane.Verb, o dataplane.Route) error {
	f := cidr.FamilyOf(o.Dst.Addr())
	if verb == dataplane.Delete {
		return s.fibs[f].delete(o)
	}
	if o.Other != "" {
		return fmt.Errorf("this driver makes no route of form %s: %w", o.Other, driver.ErrUnsupported)
	}
	r, err := s.checkedRoute(o)
	if err != nil {
		return err
	}
	if verb == dataplane.Create {
		return s.fibs[f].add(r, true)
	}
	return s.fibs[f].replace(r)
}

// checkedRoute returns the route as the table holds it, or the kernel's
// refusal.
func (s *stack) checkedRoute(o dataplane.Route) (*route, error) {
	f := cidr.FamilyOf(o.Dst.Addr())
	if o.Kind == dataplane.Blackhole {
		switch {
		case o.Link != "" || o.Via.IsValid() || o.OnLink:
			return nil, fmt.Errorf("a blackhole leads nowhere: %w", driver.ErrInvalid)
		case f == cidr.V4 && o.Dst != o.Dst.Masked():
			return nil, fmt.Errorf("destination has host bits: %w", driver.ErrInvalid)
		}
		return &route{dst: o.Dst.Masked(), metric: kernelMetric(o.RouteKey), proto: o.Protocol}, nil
	}
	r, err := s.routeOf(o)
	if err != nil || r.nextHop != 0 { // the object has been checked
		return r, err
	}
	return r, s.checkHop(f, r.hop, o.Scope)
}

// routeOf returns the route as the table holds it. IPv4 refuses host bits in a
// destination, IPv6 drops them.
func (s *stack) routeOf(o dataplane.Route) (*route, error) {
	if o.NextHop != 0 {
		return s.routeOver(o)
	}
	l, err := s.find(o.Link)
	if o.Link != "" && err != nil {
		return nil, err
	}
	if o.Dst != o.Dst.Masked() && o.Dst.Addr().Is4() {
		return nil, fmt.Errorf("destination has host bits: %w", driver.ErrInvalid)
	}
	if l == nil {
		l, err = s.behind(o)
	}
	if err != nil {
		return nil, err
	}
	r := &route{
		dst: o.Dst.Masked(), metric: kernelMetric(o.RouteKey), proto: o.Protocol,
		hop: hop{link: l, via: o.Via, onlink: o.OnLink},
	}
	if cidr.FamilyOf(o.Dst.Addr()) == cidr.V4 {
		r.scope = o.Scope
	}
	return r, nil
}

// kernelMetric returns the metric as the kernel stores it.
func kernelMetric(k dataplane.RouteKey) uint32 {
	if k.Metric == 0 && cidr.FamilyOf(k.Dst.Addr()) == cidr.V6 {
		return metricDefault6
	}
	return k.Metric
}

// behind finds the link of the gateway for a route that names no link.
func (s *stack) behind(o dataplane.Route) (*link, error) {
	f := cidr.FamilyOf(o.Dst.Addr())
	switch {
	case o.Via.IsValid() && cidr.FamilyOf(o.Via) != f:
		return nil, fmt.Errorf("gateway %s of the other family: %w", o.Via, driver.ErrInvalid)
	case !o.Via.IsValid() || o.OnLink && (f == cidr.V6 || o.Scope < dataplane.ScopeLink):
		return nil, fmt.Errorf("neither gateway behind a link nor link: %w", driver.ErrNotFound)
	case f == cidr.V6 && o.Via.IsLinkLocalUnicast():
		return nil, fmt.Errorf("gateway %s is on every link: %w", o.Via, driver.ErrInvalid)
	case o.OnLink:
		return nil, fmt.Errorf("gateway %s for a destination on the link: %w", o.Via, driver.ErrInvalid)
	}
	for _, l := range s.local[o.Via] {
		awake := func(a address) bool { return a.prefix.Addr() == o.Via && !a.asleep }
		if slices.ContainsFunc(l.addrs[f], awake) {
			return l, nil
		}
	}
	l := s.gatewayLink(f, o.Via, nil)
	if l == nil {
		return nil, fmt.Errorf("gateway %s is no neighbour: %w", o.Via, driver.ErrUnreachable)
	}
	return l, nil
}

// gatewayLink finds the link behind which a gateway is a neighbour, or nil.
// With a link given, only that one counts. A gateway without a route may be the
// anycast address of all routers on one of the host's subnets.
func (s *stack) gatewayLink(f cidr.Family, gateway netip.Addr, want *link) *link {
	l := s.fibs[f].neighbourLink(gateway, want)
	if l != nil || f == cidr.V4 {
		return l
	}
	for _, l := range s.links {
		if (want == nil || l == want) && l.routerAnycast(gateway) {
			return l
		}
	}
	return nil
}

// checkHop returns the kernel's objection to a next hop, in the kernel's order
// of checks.
func (s *stack) checkHop(f cidr.Family, h hop, scope dataplane.Scope) error {
	l := h.link
	down := func() error { return fmt.Errorf("link %s: %w", l.name, driver.ErrLinkDown) }
	switch {
	case h.via.IsValid() && cidr.FamilyOf(h.via) != f:
		return fmt.Errorf("gateway %s of the other family: %w", h.via, driver.ErrInvalid)
	case f == cidr.V6 && s.no6:
		return fmt.Errorf("the kernel has no IPv6: %w", driver.ErrUnsupported)
	case f == cidr.V6 && !l.has6:
		return fmt.Errorf("link %s has no IPv6: %w", l.name, driver.ErrNotFound)
	case f == cidr.V4 && h.onlink && scope >= dataplane.ScopeLink:
		return fmt.Errorf("gateway %s for a destination on the link: %w", h.via, driver.ErrInvalid)
	case h.onlink && !l.up:
		return down()
	}
	if h.via.IsValid() {
		if err := s.checkGateway(f, h, scope); err != nil {
			return err
		}
	}
	switch {
	case f == cidr.V6 && l.disabled6():
		return fmt.Errorf("IPv6 is disabled on link %s: %w", l.name, driver.ErrDenied)
	case !l.up:
		return down()
	}
	return nil
}

// checkGateway returns the kernel's objection to a gateway. IPv4 accepts one of
// the link's own addresses, and for a destination on the link nothing else;
// IPv6 refuses even an on-link gateway that is behind another link.
func (s *stack) checkGateway(f cidr.Family, h hop, scope dataplane.Scope) error {
	own := s.isLocal(h.via)
	if own && (f == cidr.V6 || h.onlink) {
		return fmt.Errorf("gateway %s is our own address: %w", h.via, driver.ErrInvalid)
	}
	if h.link.has(h.via) || f == cidr.V6 && h.via.IsLinkLocalUnicast() {
		return nil
	}
	if h.onlink {
		other := s.fibs[f].lookupVia(h.via, h.link)
		if f == cidr.V6 && other.bars(h.link) {
			return fmt.Errorf("gateway %s is behind link %s: %w", h.via, other.link.name, driver.ErrInvalid)
		}
		return nil
	}
	if f == cidr.V4 && scope >= dataplane.ScopeLink || s.gatewayLink(f, h.via, h.link) == nil {
		return fmt.Errorf("gateway %s is no neighbour on %s: %w", h.via, h.link.name, driver.ErrUnreachable)
	}
	return nil
}

// validName does the kernel's check of a device name (dev_valid_name).
func validName(name string) bool {
	if name == "" || len(name) > 15 || name == "." || name == ".." {
		return false
	}
	for _, c := range []byte(name) {
		if c == '/' || c == ':' || c <= ' ' {
			return false
		}
	}
	return true
}

// validMAC reports whether a device can have the address: group addresses are
// refused.
func validMAC(m dataplane.MAC) bool { return m[0]&1 == 0 && !m.IsZero() }
