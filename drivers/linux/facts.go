package linux

import (
	"slices"

	"golang.org/x/sys/unix"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/driver"
)

// fact returns the link's part of the facts. Off tells for each family whether the
// setting for the host forbids forwarding. For IPv4 the link's own setting decides
// (Linux net/ipv4/route.c, ip_route_input_slow); for IPv6 it can only allow more,
// since Linux 6.17 (net/ipv6/ip6_output.c, ip6_forward).
func (l *link) fact(off [2]bool) driver.Link {
	fact := driver.Link{
		Name: l.Name, Index: l.index, MTU: l.MTU, Up: l.Up, Loopback: l.loopback, MAC: l.MAC, NoForwarding: off,
		Bridge: l.Kind() == bridgeKind, NoCarrier: l.Up && !l.carrier && l.Kind() != bridgeKind,
	}
	for f, forwards := range l.forwards {
		if forwards != nil && (*forwards || cidr.Family(f) == cidr.V4) {
			fact.NoForwarding[f] = !*forwards
		}
	}
	return fact
}

// The kinds of links by which containers are connected.
const (
	vethKind   dataplane.LinkKind = "veth"
	bridgeKind dataplane.LinkKind = "bridge"
)

// findInside marks the bridges without ports except the veths of containers, and those veths. The
// addresses, which are read later, take the mark from veths with a network. A veth whose other end
// is in the host's own namespace may join two bridges, one of which leads to other hosts.
func (o *observer) findInside(all []link) {
	wired := map[int]bool{} // bridges with other ports, by index
	for _, l := range all {
		if !l.toContainer() {
			wired[l.master] = true
		}
	}
	for i, l := range all {
		o.facts.Links[i].Inside = l.toContainer() || l.Kind() == bridgeKind && !wired[l.index]
		o.facts.Links[i].Master = o.links.byIndex[l.master]
	}
}

// watchWired has the driver hear of the links that are not marked.
func (o *observer) watchWired() error {
	var wired []int
	for _, l := range o.facts.Links {
		if !l.Inside {
			wired = append(wired, l.Index)
		}
	}
	slices.Sort(wired)
	return o.d.hints.watchWired(wired)
}

// toContainer reports whether a link can be the host's end of a container's veth.
func (l *link) toContainer() bool { return l.Kind() == vethKind && !l.joined }

// ofContainer reports whether an address can be that of the host's end of a container's veth:
// it stands for no network.
func (a address) ofContainer() bool {
	return a.prefix.IsSingleIP() || a.prefix.Addr().IsLinkLocalUnicast()
}

func (a address) fact() driver.LinkAddr {
	ip := a.prefix.Addr()
	unproven := a.flags&(unix.IFA_F_TENTATIVE|unix.IFA_F_OPTIMISTIC) == unix.IFA_F_TENTATIVE
	duplicate := a.flags&unix.IFA_F_DADFAILED != 0
	return driver.LinkAddr{
		Prefix:     a.prefix,
		LinkLocal:  a.scope == unix.RT_SCOPE_LINK || ip.IsLinkLocalUnicast(),
		Permanent:  a.flags&unix.IFA_F_PERMANENT != 0,
		Temporary:  ip.Is6() && a.flags&unix.IFA_F_TEMPORARY != 0, // the bit means "secondary" for IPv4
		Deprecated: a.flags&unix.IFA_F_DEPRECATED != 0,
		Tentative:  unproven && !duplicate, // the kernel keeps the flag when it finds a duplicate
		Duplicate:  duplicate,
	}
}

// underlay reports whether the route can be one of the facts.
func (r *route) underlay() bool {
	return r.kind == unix.RTN_UNICAST && r.protocol != dataplane.Protocol
}

// fact returns the route as one of the facts, with the hops of the next-hop object that it uses.
func (r *route) fact(ls *links, objects nextHopObjects) (driver.Route, error) {
	hops := r.allHops(objects)
	fact := driver.Route{Dst: r.dst, Metric: r.metric, Src: r.src, MTU: r.mtu, Hops: make([]driver.Hop, len(hops))}
	for i, h := range hops {
		name, err := ls.nameOf(h.oif)
		if err != nil {
			return driver.Route{}, err
		}
		fact.Hops[i] = driver.Hop{Link: name, Via: h.via}
	}
	return fact, nil
}
