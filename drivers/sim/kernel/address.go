package kernel

import (
	"net/netip"
	"slices"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/driver"
)

// addAddr assigns an address.
func (l *link) addAddr(p netip.Prefix) error {
	f := cidr.FamilyOf(p.Addr())
	switch {
	case f == cidr.V6 && l.stack.no6:
		return driver.ErrUnsupported
	case f == cidr.V6 && !l.has6:
		return driver.ErrInvalid
	}
	if f == cidr.V6 && l.disabled6() {
		return driver.ErrDenied
	}
	same := func(a address) bool {
		// An IPv6 address is unique on its link, an IPv4 one may be there
		// once with every prefix length.
		return a.prefix == p || f == cidr.V6 && a.prefix.Addr() == p.Addr()
	}
	if slices.ContainsFunc(l.addrs[f], same) {
		return driver.ErrExists
	}
	a := l.insertAddr(p)
	if l.up && !a.secondary {
		l.connectAddr(p)
	}
	return nil
}

// isLocal reports whether an address is one of the host's addresses.
func (s *stack) isLocal(a netip.Addr) bool { return len(s.local[a]) > 0 }

// has reports whether an address is one of the link's addresses.
func (l *link) has(a netip.Addr) bool {
	return slices.ContainsFunc(l.addrs[cidr.FamilyOf(a)], func(o address) bool { return o.prefix.Addr() == a })
}

// routerAnycast reports whether an address is the anycast address of all
// routers on a subnet of the link (RFC 4291, 2.6.1), which IPv6 has while it
// forwards.
func (l *link) routerAnycast(a netip.Addr) bool {
	if !l.up || !isOn(l.stack.setting(l, cidr.V6, "forwarding")) {
		return false
	}
	return slices.ContainsFunc(l.addrs[cidr.V6], func(o address) bool {
		return o.prefix.Bits() < 127 && o.prefix.Masked().Addr() == a
	})
}

// insertAddr adds an address at its place in the kernel's order: IPv4 primaries
// in order and then the secondaries; IPv6 the newest first, but behind those of
// wider scope.
func (l *link) insertAddr(p netip.Prefix) address {
	f := cidr.FamilyOf(p.Addr())
	list := l.addrs[f]
	a := address{prefix: p}
	at := 0
	if f == cidr.V4 {
		a.secondary = slices.ContainsFunc(list, func(o address) bool {
			return !o.secondary && o.prefix.Masked() == p.Masked()
		})
		for at < len(list) && (a.secondary || !list[at].secondary) {
			at++
		}
	} else if p.Addr().IsLinkLocalUnicast() {
		for at < len(list) && !list[at].prefix.Addr().IsLinkLocalUnicast() {
			at++
		}
	}
	l.addrs[f] = slices.Insert(list, at, a)
	if homes := l.stack.local[p.Addr()]; !slices.Contains(homes, l) {
		l.stack.local[p.Addr()] = append(homes, l)
	}
	return a
}

// forgetAddr removes an address from the link and nothing else.
func (l *link) forgetAddr(p netip.Prefix) {
	f := cidr.FamilyOf(p.Addr())
	n := len(l.addrs[f])
	l.addrs[f] = slices.DeleteFunc(l.addrs[f], func(a address) bool { return a.prefix == p })
	if len(l.addrs[f]) == n {
		return
	}
	if l.has(p.Addr()) { // with another prefix length
		return
	}
	s := l.stack
	if len(s.local[p.Addr()]) == 1 {
		delete(s.local, p.Addr())
		return
	}
	s.local[p.Addr()] = slices.DeleteFunc(s.local[p.Addr()], func(o *link) bool { return o == l })
}

// delAddr removes an address and all that depends on it. IPv4: its secondaries,
// the connected route, and with the last address every route and neighbour of
// the link. IPv6: the connected route.
func (l *link) delAddr(p netip.Prefix) error {
	f := cidr.FamilyOf(p.Addr())
	at := slices.IndexFunc(l.addrs[f], func(a address) bool { return a.prefix == p })
	if at < 0 {
		return driver.ErrNotFound
	}
	gone := []address{l.addrs[f][at]}
	if f == cidr.V4 && !gone[0].secondary {
		for _, a := range l.addrs[f] {
			if a.secondary && a.prefix.Masked() == p.Masked() {
				gone = append(gone, a)
			}
		}
	}
	for _, a := range gone {
		l.forgetAddr(a.prefix)
	}
	l.disconnect(p)
	if f == cidr.V4 && len(l.addrs[f]) == 0 {
		// Routes that use an object stay.
		l.stack.fibs[f].remove(func(r *route) bool { return r.nextHop == 0 && r.leave(l) })
		l.dropNeighs(f)
	}
	return nil
}

// connect makes the connected routes of all addresses of a family.
func (l *link) connect(f cidr.Family) {
	for _, a := range l.addrs[f] {
		if !a.secondary {
			l.connectAddr(a.prefix)
		}
	}
}

// refresh replaces an IPv6 address by itself, as the kernel does: the connected
// route comes back, and replaces the route that the kernel takes for it.
func (l *link) refresh(a netip.Addr) {
	for _, o := range l.addrs[cidr.V6] {
		if o.prefix.Addr() != a || !l.up {
			continue
		}
		if r := l.prefixRoute(o.prefix); r != nil && r.metric != metricConnected6 {
			l.stack.fibs[cidr.V6].removeAt(r.dst, func(o *route) bool { return o == r })
		}
		l.connectAddr(o.prefix)
	}
}

// prefixRoute finds the route that the kernel takes for the connected route of
// an address. For IPv4 that is an exact copy of the kernel's own, for IPv6 the
// first without a gateway, of any protocol.
func (l *link) prefixRoute(p netip.Prefix) *route {
	f := cidr.FamilyOf(p.Addr())
	for _, r := range l.stack.fibs[f].at(p.Masked()) {
		asMade := r.proto == dataplane.ProtocolKernel && r.scope == dataplane.ScopeLink && r.src == p.Addr()
		if r.link == l && !r.via.IsValid() && (f == cidr.V6 || asMade) {
			return r
		}
	}
	return nil
}

// connectAddr makes the on-link route that an address implies. A single IPv4
// address implies none.
func (l *link) connectAddr(p netip.Prefix) {
	r := &route{dst: p.Masked(), hop: hop{link: l}, proto: dataplane.ProtocolKernel}
	f := cidr.FamilyOf(p.Addr())
	if f == cidr.V4 {
		if p.IsSingleIP() {
			return
		}
		r.scope, r.src = dataplane.ScopeLink, p.Addr()
	} else {
		r.metric = metricConnected6
	}
	if slices.ContainsFunc(l.stack.fibs[f].at(r.dst), func(o *route) bool { return o.same(r) }) {
		return
	}
	_ = l.stack.fibs[f].add(r, false) // fails only if add must be exclusive
}

// disconnect removes the connected route of a deleted address, unless another
// address implies it too.
func (l *link) disconnect(p netip.Prefix) {
	f := cidr.FamilyOf(p.Addr())
	implied := func(a address) bool { return a.prefix.Masked() == p.Masked() }
	if slices.ContainsFunc(l.addrs[f], implied) {
		return
	}
	if r := l.prefixRoute(p); r != nil {
		l.stack.fibs[f].removeAt(r.dst, func(o *route) bool { return o == r })
	}
}
