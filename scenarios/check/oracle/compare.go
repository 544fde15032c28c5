package oracle

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/flanneld/flannel/core/dataplane"
)

// Extent is the part of the host that [Demand.Short] needs to see.
func (d Demand) Extent() dataplane.Extent {
	e := dataplane.Extent{Networks: d.networks, Policies: true, Provider: dataplane.Provider{Name: d.provider}}
	for name := range d.devices {
		e.Links = append(e.Links, name)
	}
	slices.Sort(e.Links)
	for _, s := range d.want.Sysctls {
		e.Sysctls = append(e.Sysctls, s)
	}
	return e
}

// Short names each object that is missing, differs or is left over, sorted by
// text. Chains are the host's chains, which need a reading of their own.
func (d Demand) Short(have, chains *dataplane.State) []string {
	var s []string
	d = d.withoutNameless(have)
	if d.host.Changing {
		s = d.Missing(have)
	} else {
		s = d.Tables(have)
	}
	if !d.host.Changing {
		s = append(s, d.cloudRoutes(have)...)
	}
	if d.host.Masquerade || d.host.Forward {
		have := chains.Chains
		if d.host.Changing { // it guards an unencrypted device meanwhile
			have = maps.Clone(have)
			maps.DeleteFunc(have, func(k dataplane.ChainKey, _ dataplane.Chain) bool { return k.Hook == dataplane.Input })
		}
		s = append(s, compare(d.want.Chains, have, equal, always)...)
	}
	slices.Sort(s)
	return s
}

// withoutNameless does not judge previous devices without an address of flannel's on a host whose
// state file has been lost: the node cannot tell them from another daemon's.
func (d Demand) withoutNameless(have *dataplane.State) Demand {
	if !d.host.StateLost {
		return d
	}
	d.devices = maps.Clone(d.devices)
	maps.DeleteFunc(d.devices, func(name string, _ bool) bool {
		_, wanted := d.want.Links[name]
		for a := range have.Addrs {
			wanted = wanted || a.Link == name && a.Prefix.IsSingleIP() && d.inNetworks(a.Prefix)
		}
		return !wanted
	})
	return d
}

// Tables is Short without the chains.
func (d Demand) Tables(have *dataplane.State) []string {
	var s []string
	ourLink := func(l dataplane.Link) bool { return d.devices[l.Name] }
	s = append(s, compare(d.want.Links, have.Links, d.sameLink, ourLink)...)
	s = append(s, compare(d.want.Sysctls, have.Sysctls, sameSysctl, never)...)
	s = append(s, d.addrs(have)...)
	ourNeigh := func(n dataplane.Neigh) bool { return d.on(n.Link, netip.PrefixFrom(n.IP, n.IP.BitLen())) }
	foreign := map[dataplane.FDBKey]bool{}
	for k, n := range have.Neighs.All {
		if !ourNeigh(n) {
			foreign[dataplane.FDBKey{Link: k.Link, MAC: n.MAC}] = true
		}
	}
	ourEntry := func(e dataplane.FDBEntry) bool { return d.devices[e.Link] && !foreign[e.FDBKey] }
	s = append(s, compareTables(&d.want.Neighs, &have.Neighs, ourNeigh)...)
	s = append(s, compareTables(&d.want.FDB, &have.FDB, ourEntry)...)
	s = append(s, d.routes(have)...)
	s = append(s, d.wgPeers(have)...)
	s = append(s, compareTables(&d.want.Policies, &have.Policies, OurPolicy)...)
	if !d.host.NoProcess {
		s = append(s, compare(d.want.Proxies, have.Proxies, equal, always)...)
		s = append(s, compareTables(&d.want.Peers, &have.Peers, always)...)
		s = append(s, d.ike(have)...)
	}
	s = d.besideForged(s)
	slices.Sort(s)
	return s
}

// Missing names each object of the network tables that is missing or differs,
// sorted by text. It does not judge leftovers, nor the endpoints and keepalives of
// WireGuard peers, nor routes in whose place the kernel has one of its own, which the
// node must not replace. A node may try a former endpoint for some time, and keeps
// sessions alive while the backend changes. A peer may have a route of its own instead of
// one for the whole network, but not none.
func (d Demand) Missing(have *dataplane.State) []string {
	d.lenient, d.kernelFirst = true, true
	d.leaveOutBarred(have)
	var short []string
	if d.host.Changed {
		short = d.splitRoutes(have)
		d.acceptFormer(have)
	}
	short = append(short, d.Tables(have)...)
	return slices.DeleteFunc(short, func(text string) bool { return strings.HasPrefix(text, leftOver) })
}

// routes compares routes.
func (d Demand) routes(have *dataplane.State) []string {
	same := func(want, have dataplane.Route) bool {
		have.NextHop = 0 // which a route may use or not
		return want == have || d.kernelFirst && have.Protocol == dataplane.ProtocolKernel
	}
	foreign := d.foreignRoutes(have)
	ours := func(r dataplane.Route) bool { return d.ours(r) && !guards(r, foreign) }
	short := compare(maps.Collect(d.want.Routes.All), maps.Collect(have.Routes.All), same, ours)
	short = append(short, unused(have)...)
	if d.lenient { // the backend may be changing
		return short
	}
	return append(short, d.clearRoutes(have, foreign)...)
}

// unused names the next hops that no route uses.
func unused(have *dataplane.State) []string {
	used := map[dataplane.NextHopID]bool{}
	for _, r := range have.Routes.All {
		used[r.NextHop] = true
	}
	var left []string
	for id, h := range have.NextHops.All {
		if !used[id] {
			left = append(left, leftOver+h.String())
		}
	}
	return left
}

// leftOver begins the text about an object that no record demands.
const leftOver = "left over "

// compare names the objects that are missing or wrong, and flannel's objects that
// are left over.
func compare[K comparable, V fmt.Stringer](want, have map[K]V, same func(want, have V) bool,
	ours func(V) bool) []string {
	var short []string
	for k, w := range want {
		h, ok := have[k]
		switch {
		case !ok:
			short = append(short, "missing "+w.String())
		case !same(w, h):
			short = append(short, fmt.Sprintf("wrong %s, want %s", h, w))
		}
	}
	for k, h := range have {
		if _, wanted := want[k]; !wanted && ours(h) {
			short = append(short, leftOver+h.String())
		}
	}
	return short
}

// compareTables is compare for tables, whose objects are the same if they are equal.
func compareTables[K dataplane.Key[K], V dataplane.Row[K]](
	want, have *dataplane.Table[K, V], ours func(V) bool,
) []string {
	return compare(maps.Collect(want.All), maps.Collect(have.All), equal, ours)
}

func equal[V comparable](want, have V) bool { return want == have }
func always[V any](V) bool                  { return true }
func never[V any](V) bool                   { return false }

// sameLink compares links. A TUN device has no MAC address.
func (d Demand) sameLink(want, have dataplane.Link) bool {
	if d.sameTunnel(want.Params, have.Params) {
		want.Params = have.Params
	}
	if want.MAC == (dataplane.MAC{}) {
		have.MAC = want.MAC
	}
	return want == have
}

func sameSysctl(want, have dataplane.Sysctl) bool { return want.Value == have.Value }

// addrs compares addresses. On flannel's devices flannel owns the addresses inside its networks: another daemon may
// have a device in common with it.
func (d Demand) addrs(have *dataplane.State) []string {
	var short []string
	for a := range d.want.Addrs {
		if _, ok := have.Addrs[a]; !ok {
			short = append(short, "missing "+a.String())
		}
	}
	for a := range have.Addrs {
		if _, wanted := d.want.Addrs[a]; !wanted && d.on(a.Link, a.Prefix) {
			short = append(short, leftOver+a.String())
		}
	}
	return short
}

// ours reports whether a route is flannel's: by our protocol number, or as one of
// upstream's, which carry none (interop 6.0: protocol boot).
func (d Demand) ours(r dataplane.Route) bool {
	switch r.Protocol {
	case dataplane.Protocol:
		return d.inNetworks(r.Dst) || d.on(r.Link, r.Dst)
	case dataplane.ProtocolBoot:
		return (d.devices[r.Link] || d.commands && r.Via.IsValid()) && d.inNetworks(r.Dst)
	}
	return false
}

// on reports whether an object about an address or subnet is flannel's on a link. What is about another network of the
// host is left over there, since no two of them have a device in common.
func (d Demand) on(link string, p netip.Prefix) bool {
	return d.devices[link] && (d.inNetworks(p) || within(d.beside, p))
}

func (d Demand) inNetworks(p netip.Prefix) bool { return within(d.networks, p) }

func within(networks []netip.Prefix, p netip.Prefix) bool {
	return slices.ContainsFunc(networks, func(n netip.Prefix) bool {
		return n.Bits() <= p.Bits() && n.Contains(p.Addr())
	})
}
