package backend

import (
	"slices"

	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/lease"
)

// fewChanges bounds how many changed leases Update handles one by one.
const fewChanges = 16

// Update returns b.Render(env, self, now), made from last = b.Render(env, self,
// before) in time that depends only on the changed leases. It returns false if it
// cannot do that: then the caller has to render.
//
// The rendering of before must have had no problems, and last may hold further
// objects. A lease counts as unchanged if both lists hold the same pointer.
// Update relies on a property of every backend: a rendering is the sum of the
// renderings of each peer alone, unless the backend refuses a peer, or two peers
// overlap, share a public address or want an object under the same key.
func Update(b Backend, env Env, self Self, last *dataplane.State, before, now []*lease.Lease) (*dataplane.State, bool) {
	gone, came, kept := compareLeases(before, now)
	if len(gone)+len(came) > fewChanges || entangled(append(elsewhere(came, gone), gone...), kept) {
		return nil, false
	}
	own, _ := b.Render(env, self, nil)
	removed, refused := b.Render(env, self, gone)
	if len(refused) > 0 {
		return nil, false
	}
	added, refused := b.Render(env, self, came)
	if len(refused) > 0 {
		return nil, false
	}
	next := last.Clone()
	ok := exchange(&next.Routes, &removed.Routes, &added.Routes, &own.Routes)
	ok = exchange(&next.NextHops, &removed.NextHops, &added.NextHops, &own.NextHops) && ok
	ok = exchange(&next.Neighs, &removed.Neighs, &added.Neighs, &own.Neighs) && ok
	ok = exchange(&next.FDB, &removed.FDB, &added.FDB, &own.FDB) && ok
	ok = exchange(&next.Peers, &removed.Peers, &added.Peers, &own.Peers) && ok
	ok = exchange(&next.Policies, &removed.Policies, &added.Policies, &own.Policies) && ok
	ok = exchange(&next.SharedKeys, &removed.SharedKeys, &added.SharedKeys, &own.SharedKeys) && ok
	ok = exchange(&next.Conns, &removed.Conns, &added.Conns, &own.Conns) && ok
	ok = exchange(&next.WGPeers, &removed.WGPeers, &added.WGPeers, &own.WGPeers) && ok
	ok = exchange(&next.Commands, &removed.Commands, &added.Commands, &own.Commands) && ok
	return next, ok
}

// compareLeases returns the leases that only before has, that only now has, and
// that both have, in several lists.
func compareLeases(before, now []*lease.Lease) (gone, came []*lease.Lease, kept [3][]*lease.Lease) {
	start, end := 0, 0
	for start < min(len(before), len(now)) && before[start] == now[start] {
		start++
	}
	kept[0] = before[:start]
	before, now = before[start:], now[start:]
	for end < min(len(before), len(now)) && before[len(before)-1-end] == now[len(now)-1-end] {
		end++
	}
	kept[2] = now[len(now)-end:]
	before, now = before[:len(before)-end], now[:len(now)-end]
	known := make(map[*lease.Lease]bool, len(before))
	for _, l := range before {
		known[l] = true
	}
	for _, l := range now {
		if known[l] {
			kept[1] = append(kept[1], l)
			delete(known, l)
		} else {
			came = append(came, l)
		}
	}
	for _, l := range before { // in order
		if known[l] {
			gone = append(gone, l)
		}
	}
	return gone, came, kept
}

// elsewhere returns the new leases that do not have the subnets and addresses of a former one.
func elsewhere(came, gone []*lease.Lease) []*lease.Lease {
	var moved []*lease.Lease
	for _, c := range came {
		same := func(g *lease.Lease) bool {
			return g.Key == c.Key && g.Attrs.PublicIP == c.Attrs.PublicIP && g.Attrs.PublicIPv6 == c.Attrs.PublicIPv6
		}
		if !slices.ContainsFunc(gone, same) {
			moved = append(moved, c)
		}
	}
	return moved
}

// entangled reports whether one of the changed leases overlaps one of the
// others or shares a public address with it.
func entangled(changed []*lease.Lease, lists [3][]*lease.Lease) bool {
	for _, others := range lists {
		for _, o := range others {
			for _, c := range changed {
				if c.Key.Overlaps(o.Key) || sameAddress(&c.Attrs, &o.Attrs) {
					return true
				}
			}
		}
	}
	return false
}

func sameAddress(a, b *lease.Attrs) bool {
	return a.PublicIP == b.PublicIP && a.PublicIP.IsValid() ||
		a.PublicIPv6 == b.PublicIPv6 && a.PublicIPv6.IsValid()
}

// exchange takes the removed objects out of t, except the node's own, and puts
// the added ones in. It returns false if an object would replace another.
func exchange[K dataplane.Key[K], V dataplane.Row[K]](t, removed, added, own *dataplane.Table[K, V]) bool {
	for k, v := range removed.All {
		if own.Has(k) {
			continue
		}
		if last, _ := t.Get(k); last != v {
			return false
		}
		t.Delete(k)
	}
	for k, v := range added.All {
		if !own.Has(k) && t.Has(k) {
			return false
		}
		t.Put(v)
	}
	return true
}
