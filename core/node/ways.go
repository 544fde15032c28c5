package node

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/flanneld/flannel/core/backend/ways"
	"github.com/flanneld/flannel/core/config"
	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/lease"
)

// wayUse holds the uses of the former ways, and their inputs.
type wayUse struct {
	set  *ways.Set
	snap *lease.Snapshot
	lost []*lease.Lease
	want *dataplane.State // the last rendering: what the backends refuse depends on the host
	of   []ways.Use

	missing []config.Backend // what the peers' records ask for beside the set

	plain *lease.Snapshot // the last one of which no record names a former way
}

// Change describes a change of the cluster's backend that is under way.
type Change struct {
	To     string      `json:"To"` // the identity of the present way, such as {"Type":"host-gw"}
	Former []FormerWay `json:"Former"`
}

// FormerWay is a way that the node keeps because of its peers.
type FormerWay struct {
	From  string      `json:"From"`  // its identity
	Sends []lease.Key `json:"Sends"` // the peers that this node reaches by it
	Keeps []lease.Key `json:"Keeps"` // the peers that may still send by it
}

// comesFrom returns the ways to keep beside that of a new config, newest first:
// those of the previous config, or of the last run. The present way counts only if
// peers may know it.
func (n *Node) comesFrom() []config.Backend {
	if n.network.known {
		objects := n.network.backend.Objects()
		if !n.maybePublished(n.network.backend.Present()) {
			return objects[1:]
		}
		return objects
	}
	if n.store.saved != nil {
		return n.store.saved.Ways
	}
	return nil
}

// useWays puts a set of ways in force.
func (n *Node) useWays(set *ways.Set) {
	s := &n.network
	set = n.withoutGivenUp(set)
	if s.backend != nil {
		n.reportWays(s.backend, set)
	} else if len(set.Former()) > 0 {
		n.event(Info, "backend-change", fmt.Sprintf("going on with a change of the backend from %s to %s",
			strings.Join(set.Former(), ", "), set.Present()))
	}
	switch {
	case len(set.Former()) == 0:
		s.before = nil
	case s.before == nil:
		s.before = n.plainUntil(s.since)
	}
	s.backend = set.Meeting(s.met).Leaving(s.left).Idle(s.idle).Since(s.since, s.before)
	for _, link := range set.Extent().Links {
		n.host.links[link] = true
		delete(n.host.handover.saved, link)
	}
	for _, p := range set.Ports() {
		if !slices.Contains(n.host.ports, p) {
			n.host.ports = append(n.host.ports, p)
		}
	}
	n.host.policies = n.host.policies || set.Extent().Policies
	n.host.want, n.files.text = wantCache{}, subnetText{}
	n.host.standing = lease.Key{}
	n.hostLane().outdated(n.now)
}

// reportWays logs the former ways that come and go.
func (n *Node) reportWays(before, now *ways.Set) {
	for _, id := range now.Former() {
		if !slices.Contains(before.Former(), id) {
			n.event(Info, "backend-change", fmt.Sprintf("keeping %s beside %s until no peer needs it", id, now.Present()))
		}
	}
	for _, id := range before.Former() {
		if !now.Has(id) && !n.network.givenUp[id] {
			n.event(Info, "backend-changed", fmt.Sprintf("the change from %s to %s is over", id, now.Present()))
		}
	}
}

// followWays opens the former ways that the node needs but does not have, and ends
// those that no peer needs any more. It does nothing on a stale snapshot.
func (n *Node) followWays() {
	if !n.network.known || n.store.snap == nil || n.store.stale || n.host.uplink.Link == "" {
		return
	}
	n.recallWays()
	n.joinChange()
	n.leaveWays()
	n.meetPeers()
	n.awaitPaths()
	n.endFormer()
}

// meetEvery is the time between two looks for exchanges of keys with peers.
const meetEvery = 3 * time.Second

// meetPeers records the peers with which the host has exchanged keys. From then on the
// node sends to them through wireguard, as long as the device knows them.
func (n *Node) meetPeers() {
	set, s := n.network.backend, &n.network
	if len(set.Former()) == 0 || n.host.have == nil {
		s.met = nil
		return
	}
	met, waits := map[dataplane.WGPeerKey]bool{}, false
	for key := range n.host.have.WGPeers.All {
		_, alive := n.host.have.Alive[key]
		if alive || s.met[key] || n.saidUnused() {
			met[key] = true
		} else {
			waits = true
		}
	}
	if waits {
		n.hostLane().lookBy(n.now.Add(meetEvery), causeRetry)
	}
	if maps.Equal(met, s.met) {
		return
	}
	s.met = met
	n.sendBy(set.Meeting(met))
}

// awaitPaths records the ways whose packet path has not begun: another program may have its port.
func (n *Node) awaitPaths() {
	set, s := n.network.backend, &n.network
	changes := len(set.Former()) > 0
	idle := those(set.Paths(), func(id string) bool { return changes && !s.stood.Has(id) })
	if maps.Equal(idle, s.idle) {
		return
	}
	s.idle = idle
	n.sendBy(set.Idle(idle))
}

// those returns the ways for which a condition holds.
func those(ids []string, holds func(id string) bool) map[string]bool {
	chosen := map[string]bool{}
	for _, id := range ids {
		if holds(id) {
			chosen[id] = true
		}
	}
	return chosen
}

// sendBy renders the host anew with other choices among the same ways.
func (n *Node) sendBy(set *ways.Set) {
	n.network.backend = set
	n.host.want = wantCache{}
	n.hostLane().outdated(n.now)
}

// leaveWays records the ways that peers may have ended. The node sends by such a way only if it
// has no other, until its record says that it uses the way again.
func (n *Node) leaveWays() {
	set, s := n.network.backend, &n.network
	left := those(append(set.Former(), set.Present()), n.maybeSaidUnused)
	if maps.Equal(left, s.left) {
		return
	}
	s.left = left
	n.sendBy(set.Leaving(left))
}

// maybeSaidUnused reports whether a peer may have read a record of the node that calls a way
// unused. The store may have written an update whose answer is late or lost.
func (n *Node) maybeSaidUnused(id string) bool {
	says := func(a *lease.Attrs) bool {
		offered, inUse := ways.Offers(a, id)
		return offered && !inUse
	}
	asked := func(r Request) bool { return r.Verb == Update && says(&r.Attrs) }
	if asked(n.lease.request) || asked(n.lease.unknown) {
		return true
	}
	if n.lease.grant != nil {
		return says(&n.lease.grant.Attrs)
	}
	own, ok := n.ownRecord()
	return ok && says(&own.Attrs)
}

// saidUnused reports whether the node's record says that the node sends through no
// former way: peers may have ended them.
func (n *Node) saidUnused() bool {
	if n.lease.grant == nil {
		return false
	}
	for _, id := range n.network.backend.Former() {
		if offered, inUse := ways.Offers(&n.lease.grant.Attrs, id); !offered || inUse {
			return false
		}
	}
	return true
}

// recallWays takes over the ways that the node's own record offers. If this run has no
// lease, an earlier run or upstream wrote that record.
func (n *Node) recallWays() {
	if n.lease.grant != nil || n.lease.self.Key.IsValid() {
		return
	}
	own, ok := n.ownRecord()
	if !ok {
		return
	}
	set := n.network.backend
	for _, object := range set.Recalls(&own.Attrs) {
		set = n.beside(set, object)
	}
	if set != n.network.backend {
		n.useWays(set)
	}
}

// joinChange opens the ways without which the node cannot reach some peers in the
// middle of a change. A device of the same name that is not the node's own stays alone.
func (n *Node) joinChange() {
	n.uses()
	set := n.network.backend
	for _, object := range n.network.use.missing {
		next := n.beside(set, object)
		if next != set && !n.inTheWay(next) {
			set = next
		}
	}
	if set != n.network.backend {
		n.useWays(set)
	}
}

// inTheWay reports whether another program's device has the name of one of the ways'
// devices.
func (n *Node) inTheWay(set *ways.Set) bool {
	return slices.ContainsFunc(set.Extent().Links, func(name string) bool {
		if n.host.links[name] {
			return false
		}
		for _, l := range n.host.facts.Links {
			if l.Name == name {
				return true
			}
		}
		return false
	})
}

// endFormer ends the former ways that no peer needs, once the node's own record says
// that it no longer sends through them. A snapshot from before that record lacks
// peers that have not read it.
func (n *Node) endFormer() {
	if n.lease.grant == nil || !n.synced() || n.store.snap.Revision < n.lease.grant.ModRevision {
		return
	}
	set := n.network.backend
	for _, use := range n.uses() {
		offered, inUse := ways.Offers(&n.lease.grant.Attrs, use.ID)
		if len(use.Keeps) == 0 && (!offered || !inUse) && n.published(set.Present()) {
			set = set.Without(use.ID)
		}
	}
	if set != n.network.backend {
		n.useWays(set)
	}
}

// uses returns the uses of the former ways by the peers that are served.
func (n *Node) uses() []ways.Use {
	u, s := &n.network.use, &n.store
	want := n.host.want.state
	if u.set != n.network.backend || u.snap != s.snap || u.want != want || !slices.Equal(u.lost, s.lost.peers) {
		*u = wayUse{set: n.network.backend, snap: s.snap, lost: s.lost.peers, want: want, plain: u.plain}
		if len(n.network.backend.Former()) > 0 || !u.isPlain() {
			peers := n.served()
			u.of, u.missing = u.set.Uses(n.env(), n.lease.self, peers), u.set.Missing(peers)
		}
	}
	return u.of
}

// isPlain reports whether no record of the snapshot names a former way.
func (u *wayUse) isPlain() bool {
	if u.plain == u.snap {
		return true
	}
	news := u.snap.Leases
	if u.plain != nil {
		_, news = lease.Swapped(u.plain.Leases, news)
	}
	if slices.ContainsFunc(news, comesFromAnother) {
		return false
	}
	u.plain = u.snap
	return true
}

// comesFromAnother reports whether a record names a former way.
func comesFromAnother(l *lease.Lease) bool { return len(l.Attrs.Ways.Former) > 0 }

// published reports whether the node's record offers a way.
func (n *Node) published(id string) bool {
	if n.lease.grant == nil {
		return n.network.stood.Has(id)
	}
	offered, _ := ways.Offers(&n.lease.grant.Attrs, id)
	return offered
}

// maybePublished reports whether a peer may have read a record of the node that offers a
// way. The store may have written an update whose answer is late or lost.
func (n *Node) maybePublished(id string) bool {
	offered := func(r Request) bool {
		is, _ := ways.Offers(&r.Attrs, id)
		return is && (r.Verb == Create || r.Verb == Update || r.Verb == Move)
	}
	return n.published(id) || offered(n.lease.request) || offered(n.lease.unknown)
}

// publishable returns the attributes for the node's record. The record offers a way
// once the host can receive through it, and calls a former one unused once the host
// sends to no peer through it, until the node sends through it again. A record that
// is written anew names its way.
func (n *Node) publishable() lease.Attrs {
	a := n.network.backend.Publish(n.lease.full, n.ready, n.unused)
	if last, ok := n.lastRecord(); ok && last.Equal(a) {
		return a
	}
	return n.network.backend.NameWay(a)
}

// lastRecord returns the attributes of the node's record: those that it holds, or that an earlier run has left.
func (n *Node) lastRecord() (lease.Attrs, bool) {
	if n.lease.grant != nil {
		return n.lease.grant.Attrs, true
	}
	own, ok := n.ownRecord()
	return own.Attrs, ok
}

// ready reports whether the host can receive through a way, or peers already rely on it.
func (n *Node) ready(id string) bool {
	if n.network.stood.Has(id) || n.published(id) {
		return true
	}
	if n.lease.grant != nil {
		return false
	}
	own, ok := n.ownRecord()
	offered, _ := ways.Offers(&own.Attrs, id)
	return ok && offered
}

// unused reports whether the node sends to no peer through a former way, and its record
// says so or may say so now.
func (n *Node) unused(id string) bool {
	g := n.lease.grant
	if g == nil {
		return false
	}
	for _, use := range n.uses() {
		if use.ID == id && len(use.Sends) > 0 {
			return false
		}
	}
	if offered, inUse := ways.Offers(&g.Attrs, id); offered && !inUse {
		return true
	}
	return n.hostLane().clean && n.renderedLast() && n.published(n.network.backend.Present())
}

// change describes the change under way, or returns nil.
func (n *Node) change() *Change {
	set := n.network.backend
	if len(set.Former()) == 0 || n.store.snap == nil {
		return nil
	}
	c := &Change{To: set.Present()}
	for _, use := range n.uses() {
		c.Former = append(c.Former, FormerWay{From: use.ID, Sends: use.Sends, Keeps: use.Keeps})
	}
	return c
}
