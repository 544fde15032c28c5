package reconcile

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"

	"github.com/flanneld/flannel/core/dataplane"
)

// Ownership says by which marks flannel recognises its objects (links and
// networks), so that a restart with no memory finds them again.
type Ownership struct {
	Links    map[string]bool // our devices; everything on them is ours, except as ownsAddr says
	Networks []netip.Prefix  // the overlay's address space
}

// Options bound what a plan may do.
type Options struct {
	Own Ownership
	// Prune allows deletes. Without it (the store is not synced) they are only counted.
	Prune bool
	// Recreate names links whose change in place the kernel refused.
	Recreate map[string]bool
	// KeepMTU holds, by link, an MTU that the kernel refused: the link keeps its present one.
	KeepMTU map[string]int
	// Denied names, by path, the sysctls that may not be changed.
	Denied map[string]bool
}

// Plan lists the operations that are due, and the ones that are impossible.
type Plan struct {
	Ops []dataplane.Op
	// Withheld counts the deletes that Prune did not allow.
	Withheld int
	// Conflicts are wanted routes in whose place the kernel has a route of its own.
	Conflicts []error
}

// Empty reports whether nothing is due, withheld or in conflict.
func (p Plan) Empty() bool { return len(p.Ops)+p.Withheld+len(p.Conflicts) == 0 }

// Diff returns the plan that turns have into want. Objects in have that are
// not owned are left alone, unless a wanted object needs their very key.
func Diff(want, have *dataplane.State, opts Options) Plan {
	d := differ{want: want, have: have, opts: opts, flushed: map[string]flush{}}
	d.links()
	d.sysctls()
	d.addrs()
	d.proxies()
	d.peers()
	d.diffFDB()
	d.diffNeighs()
	d.diffRoutes()
	return d.plan()
}

// flush says which objects the kernel removes along with a change to a link.
type flush struct {
	all    bool // the link goes, and everything on it
	neighs bool // a changed MAC empties the neighbour table (Linux net/core/neighbour.c, neigh_changeaddr)
}

type differ struct {
	want, have *dataplane.State
	opts       Options
	flushed    map[string]flush
	conflicts  []error

	early []dataplane.Op // links to delete before anything can be made
	ops   []dataplane.Op
	drop  []dataplane.Op // in the order of creation
}

func (d *differ) plan() Plan {
	p := Plan{Ops: d.ops, Conflicts: d.conflicts}
	if !d.opts.Prune {
		p.Withheld = len(d.drop)
		d.drop = nil
	}
	slices.Reverse(d.drop)
	if len(d.early)+len(d.drop) > 0 {
		p.Ops = slices.Concat(d.early, d.ops, d.drop)
	}
	return p
}

func (d *differ) links() {
	for _, name := range sortedKeys(d.have.Links, cmp.Compare[string]) {
		if _, wanted := d.want.Links[name]; !wanted && d.opts.Own.Links[name] {
			d.drop = append(d.drop, dataplane.Op{Verb: dataplane.Delete, Object: d.have.Links[name]})
		}
	}
	for _, name := range sortedKeys(d.want.Links, cmp.Compare[string]) {
		want := d.want.Links[name]
		have, exists := d.have.Links[name]
		if refused, ok := d.opts.KeepMTU[name]; ok && exists && refused == want.MTU {
			want.MTU = have.MTU
		}
		switch {
		case !exists:
			d.add(dataplane.Create, want)
		case d.opts.Recreate[name] || have.Become(want) != nil:
			d.early = append(d.early, dataplane.Op{Verb: dataplane.Delete, Object: have})
			d.flushed[name] = flush{all: true}
			d.add(dataplane.Create, want)
		case differs(want, have):
			d.flushed[name] = flush{neighs: !want.MAC.IsZero() && want.MAC != have.MAC}
			d.add(dataplane.Replace, want)
		}
	}
}

func differs(want, have dataplane.Link) bool {
	if want.MAC.IsZero() {
		want.MAC = have.MAC
	}
	return want != have
}

func (d *differ) sysctls() {
	for _, path := range sortedKeys(d.want.Sysctls, cmp.Compare[string]) {
		want := d.want.Sysctls[path]
		if !d.opts.Denied[path] && !d.settled(want) {
			d.add(dataplane.Replace, want)
		}
	}
}

// settled reports whether a setting needs no change: it has the wanted value, or
// it does not exist although its device does. IPv6's settings do not exist on a
// host without IPv6 or on a device with an MTU below 1280 (Linux
// net/ipv6/addrconf.c, addrconf_notify).
func (d *differ) settled(want dataplane.Sysctl) bool {
	if d.flushed[want.Link].all {
		return false
	}
	if have, exists := d.have.Sysctls[want.Path]; exists {
		return have.Value == want.Value
	}
	_, device := d.have.Links[want.Link]
	return device
}

func (d *differ) addrs() {
	for _, a := range sortedKeys(d.want.Addrs, compareAddrs) {
		if _, ok := d.have.Addrs[a]; !ok || d.flushed[a.Link].all {
			d.add(dataplane.Replace, a)
		}
	}
	for _, a := range sortedKeys(d.have.Addrs, compareAddrs) {
		if _, wanted := d.want.Addrs[a]; !wanted && d.ownsAddr(a) {
			d.remove(a, a.Link)
		}
	}
}

// ownsAddr reports whether an address is flannel's: it is on one of our links,
// and neither an IPv4 address outside the overlay nor an IPv6 link-local one
// (interop 6.0: other programs and the kernel add those).
func (d *differ) ownsAddr(a dataplane.Addr) bool {
	if !d.opts.Own.Links[a.Link] {
		return false
	}
	if a.Prefix.Addr().Is4() {
		return d.opts.Own.inNetworks(a.Prefix)
	}
	return !a.Prefix.Addr().IsLinkLocalUnicast()
}

func (d *differ) proxies() {
	gone := func(link string) bool { return d.flushed[link].all }
	d.ops = replaceAll(d.ops, changed(d.want.Proxies, d.have.Proxies, gone, cmp.Compare[string]))
	for _, k := range staleKeys(d.want.Proxies, d.have.Proxies, cmp.Compare[string]) {
		if d.opts.Own.Links[k] {
			d.remove(d.have.Proxies[k], k)
		}
	}
}

func (d *differ) peers() {
	gone := func(k dataplane.PeerKey) bool { return d.flushed[k.Link].all }
	d.ops = replaceAll(d.ops, changed(d.want.Peers, d.have.Peers, gone, comparePeers))
	for _, k := range staleKeys(d.want.Peers, d.have.Peers, comparePeers) {
		// A deleted proxy takes its peers along.
		if _, stays := d.want.Proxies[k.Link]; stays && d.opts.Own.Links[k.Link] {
			d.remove(d.have.Peers[k], k.Link)
		}
	}
}

func (d *differ) diffFDB() {
	gone := func(k dataplane.FDBKey) bool { return d.flushed[k.Link].all }
	d.ops = replaceAll(d.ops, changed(d.want.FDB, d.have.FDB, gone, compareFDB))
	for _, k := range staleKeys(d.want.FDB, d.have.FDB, compareFDB) {
		if d.opts.Own.Links[k.Link] {
			d.remove(d.have.FDB[k], k.Link)
		}
	}
}

func (d *differ) diffNeighs() {
	gone := func(k dataplane.NeighKey) bool { return d.flushed[k.Link].all || d.flushed[k.Link].neighs }
	d.ops = replaceAll(d.ops, changed(d.want.Neighs, d.have.Neighs, gone, compareNeighs))
	for _, k := range staleKeys(d.want.Neighs, d.have.Neighs, compareNeighs) {
		if d.opts.Own.Links[k.Link] && !gone(k) {
			d.remove(d.have.Neighs[k], k.Link)
		}
	}
}

func (d *differ) diffRoutes() {
	gone := func(k dataplane.RouteKey) bool { return d.flushed[d.have.Routes[k].Link].all }
	list := changed(d.want.Routes, d.have.Routes, gone, compareRoutes)
	d.ops = slices.Grow(d.ops, len(list))
	for _, c := range list {
		k, want := c.key, c.object.(dataplane.Route)
		if have, taken := d.have.Routes[k]; taken && have.Protocol == dataplane.ProtocolKernel && !gone(k) {
			d.conflicts = append(d.conflicts,
				fmt.Errorf("%s: an address of this host on %s already covers it (%s); remove that address or give the peer "+
					"another subnet",
					want, have.Link, have))
			continue
		}
		if d.mustMakeWay(want, k, gone(k)) {
			d.add(dataplane.Delete, d.have.Routes[k])
		}
		d.add(dataplane.Replace, c.object)
	}
	for _, k := range staleKeys(d.want.Routes, d.have.Routes, compareRoutes) {
		if have := d.have.Routes[k]; d.opts.Own.Route(have) {
			d.remove(have, have.Link)
		}
	}
}

// mustMakeWay reports whether the wanted route can only be added once the one in
// place is deleted. Linux refuses an IPv6 onlink gateway that another link's
// route covers (net/ipv6/route.c, ip6_route_check_nh_onlink), and the peer's old
// route covers the peer's gateway.
func (d *differ) mustMakeWay(want dataplane.Route, k dataplane.RouteKey, gone bool) bool {
	have, taken := d.have.Routes[k]
	return taken && !gone && want.OnLink && !want.Dst.Addr().Is4() && have.Link != want.Link
}

// Route reports whether a route is flannel's: it carries our protocol inside
// our networks or on our device, or upstream left it on our device without a
// protocol.
func (o Ownership) Route(r dataplane.Route) bool {
	switch r.Protocol {
	case dataplane.Protocol:
		return o.Links[r.Link] || o.inNetworks(r.Dst)
	case dataplane.ProtocolBoot:
		return o.Links[r.Link] && o.inNetworks(r.Dst)
	}
	return false
}

func (o Ownership) inNetworks(p netip.Prefix) bool {
	return slices.ContainsFunc(o.Networks, func(n netip.Prefix) bool {
		return n.Bits() <= p.Bits() && n.Contains(p.Addr())
	})
}

// replaceAll adds the ops that put objects in place.
func replaceAll[K comparable](ops []dataplane.Op, list []keyed[K]) []dataplane.Op {
	ops = slices.Grow(ops, len(list))
	for _, k := range list {
		ops = append(ops, dataplane.Op{Verb: dataplane.Replace, Object: k.object})
	}
	return ops
}

func (d *differ) add(v dataplane.Verb, o dataplane.Object) {
	d.ops = append(d.ops, dataplane.Op{Verb: v, Object: o})
}

// remove deletes an object, unless its link goes in the same plan and takes it along.
func (d *differ) remove(o dataplane.Object, link string) {
	if _, wanted := d.want.Links[link]; d.flushed[link].all || d.opts.Own.Links[link] && !wanted {
		return
	}
	d.drop = append(d.drop, dataplane.Op{Verb: dataplane.Delete, Object: o})
}
