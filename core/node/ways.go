package node

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/flanneld/flannel/core/backend/ways"
	"github.com/flanneld/flannel/core/config"
	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/firewall"
	"github.com/flanneld/flannel/core/lease"
)

// A node prepares an encrypting backend before it uses it: it announces its key, and peers exchange keys with it,
// which may take a second try after five seconds. It does not wait longer for the datastore than prepareMost.
const (
	prepareFor  = 12 * time.Second
	prepareMost = time.Minute
)

// linger is the time from the record that no longer offers a former backend to the end of its devices: peers that have
// not read the record yet still send by it.
const linger = time.Minute

// transition is the change from one backend to another on this node. It depends on the network config and on this
// node's memory, and on no record of another node.
type transition struct {
	began  Began
	set    time.Time            // since when the present backend is that of the config in force
	told   time.Time            // since when the node's record announces it; zero: it does not
	bare   time.Time            // since when nothing guards an unencrypted device; zero: something does, or there is none
	silent map[string]time.Time // since when no record of the node offers a former backend, by identity
	lacks  map[string]error     // why the host cannot have devices of a backend, by identity
	learnt *lease.Snapshot      // whose records the node has looked through for those that offer an encrypting backend
}

// Began is the moment since which the node's record offers the backend of the network config.
type Began struct {
	Backend string // its identity
	At      time.Time
}

// Change describes a change of the cluster's backend that is under way on this node.
type Change struct {
	To     string      `json:"To"` // the identity of the present backend, such as {"Type":"host-gw"}
	Former []FormerWay `json:"Former"`
}

// FormerWay is a previous backend that the node keeps.
type FormerWay struct {
	From        string      `json:"From"`        // its identity
	Until       *time.Time  `json:"Until"`       // when it ends by itself; null: not before the operator ends it
	By          string      `json:"By"`          // "config" or "memory": what names it
	Sends       []lease.Key `json:"Sends"`       // the peers that this node reaches by it
	NotFollowed []lease.Key `json:"NotFollowed"` // the peers whose records do not offer the present backend
}

// comesFrom returns the backends to keep beside that of a new config: those that the config names, and those of the
// previous config or of the last run, newest first. The present one counts only if peers may know it.
func (n *Node) comesFrom(network config.Network) []config.Backend {
	objects := slices.Clone(network.Formerly)
	switch {
	case n.network.known && n.maybePublished(n.network.backend.Present()):
		return append(objects, n.network.backend.Objects()...)
	case n.network.known:
		return append(objects, n.network.backend.Objects()[1:]...)
	case n.store.saved != nil:
		return append(objects, n.store.saved.Ways...)
	}
	return objects
}

// useWays puts a set of ways in force.
func (n *Node) useWays(set *ways.Set) {
	s := &n.network
	set = n.withoutGivenUp(set)
	if s.change.began.Backend != set.Present() {
		s.change.began = Began{Backend: set.Present()}
	}
	if s.backend == nil || s.backend.Present() != set.Present() {
		s.change.set, s.change.told = n.now, time.Time{}
	}
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
	s.backend = set.Since(s.since, s.before).Recall(n.followed())
	s.change.learnt = nil
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
	n.files.text = subnetText{}
	n.host.standing = lease.Key{}
	n.assign(n.roles())
}

// assign sets the roles of the backends in use, and renders the host again.
func (n *Node) assign(r role) {
	s := &n.network
	for _, id := range s.backend.Former() {
		if r.ending[id] && !s.role.ending[id] {
			n.reportEnd(id)
		}
	}
	s.role = r
	s.backend = s.backend.Ending(r.ending).Down(r.down).Closed(r.closed).Admitting(r.admits).Preparing(r.preparing)
	n.host.want = wantCache{}
	n.hostLane().outdated(n.now)
}

// reportWays logs the former ways that come and go.
func (n *Node) reportWays(before, now *ways.Set) {
	for _, id := range now.Former() {
		if !slices.Contains(before.Former(), id) {
			n.event(Info, "backend-change", fmt.Sprintf("keeping %s beside %s", id, now.Present()))
		}
	}
	for _, id := range before.Former() {
		if !now.Has(id) && !n.network.givenUp[id] {
			n.event(Info, "backend-changed", fmt.Sprintf("the change from %s to %s is over", id, now.Present()))
		}
	}
}

// followWays goes on with a change of the backend.
func (n *Node) followWays() {
	if !n.network.known || n.store.snap == nil {
		return
	}
	c, set := &n.network.change, n.network.backend
	if c.began.At.IsZero() && n.offers(set.Present()) {
		c.began.At = n.now
	}
	if len(set.Former()) == 0 {
		return
	}
	n.learnFollowed()
	set = n.network.backend
	if n.lease.grant == nil || !set.Announces(&n.lease.grant.Attrs) {
		c.told = time.Time{}
	} else if c.told.IsZero() {
		c.told = n.now
	}
	if r := n.roles(); !r.equal(n.network.role) {
		n.assign(r)
	}
	n.endFormer()
	n.endUnguarded()
}

// followed returns the subnets of the peers that have followed to an encrypting backend: see [ways.Set.Recall].
func (n *Node) followed() []netip.Prefix {
	if n.network.backend == nil && n.store.saved != nil {
		return n.store.saved.Followed
	}
	return n.network.backend.Followed()
}

// learnFollowed remembers the subnets of the peers that offer an encrypting backend.
func (n *Node) learnFollowed() {
	s := &n.network
	if s.change.learnt == n.store.snap {
		return
	}
	s.change.learnt = n.store.snap
	s.backend = s.backend.Learn(n.env(), n.rendersFor(), n.served())
}

// role tells the ways of the set apart, as of the last step.
type role struct {
	ending, down, closed map[string]bool
	admits, preparing    bool
}

func (r role) equal(o role) bool {
	return r.admits == o.admits &&
		r.preparing == o.preparing &&
		maps.Equal(r.ending, o.ending) &&
		maps.Equal(r.down, o.down) &&
		maps.Equal(r.closed, o.closed)
}

// roles finds out which ways end and which the host cannot use now.
func (n *Node) roles() role {
	s := &n.network
	set, r := s.backend, role{ending: map[string]bool{}, down: map[string]bool{}}
	former := set.Former()
	for _, id := range former {
		_, r.ending[id] = n.until(id)
	}
	for _, id := range append(former, set.Present()) {
		// Another program may have the port of a packet path that does not stand.
		path := len(former) > 0 && slices.Contains(set.Paths(), id) && !s.stood.Has(id)
		r.down[id] = path || s.change.lacks[id] != nil
	}
	r.closed = n.closed()
	r.preparing = n.prepares()
	r.down[set.Present()] = r.down[set.Present()] || r.preparing
	at := s.change.began.At
	r.admits = at.IsZero() || n.now.Before(at.Add(linger))
	return r
}

// prepares reports whether the node only announces the present backend so far. A node that peers do not know yet, and
// one that has offered it, does not. The node's memory says the latter too: another program may write its record.
func (n *Node) prepares() bool {
	s, c := &n.network, &n.network.change
	last, ok := n.lastRecord()
	if !ok || !c.began.At.IsZero() || !s.backend.Prepares(&last) || !n.now.Before(c.set.Add(prepareMost)) {
		return false
	}
	return c.told.IsZero() || n.now.Before(c.told.Add(prepareFor))
}

// until returns the moment at which a former way ends by itself, or zero, and whether it ends now. The operator's word
// counts, except that a change to an encrypting backend has a limit. A node that has not begun with the present
// backend keeps the former one.
func (n *Node) until(id string) (at time.Time, ends bool) {
	set, c := n.network.backend, &n.network.change
	named, given := n.isNamed(id), n.network.config.Formerly != nil
	if given && !named {
		return n.now, true
	}
	encrypts := set.Encrypts(set.Present()) && !set.Encrypts(id)
	if named && !encrypts || c.began.At.IsZero() {
		return time.Time{}, false
	}
	at = c.began.At.Add(n.opts.ChangeLimit)
	return at, !n.now.Before(at)
}

// isNamed reports whether the config names a former way.
func (n *Node) isNamed(id string) bool { return slices.Contains(n.network.named, id) }

// reportEnd logs that a former way begins to end, and names the peers that offer nothing else.
func (n *Node) reportEnd(id string) {
	set := n.network.backend
	why := "the network config does not name it in Formerly"
	if n.network.config.Formerly == nil || n.isNamed(id) {
		why = fmt.Sprintf("%s have passed since this node began with the present one", n.opts.ChangeLimit)
	}
	text := fmt.Sprintf("the previous backend %s ends beside %s: %s", id, set.Present(), why)
	behind := n.behind()
	if len(behind) == 0 {
		n.event(Info, "backend-ends", text)
		return
	}
	n.event(Warning, "backend-ends", fmt.Sprintf("%s; %d peers have not followed: %s", text, len(behind),
		firstOf(behind)))
}

// firstOf names the first subnets of a list.
func firstOf(keys []lease.Key) string {
	const most = 10
	var texts []string
	for _, key := range keys[:min(most, len(keys))] {
		texts = append(texts, key.String())
	}
	if len(keys) > most {
		texts = append(texts, "...")
	}
	return strings.Join(texts, ", ")
}

// behind returns the peers whose records do not offer the present way.
func (n *Node) behind() (keys []lease.Key) {
	if n.store.snap == nil {
		return nil
	}
	for _, p := range n.served() {
		if !n.network.backend.Follows(p) {
			keys = append(keys, p.Key)
		}
	}
	return keys
}

// endFormer removes the former ways that end, a while after the node's record has ceased to offer them.
func (n *Node) endFormer() {
	s := &n.network
	set := s.backend
	offers := func(id string) bool { return !s.role.ending[id] || n.maybePublished(id) }
	maps.DeleteFunc(s.change.silent, func(id string, _ time.Time) bool { return offers(id) })
	for _, id := range set.Former() {
		if offers(id) || n.lease.grant == nil {
			continue
		}
		since, silent := s.change.silent[id]
		if !silent {
			s.change.silent[id] = n.now
		} else if !n.now.Before(since.Add(linger)) {
			set = set.Without(id)
			delete(s.change.silent, id)
		}
	}
	if set != s.backend {
		n.useWays(set)
	}
}

// wakeChange names the moments at which time alone goes on with a change.
func (n *Node) wakeChange(consider func(time.Time)) {
	c := &n.network.change
	if !n.network.known || len(n.network.backend.Former()) == 0 {
		return
	}
	if !c.began.At.IsZero() {
		consider(c.began.At.Add(linger))
	}
	consider(c.set.Add(prepareMost))
	if !c.bare.IsZero() {
		consider(c.bare.Add(guardWithin))
	}
	if !c.told.IsZero() {
		consider(c.told.Add(prepareFor))
	}
	for _, id := range n.network.backend.Former() {
		if at, _ := n.until(id); !at.IsZero() {
			consider(at)
		}
		if at, ok := c.silent[id]; ok {
			consider(at.Add(linger))
		}
	}
}

// offers reports whether the node's record offers a way.
func (n *Node) offers(id string) bool {
	return n.lease.grant != nil && ways.Offers(&n.lease.grant.Attrs, id)
}

// published reports whether the node's record offers a way, or is about to.
func (n *Node) published(id string) bool {
	if n.lease.grant == nil {
		return n.network.stood.Has(id)
	}
	return n.offers(id)
}

// maybePublished reports whether a peer may have read a record of the node that offers a
// way. The store may have written an update whose answer is late or lost.
func (n *Node) maybePublished(id string) bool {
	offered := func(r Request) bool {
		return ways.Offers(&r.Attrs, id) && (r.Verb == Create || r.Verb == Update || r.Verb == Move)
	}
	return n.published(id) || offered(n.lease.request) || offered(n.lease.unknown)
}

// publishable returns the attributes for the node's record. The record offers a way
// once the host can receive through it, and not a former one that ends. A record that
// is written anew names its way.
func (n *Node) publishable() lease.Attrs {
	a := n.network.backend.Publish(n.lease.full, n.ready)
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
	return ok && ways.Offers(&own.Attrs, id)
}

// wayUse holds the uses of the former ways, and their inputs.
type wayUse struct {
	set  *ways.Set
	snap *lease.Snapshot
	lost []*lease.Lease
	want *dataplane.State // the last rendering: what the backends refuse depends on the host
	of   []ways.Use

	guards [2][]firewall.Guard
}

// uses returns the uses of the former ways by the peers that are served.
func (n *Node) uses() []ways.Use { return n.use().of }

// use returns the uses of the former ways, computed again only if an input has changed.
func (n *Node) use() *wayUse {
	u, s := &n.network.use, &n.store
	want := n.host.want.state
	if u.set != n.network.backend || u.snap != s.snap || u.want != want || !slices.Equal(u.lost, s.lost.peers) {
		*u = wayUse{set: n.network.backend, snap: s.snap, lost: s.lost.peers, want: want}
		if len(n.network.backend.Former()) > 0 {
			peers := n.served()
			u.of, u.guards = u.set.Uses(n.env(), n.lease.self, peers), u.set.Guards(peers)
		}
	}
	return u
}

// change describes the change under way, or returns nil.
func (n *Node) change() *Change {
	set := n.network.backend
	if len(set.Former()) == 0 || n.store.snap == nil {
		return nil
	}
	c, behind := &Change{To: set.Present()}, n.behind()
	for _, use := range n.uses() {
		f := FormerWay{From: use.ID, By: "memory", Sends: use.Sends, NotFollowed: behind}
		if n.isNamed(use.ID) {
			f.By = "config"
		}
		at, _ := n.until(use.ID)
		if silent, ends := n.network.change.silent[use.ID]; ends {
			at = silent.Add(linger)
		}
		if !at.IsZero() {
			f.Until = &at
		}
		c.Former = append(c.Former, f)
	}
	return c
}
