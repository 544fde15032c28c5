package uplink

import (
	"errors"
	"fmt"
	"net/netip"
	"regexp"
	"slices"

	"github.com/flanneld/flannel/core/cidr"
)

var publicFlag = [2]string{cidr.V4: "--public-ip", cidr.V6: "--public-ipv6"}

// selector is one way to choose a link, and the flag that asked for it.
type selector struct {
	flag   string
	choose func(host) (candidate, error)
}

// selectors returns the selectors to try, in order (interop section 8).
func (o Options) selectors(public [2]netip.Addr, families []cidr.Family) []selector {
	var list []selector
	add := func(choose func(host) (candidate, error), format string, args ...any) {
		list = append(list, selector{fmt.Sprintf(format, args...), choose})
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
			add(byAddr(public[f], public), "%s %q", publicFlag[f], public[f])
			return list
		}
	}
	if o.FromNode {
		add(byNode(o), "--iface-from-node")
		return list
	}
	add(byDefault, "default route")
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
// else the first with a matching name.
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
			if c.has(h.families) {
				return c, nil
			}
		}
		for _, l := range h.links() {
			if re.MatchString(l.Name) {
				return candidate{link: l}, nil
			}
		}
		return candidate{}, errors.New("no interface matches by its addresses or its name")
	}
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

// byDefault chooses the link of the default route, which all families must share.
func byDefault(h host) (candidate, error) {
	var c candidate
	for i, f := range h.families {
		route, ok := h.defaultRoute(f)
		if !ok {
			return candidate{}, fmt.Errorf("there is no %v default route", f)
		}
		l, ok := h.link(route.Hops[0].Link)
		if !ok {
			return candidate{}, fmt.Errorf("the %v default route leaves through unknown interface %q", f, route.Hops[0].Link)
		}
		if i > 0 && l.Name != c.link.Name {
			return candidate{}, fmt.Errorf("the IPv4 route leaves through %s, the IPv6 route through %s: choose with --iface",
				c.link.Name, l.Name)
		}
		c.link = l
	}
	return c, nil
}
