package node

import (
	"net/netip"
	"slices"

	"github.com/flanneld/flannel/core/backend/backends"
	"github.com/flanneld/flannel/core/config"
	"github.com/flanneld/flannel/core/lease"
)

// reach holds the addresses whose underlay routes matter, and the records and
// the backend from which they follow.
type reach struct {
	snap    *lease.Snapshot
	lost    []*lease.Lease
	backend *backends.Set
	addrs   []netip.Addr // in order, each once; never changed
	single  bool         // each address stands in one record only
}

// reach returns the addresses whose underlay routes the next look must read: that
// of --iface-can-reach, and the peers' for a backend that routes to them.
func (n *Node) reach() []netip.Addr {
	r, s := &n.host.reach, &n.store
	same := r.backend == n.transition.Set() && slices.Equal(r.lost, s.lost.peers)
	if same && (r.snap == s.snap || r.follow(s.snap, n.network.config)) {
		return r.addrs
	}
	*r = reach{snap: s.snap, lost: s.lost.peers, backend: n.transition.Set()}
	if to, err := n.opts.Uplink.CanReachAddr(); err == nil {
		r.addrs = append(r.addrs, to)
	}
	if b := n.transition.Set(); s.snap != nil {
		r.addrs = append(r.addrs, b.Reach(n.network.config, s.snap.Leases)...)
		r.addrs = append(r.addrs, b.Reach(n.network.config, s.lost.peers)...)
	}
	slices.SortFunc(r.addrs, netip.Addr.Compare)
	all := len(r.addrs)
	r.addrs = slices.Compact(r.addrs)
	r.single = len(r.addrs) == all
	return r.addrs
}

// follow changes the addresses as a newer snapshot requires. It returns false if they have to be
// collected anew: more than a few records differ, or another record may name an address too.
func (r *reach) follow(snap *lease.Snapshot, network config.Network) bool {
	if !r.single || r.snap == nil || snap == nil {
		return false
	}
	gone, came := lease.Swapped(r.snap.Leases, snap.Leases)
	if len(gone)+len(came) > fewObjects {
		return false
	}
	former, present := r.backend.Reach(network, gone), r.backend.Reach(network, came)
	addrs := make([]netip.Addr, len(r.addrs), len(r.addrs)+len(present))
	copy(addrs, r.addrs)
	for _, a := range former {
		i, found := slices.BinarySearchFunc(addrs, a, netip.Addr.Compare)
		if !found {
			return false
		}
		addrs = slices.Delete(addrs, i, i+1)
	}
	for _, a := range present {
		i, found := slices.BinarySearchFunc(addrs, a, netip.Addr.Compare)
		if found {
			return false
		}
		addrs = slices.Insert(addrs, i, a)
	}
	r.snap, r.addrs = snap, addrs
	return true
}

// asksAgain reports whether a plan waits for another look, which asks for
// addresses that the last one did not. It waits once: if peers join faster than
// looks end, the second look leads to a plan, and a third look follows it.
func (n *Node) asksAgain() bool {
	h := &n.host
	if n.reachKnown() {
		h.askedAgain = false
		return false
	}
	n.hostLane().lookBy(n.now, causeChange)
	h.askedAgain = !h.askedAgain
	return h.askedAgain
}

// reachKnown reports whether the last look asked for all addresses that matter
// now. If not, a record arrived after the look began.
func (n *Node) reachKnown() bool {
	want, asked := n.reach(), n.host.asked
	unknown := func(a netip.Addr) bool {
		_, found := slices.BinarySearchFunc(asked, a, netip.Addr.Compare)
		return !found
	}
	return slices.Equal(want, asked) || !slices.ContainsFunc(want, unknown)
}
