package uplink

import (
	"errors"
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strings"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/driver"
)

// defaultFlag names the choice that no flag made.
const defaultFlag = "default route"

var publicFlag = [2]string{cidr.V4: "--public-ip", cidr.V6: "--public-ipv6"}

// selector is one way to choose a link, and the flag that asked for it.
type selector struct {
	flag   string
	choose func(host) (candidate, error)
	// fits reports whether a former choice by the flag is still what the flag asks for; nil: it always is.
	fits func(Uplink) bool
}

// selectors returns the selectors to try, in order (interop section 8).
func (o Options) selectors(public [2]netip.Addr, families []cidr.Family) []selector {
	var list []selector
	add := func(choose func(host) (candidate, error), format string, args ...any) *selector {
		list = append(list, selector{flag: fmt.Sprintf(format, args...), choose: choose})
		return &list[len(list)-1]
	}
	for _, value := range o.Ifaces {
		if a, err := netip.ParseAddr(value); err == nil {
			add(byAddr(a.Unmap(), public), "--iface %q", value)
		} else {
			add(byName(value), "--iface %q", value)
		}
	}
	for _, pattern := range o.Regexes {
		add(byRegex(pattern), "--iface-regex %q", pattern)
	}
	if o.CanReach != "" {
		add(byReach(o), "--iface-can-reach %q", o.CanReach)
	}
	if len(list) > 0 {
		return list
	}
	for _, f := range families {
		if public[f].IsValid() {
			add(byAddr(public[f], public), "%s %q", publicFlag[f], public[f]).fits = func(u Uplink) bool {
				return f == cidr.V6 || !u.IPv6.IsValid() || !public[cidr.V6].IsValid() || u.IPv6 == public[cidr.V6]
			}
			return list
		}
	}
	if o.FromNode {
		add(byNode(o), "--iface-from-node").fits = func(u Uplink) bool {
			differs := func(f cidr.Family) bool {
				return o.NodeIPs[f].IsValid() && u.Addr(f).IsValid() && u.Addr(f) != o.NodeIPs[f]
			}
			return !slices.ContainsFunc(families, differs)
		}
		return list
	}
	add(byDefault, defaultFlag)
	return list
}

// byNode chooses the link that owns the addresses of the node object. There is no
// fallback to the default route: it would move the node to another network when an
// address is missing for a moment.
func byNode(o Options) func(host) (candidate, error) {
	return func(h host) (candidate, error) {
		var c candidate
		for _, f := range h.families {
			a := o.NodeIPs[f]
			if !a.IsValid() {
				continue
			}
			l, ok := h.owner(a)
			if !ok {
				return candidate{}, fmt.Errorf("no interface has %v, the InternalIP of %s: set kubelet's --node-ip to an "+
					"address of this host, or choose with --iface", a, o.node())
			}
			if c.link.Name != "" && c.link.Name != l.Name {
				return candidate{}, fmt.Errorf("the InternalIPs of %s are on two interfaces, %s and %s (%v): "+
					"choose with --iface", o.node(), c.link.Name, l.Name, a)
			}
			c.link = l
			c.addrs[f] = a
		}
		if c.link.Name == "" {
			return candidate{}, fmt.Errorf("%s has no InternalIP in the families of the network yet: kubelet's --node-ip "+
				"or the cloud controller sets it; or choose with --iface", o.node())
		}
		return c, nil
	}
}

// node names the node object in messages.
func (o Options) node() string {
	if o.Node == "" {
		return "this node, whose object could not be read,"
	}
	return "node " + o.Node
}

// byAddr chooses the link that owns an address. In dual stack a public IPv6
// address must be on that link too, unless the owned one is IPv6 itself: an
// IPv4 address may be translated on its way, an IPv6 address is not.
func byAddr(owned netip.Addr, public [2]netip.Addr) func(host) (candidate, error) {
	return func(h host) (candidate, error) {
		l, ok := h.owner(owned)
		if !ok {
			return candidate{}, fmt.Errorf("no interface has address %v", owned)
		}
		c := candidate{link: l}
		f := cidr.FamilyOf(owned)
		c.addrs[f] = owned
		if v6 := public[cidr.V6]; f == cidr.V4 && v6.IsValid() && slices.Contains(h.families, cidr.V6) {
			if !owns(l, v6) {
				return candidate{}, fmt.Errorf("interface %s has no address %v (%s)", l.Name, v6, publicFlag[cidr.V6])
			}
			c.addrs[cidr.V6] = v6
		}
		return c, nil
	}
}

func byName(name string) func(host) (candidate, error) {
	return func(h host) (candidate, error) {
		l, ok := h.link(name)
		if !ok {
			return candidate{}, errors.New("there is no interface of that name")
		}
		return candidate{link: l}, nil
	}
}

// byRegex chooses the first link with a matching address in every family, or
// else the first with a matching name. Links and addresses of the overlay do not count.
func byRegex(pattern string) func(host) (candidate, error) {
	return func(h host) (candidate, error) {
		re, err := regexp.Compile(pattern)
		if err != nil {
			return candidate{}, err
		}
		matches := func(p netip.Prefix) bool { return re.MatchString(p.Addr().String()) }
		for _, l := range h.links() {
			c := candidate{link: l}
			for _, f := range h.families {
				c.addrs[f] = h.best(l, f, matches)
			}
			if c.has(h.families) && h.barred(l) == "" {
				return c, nil
			}
		}
		for _, l := range h.links() {
			if re.MatchString(l.Name) && h.barred(l) == "" {
				return candidate{link: l}, nil
			}
		}
		return candidate{}, h.noMatch(re)
	}
}

// noMatch returns an error that names the links of the overlay and the addresses that a pattern would match.
func (h host) noMatch(re *regexp.Regexp) error {
	var barred []string
	for _, l := range h.facts.Links {
		err := h.refuse(l)
		for _, la := range l.Addrs {
			why := h.barredAddr(l, la)
			if err == nil && why != "" && re.MatchString(la.Prefix.Addr().String()) {
				barred = append(barred, fmt.Sprintf("interface %s: %s", l.Name, why))
			}
		}
		matches := func(la driver.LinkAddr) bool { return re.MatchString(la.Prefix.Addr().String()) }
		if err != nil && (re.MatchString(l.Name) || slices.ContainsFunc(l.Addrs, matches)) {
			barred = append(barred, err.Error())
		}
	}
	if len(barred) == 0 {
		return errors.New("no interface matches by its addresses or its name")
	}
	return fmt.Errorf("nothing else matches, but %s", strings.Join(barred, ", "))
}

// byReach chooses the link and the source address of packets to the address of
// --iface-can-reach.
func byReach(o Options) func(host) (candidate, error) {
	return func(h host) (candidate, error) {
		to, err := o.CanReachAddr()
		if err != nil {
			return candidate{}, err
		}
		route, l, err := h.toward(to)
		if err != nil {
			return candidate{}, err
		}
		c := candidate{link: l}
		f := cidr.FamilyOf(to)
		c.addrs[f] = route.Src
		if !route.Src.IsValid() {
			next := route.Hops[0].Via
			if !next.IsValid() || next.IsLinkLocalUnicast() {
				next = to
			}
			c.addrs[f] = h.best(l, f, func(p netip.Prefix) bool { return p.Contains(next) })
		}
		return c, nil
	}
}

// byDefault chooses the link of the default route, which all families must share. Of several hops, it takes the first.
func byDefault(h host) (candidate, error) {
	var names []string
	for i, f := range h.families {
		route, ok := h.defaultRoute(f)
		if !ok {
			return candidate{}, h.noDefault(f)
		}
		further := h.leavesBy(route, f)
		if _, known := h.link(further[0]); !known {
			return candidate{}, fmt.Errorf("the %v default route leaves through unknown interface %q", f, further[0])
		}
		if i == 0 {
			names = further
			continue
		}
		shared := slices.DeleteFunc(slices.Clone(names), func(n string) bool { return !slices.Contains(further, n) })
		if len(shared) == 0 {
			return candidate{}, fmt.Errorf("the IPv4 route leaves through %s, the IPv6 route through %s: choose with --iface",
				names[0], further[0])
		}
		names = shared
	}
	l, _ := h.link(names[0])
	return candidate{link: l}, nil
}

// noDefault returns why there is no default route that counts.
func (h host) noDefault(f cidr.Family) error {
	for _, r := range h.defaults(f) {
		for _, hop := range r.Hops {
			if l, ok := h.link(hop.Link); ok && h.refuseHop(l, f) != nil {
				return fmt.Errorf("the only %v default routes do not count: %w", f, h.refuseHop(l, f))
			}
		}
	}
	return fmt.Errorf("there is no %v default route", f)
}
