package node

import (
	"slices"

	"github.com/flanneld/flannel/core/backend"
	"github.com/flanneld/flannel/core/dataplane"
)

// fewObjects bounds how many objects a look reads again. With more it reads everything.
const fewObjects = 64

// again returns the objects that the next look has to read; nil: it reads everything.
//
// A whole look at a large cluster takes some fifty times as long as all else that follows
// from the change of one lease. So after such a change, a look reads the objects that it
// concerns, and the look after the plan reads those of the plan:
//
//	host as desired ──few leases change──► look at few ──► plan ──► look at few ──► as desired
//	       ▲                                   │                        │
//	       └──────────── whole look ◄──────────┴──all that is unusual───┘
//
// The rest is as the last look found it, unless the driver knows better. Whole looks come
// at their own pace and after each hint, so a look at few objects never delays one.
func (n *Node) again() []dataplane.Object {
	l, h := n.hostLane(), &n.host
	// To find the endpoints of WireGuard's peers, and the objects that the kernel accepts by now, a
	// comparison counts on the plan that follows from it. One with few objects may have to wait.
	counted := h.want.state == nil || h.want.state.WGPeers.Len() > 0 || len(h.refusals.of) > 0
	if l.hinted || len(l.failures) > 0 || n.removal.begun() || counted {
		return nil
	}
	switch {
	case l.cause == causePlan && l.attempts == 1 && len(h.planned) <= fewObjects:
		return h.planned
	case l.cause == causeChange && l.clean && l.attempts == 0:
		return n.changing()
	}
	return nil
}

// changing returns the objects that the newest snapshot changes on a host that is as desired.
// It returns nil if they are not few, or if more than a few leases may have changed.
func (n *Node) changing() []dataplane.Object {
	h := &n.host
	settled := h.have != nil && h.settled.have == h.have
	unusual := len(h.guard.Held)+len(h.guard.Beaten) > 0 || len(n.transition.Set().Previous()) > 0
	if !settled || unusual || !n.programmable() || !n.synced() || n.fenced() {
		return nil
	}
	next, ok := n.updated(n.rendersFor())
	if !ok {
		return nil
	}
	h.coming = next
	last, objects := h.want.base, []dataplane.Object{}
	objects = appendChanged(objects, &last.Routes, &next.state.Routes)
	objects = appendChanged(objects, &last.NextHops, &next.state.NextHops)
	objects = appendChanged(objects, &last.Neighs, &next.state.Neighs)
	objects = appendChanged(objects, &last.FDB, &next.state.FDB)
	if len(objects) > fewObjects {
		return nil
	}
	return objects
}

// appendChanged appends the objects of the new table that the last one does not have, and
// those of the last one without a successor.
func appendChanged[K dataplane.Key[K], V dataplane.Row[K]](
	objects []dataplane.Object, last, next *dataplane.Table[K, V],
) []dataplane.Object {
	last.Differences(next, func(was, now *V) {
		if now == nil {
			now = was
		}
		objects = append(objects, *now)
	})
	return objects
}

// readTooLittle reports whether a plan waits for a whole look, because it changes an object
// that the last look has not read. It sets the time of that look, and keeps the objects of
// other plans for the look after them.
func (n *Node) readTooLittle(plan []dataplane.Op) bool {
	h := &n.host
	if h.again != nil && slices.ContainsFunc(plan, unread(h.again)) {
		n.hostLane().lookAt(n.now, causeRetry)
		return true
	}
	h.planned = make([]dataplane.Object, min(len(plan), fewObjects+1))
	for i := range h.planned {
		h.planned[i] = plan[i].Object
	}
	return false
}

// confirms reports whether the last look, at few objects, shows that a plan had its effect, while the datastore has
// changed since the plan was made. Then the change gets a look of its own, after the debounce. Where leases change all
// the time, each look would otherwise show the need of a plan that it has not read enough for, and whole looks would
// follow each other without a pause. No plan is made for what the records were: it could delete what they want again.
func (n *Node) confirms() bool {
	l, h := n.hostLane(), &n.host
	succeeded := h.again != nil && h.effect && l.attempts == 1 && len(l.failures) == 0
	return succeeded && h.want.holds(n.rendersFor(), h) && !h.want.follows(&n.store) && n.difference(h.want.state).Empty()
}

// unread returns a function that reports whether an op is about an object of which a look at
// few objects has not read the key.
func unread(few []dataplane.Object) func(dataplane.Op) bool {
	read := dataplane.NewState()
	for _, o := range few {
		read.Put(o)
	}
	return func(op dataplane.Op) bool {
		switch op.Object.(type) {
		case dataplane.Route, dataplane.NextHop, dataplane.Neigh, dataplane.FDBEntry:
			_, known := read.Namesake(op.Object)
			return !known
		}
		return false // the look has read all objects of this kind
	}
}

// updated returns the rendering for a subnet, made from the last one. It returns false if
// more than a few peers have changed: then the caller has to render next.peers.
func (n *Node) updated(self backend.Self) (next wantCache, ok bool) {
	h := &n.host
	if h.coming.holds(self, h) && h.coming.follows(&n.store) {
		return h.coming, true
	}
	next = wantCache{
		snap: n.store.snap, lost: n.store.lost.peers, peers: n.served(),
		self: self, uplink: h.uplink, routes: h.facts.Routes, keys: h.facts.Keys, kept: h.kept, lacks: h.facts.Unsupported,
		txChecksum: h.checksums.value, canNextHops: h.facts.NextHops,
	}
	next.nextHops = n.usesNextHops(len(next.peers))
	if !h.want.holds(self, h) || next.nextHops != h.want.nextHops || len(h.problems) > 0 {
		return next, false
	}
	next.state, ok = backend.Update(n.transition.Set(), n.env(), self, h.want.base, h.want.peers, next.peers)
	return next, ok
}

// follows reports whether a rendering is that of the newest records.
func (c *wantCache) follows(s *storeState) bool {
	return c.snap == s.snap && slices.Equal(c.lost, s.lost.peers)
}

// rendersFor returns the subnet for which the desired state is rendered.
func (n *Node) rendersFor() backend.Self {
	self := n.lease.self
	self.Key = n.undisputed(self.Key)
	return self
}
