package reconcile

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/dataplane"
)

// Ownership says by which marks flannel recognises its objects (links and
// networks), so that a restart with no memory finds them again.
type Ownership struct {
	Links    map[string]bool // our devices; of the objects on them those are ours that are about Networks or Beside
	Networks []netip.Prefix  // the overlay's address space
	Beside   []netip.Prefix  // that of the host's other networks, one of which may have had a link before
	Addr     netip.Addr      // at which the host ends tunnels of IPsec
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
	// Receiving names the links of a previous backend that ends. Their WireGuard peers stay as long as they do: a
	// peer whose record has ceased to offer the backend may still send by it for a moment.
	Receiving map[string]bool
	// Renamings says which link may have had which name before.
	Renamings []dataplane.Renaming
}

// Plan lists the operations that are due, and the ones that are impossible.
type Plan struct {
	Ops []dataplane.Op
	// Withheld counts the deletes that Prune did not allow.
	Withheld int
	// Conflicts are wanted routes that are not in force.
	Conflicts []Conflict
}

// Conflict is a wanted route whose key a route of the kernel has, or over which a
// foreign route without a metric takes precedence.
type Conflict struct{ Want, Have dataplane.Route }

// Error says what to do about the conflict.
func (c Conflict) Error() string {
	if c.Have.Metric < c.Want.Metric {
		return fmt.Sprintf("%s: a foreign route wins over it (%s); remove that or give the overlay another network",
			c.Want, c.Have)
	}
	return fmt.Sprintf("%s: an address of this host on %s already covers it (%s); "+
		"remove that address or give the peer another subnet", c.Want, c.Have.Link, c.Have)
}

// Empty reports whether nothing is due, withheld or in conflict.
func (p Plan) Empty() bool { return len(p.Ops)+p.Withheld+len(p.Conflicts) == 0 }

// Diff returns the plan that turns have into want. Objects in have that are
// not owned are left alone, unless a wanted object needs their key.
func Diff(want, have *dataplane.State, opts Options) Plan {
	d := differ{want: want, have: have, opts: opts, flushed: map[string]flush{}}
	d.policies()
	d.renames()
	d.links()
	d.sysctls()
	d.addrs()
	d.proxies()
	d.peers()
	d.wgPeers()
	d.fdb()
	d.neighs()
	d.nextHops()
	d.routes()
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
	conflicts  []Conflict

	renamed []dataplane.Op // come first: they free names, and nothing on the links changes
	early   []dataplane.Op // links to delete before anything can be made
	ops     []dataplane.Op
	drop    []dataplane.Op    // in the order of creation
	along   []dataplane.Route // that go with their links
}

func (d *differ) plan() Plan {
	p := Plan{Ops: d.ops, Conflicts: d.conflicts}
	if !d.opts.Prune {
		p.Withheld = len(d.drop)
		d.drop = nil
	}
	d.keepFormerWays()
	d.keepUnderWider()
	slices.Reverse(d.drop)
	if len(d.renamed)+len(d.early)+len(d.drop) > 0 {
		p.Ops = slices.Concat(d.renamed, d.early, d.ops, d.drop)
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
// it does not exist although its device does, or has none. IPv6's settings do not
// exist on a host without IPv6 or on a device with an MTU below 1280 (Linux
// net/ipv6/addrconf.c, addrconf_notify).
func (d *differ) settled(want dataplane.Sysctl) bool {
	if d.flushed[want.Link].all {
		return false
	}
	if have, exists := d.have.Sysctls[want.Path]; exists {
		return have.Value == want.Value
	}
	_, device := d.have.Links[want.Link]
	return device || want.Link == ""
}

func (d *differ) addrs() {
	for _, a := range sortedKeys(d.want.Addrs, dataplane.Addr.Compare) {
		if _, ok := d.have.Addrs[a]; !ok || d.flushed[a.Link].all {
			d.add(dataplane.Replace, a)
		}
	}
	for _, a := range sortedKeys(d.have.Addrs, dataplane.Addr.Compare) {
		if _, wanted := d.want.Addrs[a]; wanted || !d.opts.Own.on(a.Link, a.Prefix) || d.goes(a.Link) {
			continue
		}
		if d.opts.Prune && d.isGateway(a.Prefix.Addr()) {
			d.add(dataplane.Delete, a)
		} else {
			d.remove(a, a.Link)
		}
	}
}

// isGateway reports whether a wanted route leads to an address, as when a peer takes over
// this node's former subnet. Linux refuses a route whose gateway is an address of its own
// (net/ipv4/fib_semantics.c, fib_check_nh; net/ipv6/route.c, ip6_validate_gw), so such an
// address is deleted before the routes are added.
func (d *differ) isGateway(ip netip.Addr) bool {
	for _, r := range d.want.Routes.All {
		if r.Via == ip {
			return true
		}
	}
	return false
}

func (d *differ) proxies() {
	for _, link := range sortedKeys(d.want.Proxies, cmp.Compare[string]) {
		want := d.want.Proxies[link]
		if have, exists := d.have.Proxies[link]; !exists || have != want || d.flushed[link].all {
			d.add(dataplane.Replace, want)
		}
	}
	for _, link := range sortedKeys(d.have.Proxies, cmp.Compare[string]) {
		if _, wanted := d.want.Proxies[link]; !wanted && d.opts.Own.Links[link] {
			d.remove(d.have.Proxies[link], link)
		}
	}
}

func (d *differ) peers() {
	have := surviving(d, &d.have.Peers, func(p dataplane.Peer) bool { return d.flushed[p.Link].all })
	diffTable(d, &d.want.Peers, have, func(p dataplane.Peer) string {
		if _, stays := d.want.Proxies[p.Link]; !stays {
			return "" // a deleted proxy takes its peers along
		}
		return p.Link
	})
}

// wgPeers replaces the peers that differ and then deletes those that are not
// wanted. No two wanted peers share an allowed IP, and Replace takes it from its
// present owner, so the order among the peers does not matter.
func (d *differ) wgPeers() {
	have := surviving(d, &d.have.WGPeers, func(p dataplane.WGPeer) bool { return d.flushed[p.Link].all })
	diffTable(d, &d.want.WGPeers, have, func(p dataplane.WGPeer) string {
		if d.opts.Receiving[p.Link] {
			return ""
		}
		return p.Link
	})
}

func (d *differ) fdb() {
	have := surviving(d, &d.have.FDB, func(e dataplane.FDBEntry) bool { return d.flushed[e.Link].all })
	var foreign map[dataplane.FDBKey]bool
	d.want.FDB.Differences(have, func(want, have *dataplane.FDBEntry) {
		if want == nil {
			if foreign == nil {
				foreign = d.foreignStations()
			}
			if !foreign[have.Key()] {
				d.removeOwn(*have, have.Link)
			}
			return
		}
		if have != nil && have.Odd() {
			// An entry with a next hop keeps that whatever replaces it, and Linux reports no error
			// (drivers/net/vxlan/vxlan_core.c, vxlan_fdb_replace).
			d.add(dataplane.Delete, *have)
		}
		d.add(dataplane.Replace, *want)
	})
}

// foreignStations returns the FDB entries that foreign neighbour entries lead to. An FDB entry itself does not say to
// which network it belongs.
func (d *differ) foreignStations() map[dataplane.FDBKey]bool {
	foreign := map[dataplane.FDBKey]bool{}
	for k, n := range d.have.Neighs.All {
		if !d.opts.Own.neigh(n) {
			foreign[dataplane.FDBKey{Link: k.Link, MAC: n.MAC}] = true
		}
	}
	return foreign
}

func (d *differ) neighs() {
	have := surviving(d, &d.have.Neighs, func(n dataplane.Neigh) bool {
		return d.flushed[n.Link].all || d.flushed[n.Link].neighs
	})
	diffTable(d, &d.want.Neighs, have, func(n dataplane.Neigh) string {
		if !d.opts.Own.neigh(n) {
			return ""
		}
		return n.Link
	})
}

// diffTable puts the wanted objects of a table in place, and removes the others
// from our links. Link returns an object's link, or "" to leave the object alone.
func diffTable[K dataplane.Key[K], V dataplane.Row[K]](
	d *differ, want, have *dataplane.Table[K, V], link func(V) string,
) {
	want.Differences(have, func(want, have *V) {
		if want != nil {
			d.add(dataplane.Replace, *want)
		} else {
			d.removeOwn(*have, link(*have))
		}
	})
}

// removeOwn deletes an object if it is on one of our links.
func (d *differ) removeOwn(o dataplane.Object, link string) {
	if d.opts.Own.Links[link] {
		d.remove(o, link)
	}
}

// nextHops replaces the next hops that differ, before the routes that use them. It deletes
// the others after those routes, since the kernel deletes the routes of a next hop along with it.
func (d *differ) nextHops() {
	have := surviving(d, &d.have.NextHops, func(h dataplane.NextHop) bool { return d.flushed[h.Link].all })
	d.want.NextHops.Differences(have, func(want, have *dataplane.NextHop) {
		switch {
		case want != nil:
			d.add(dataplane.Replace, *want)
		case d.opts.Own.NextHop(*have):
			d.remove(*have, have.Link)
		}
	})
}

// policies puts IPsec policies in place before all else, first the ones that block
// packets. It deletes those last: no packet leaves without protection meanwhile.
func (d *differ) policies() {
	for _, protects := range [...]bool{false, true} {
		d.want.Policies.Differences(&d.have.Policies, func(want, have *dataplane.Policy) {
			if want != nil && (want.Action == dataplane.Protect) == protects {
				d.add(dataplane.Replace, *want)
			}
			if want == nil && (have.Action == dataplane.Protect) == protects && d.opts.Own.Policy(*have) {
				d.remove(*have, "")
			}
		})
	}
}

// Route reports whether a route is flannel's: it carries our protocol and leads into our networks, or upstream left it
// on our device without a protocol. Another daemon of flannel may have a device in common with this one: the routes
// on the device into other networks are that one's.
func (o Ownership) Route(r dataplane.Route) bool {
	switch r.Protocol {
	case dataplane.Protocol:
		return o.inNetworks(r.Dst) || o.on(r.Link, r.Dst)
	case dataplane.ProtocolBoot:
		return o.Links[r.Link] && o.inNetworks(r.Dst)
	}
	return false
}

// NextHop reports whether a next hop is flannel's: its number is an address inside our networks.
func (o Ownership) NextHop(h dataplane.NextHop) bool {
	id := netip.PrefixFrom(h.ID.Addr(), 32)
	return o.inNetworks(id) || o.on(h.Link, id)
}

// neigh reports whether a neighbour entry is flannel's.
func (o Ownership) neigh(n dataplane.Neigh) bool {
	return o.on(n.Link, netip.PrefixFrom(n.IP, n.IP.BitLen()))
}

// on reports whether an object on a link that is about an address or subnet is flannel's. No two networks of this
// process have a link in common, so an object about another network of the host is left over on it.
func (o Ownership) on(link string, p netip.Prefix) bool {
	return o.Links[link] && (o.inNetworks(p) || cidr.Within(o.Beside, p))
}

// Policy reports whether a policy is flannel's: it selects packets of our networks,
// and is a tunnel with our number, or has the priority and the form of the
// policies that go with those.
func (o Ownership) Policy(p dataplane.Policy) bool {
	within := slices.ContainsFunc(o.Networks, p.Inside)
	if !within || p.Other != "" {
		return false
	}
	switch p.Action {
	case dataplane.Protect:
		return p.ReqID == dataplane.ReqID
	case dataplane.Allow:
		return p.Dir == dataplane.PolicyOut && p.Priority == dataplane.PriorityAllow
	}
	return p.Dir == dataplane.PolicyOut && p.Priority == dataplane.PriorityBlock
}

func (o Ownership) inNetworks(p netip.Prefix) bool {
	return cidr.Within(o.Networks, p)
}

// surviving returns the objects that the changes to their links leave in place.
func surviving[K dataplane.Key[K], V dataplane.Row[K]](
	d *differ, have *dataplane.Table[K, V], gone func(V) bool,
) *dataplane.Table[K, V] {
	if len(d.flushed) == 0 {
		return have
	}
	left := have.Clone()
	left.DeleteFunc(func(_ K, v V) bool { return gone(v) })
	return &left
}

func (d *differ) add(v dataplane.Verb, o dataplane.Object) {
	d.ops = append(d.ops, dataplane.Op{Verb: v, Object: o})
}

// remove deletes an object, unless its link goes in the same plan and takes it along.
func (d *differ) remove(o dataplane.Object, link string) {
	if !d.goes(link) {
		d.drop = append(d.drop, dataplane.Op{Verb: dataplane.Delete, Object: o})
	}
}

// goes reports whether the plan deletes a link, and with it everything on it.
func (d *differ) goes(link string) bool {
	_, wanted := d.want.Links[link]
	return d.flushed[link].all || d.opts.Own.Links[link] && !wanted
}

func sortedKeys[K comparable, V any](m map[K]V, compare func(a, b K) int) []K {
	return slices.SortedFunc(maps.Keys(m), compare)
}
