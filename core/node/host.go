package node

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"time"

	"github.com/flanneld/flannel/core/backend"
	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/config"
	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/driver"
	"github.com/flanneld/flannel/core/firewall"
	"github.com/flanneld/flannel/core/lease"
	"github.com/flanneld/flannel/core/reconcile"
	"github.com/flanneld/flannel/core/uplink"
)

// hintGap is the least time between two looks that hints asked for: a busy
// host changes something all the time, and a look has its price.
const hintGap = 500 * time.Millisecond

// eager is how many plans in a row are tried without a pause.
const eager = 3

func (n *Node) env() backend.Env {
	return backend.Env{Config: n.network.config, Uplink: n.host.uplink, Facts: n.host.facts}
}

// hinted schedules a look, one debounce from now.
func (n *Node) hinted() {
	h := &n.host
	at := n.now.Add(n.opts.Debounce)
	if gap := h.lastLook.Add(hintGap); gap.After(at) {
		at = gap
	}
	n.lookBy(at)
}

// lookBy moves the next look forward to at, if it is later.
func (n *Node) lookBy(at time.Time) {
	if n.host.lookDue.IsZero() || at.Before(n.host.lookDue) {
		n.host.lookDue = at
	}
}

func (n *Node) tookLook(l Looked) {
	h := &n.host
	h.busy, h.lastLook = false, n.now
	if h.lookErr = l.Err; l.Err != nil {
		n.once(Error, "look-failed", l.Err.Error())
		h.clean = false
		h.attempts++
		n.lookBy(n.now.Add(n.backoff(h.attempts, n.opts.Debounce, n.opts.Resync)))
		return
	}
	// The choice of an uplink that fails is told again; another follows from the facts.
	h.chosen = h.chosen && h.noUplink == nil && h.facts.Equal(l.Facts)
	h.facts, h.looked = l.Facts, true
	n.sawSubnetFile(l.SubnetFile)
	n.lookBy(n.now.Add(n.jitter(n.opts.Resync)))
	n.followProxies(l.Have)
	h.have, h.fresh = l.Have, true
}

// followUplink chooses the uplink anew when a look shows other facts. While there is none,
// because a link is down or an address is being changed, the last one stands.
func (n *Node) followUplink() {
	h := &n.host
	if !h.looked || !n.network.known || h.chosen {
		return
	}
	h.chosen = true
	up, err := n.selectUplink()
	if err != nil {
		if h.uplink.Link == "" && n.overridden() {
			n.once(Error, "assignment", err.Error())
		} else if h.uplink.Link == "" {
			n.exit(1, err.Error())
		} else if h.noUplink == nil {
			n.event(Warning, "uplink-lost", fmt.Sprintf("%v; keeping %s", err, describeUplink(h.uplink)))
		}
		h.noUplink = err
		return
	}
	if up != h.uplink {
		n.event(Info, "uplink", "using "+describeUplink(up))
	} else if h.noUplink != nil {
		n.event(Info, "uplink-back", "using "+describeUplink(up)+" again")
	}
	h.uplink, h.noUplink = up, nil
	clear(h.keepMTU) // the uplink may carry more now
	n.tellNotes()
}

func describeUplink(u uplink.Uplink) string {
	text := fmt.Sprintf("%s (MTU %d", u.Link, u.MTU)
	for _, f := range cidr.Families {
		if u.Addr(f).IsValid() {
			text += fmt.Sprintf(", %s, public %s", u.Addr(f), u.Public(f))
		}
	}
	text += ")"
	if u.PassedOver != "" {
		text += "; passed over: " + u.PassedOver
	}
	return text
}

// followHost looks at the host when a look is due, and closes the difference
// it shows. Plans are made only from what was just read, never from memory.
func (n *Node) followHost() {
	h := &n.host
	if n.ready.Exit != nil || h.busy || !n.network.known {
		return
	}
	n.settleSelf()
	if n.store.changed && h.looked {
		n.store.changed = false
		n.lookBy(n.now.Add(n.opts.Debounce))
	}
	if h.fresh && n.programmable() {
		n.reconcile()
	}
	if !h.busy && !n.now.Before(h.lookDue) {
		n.look()
	}
}

// settleSelf programs what is held, once a snapshot as new as the lease has
// shown that nobody older claims part of it.
func (n *Node) settleSelf() {
	l := &n.lease
	if l.grant == nil || l.expired || n.store.stale {
		return
	}
	if n.assigned() == nil && n.store.snap.Revision < l.grant.CreateRevision {
		return
	}
	self := backend.Self{Key: l.grant.Key, Attrs: l.attrs}
	if self.Key != l.self.Key || !self.Attrs.Equal(l.self.Attrs) {
		l.self = self
		n.lookBy(n.now)
	}
}

// programmable reports whether the node knows enough to want anything.
func (n *Node) programmable() bool {
	return n.host.looked && n.host.uplink.Link != "" && n.lease.self.Key.IsValid() && n.store.snap != nil
}

func (n *Node) look() {
	h := &n.host
	extent := n.network.backend.Extent()
	var former []string
	for name := range h.links {
		if !slices.Contains(extent.Links, name) {
			former = append(former, name)
		}
	}
	slices.Sort(former)
	extent.Links = append(extent.Links, former...)
	extent.Networks = h.networks
	h.busy, h.fresh, h.lookDue = true, false, time.Time{}
	n.files.seen = true
	n.ready.Look = &extent
}

func (n *Node) reconcile() {
	h := &n.host
	h.fresh = false
	want, moved := n.wanted()
	if moved && len(h.failures) == 0 {
		h.attempts = 0 // another aim, not another attempt
	}
	plan := n.diff(want)
	h.withheld, h.conflicts = plan.Withheld, plan.Conflicts
	if len(plan.Conflicts) > 0 {
		n.once(Error, "conflict", errors.Join(plan.Conflicts...).Error())
	} else {
		delete(n.said, "conflict")
	}
	h.standing = !slices.ContainsFunc(plan.Ops, ownPart)
	if h.clean = len(plan.Ops) == 0; h.clean {
		h.programmed = n.store.snap.Revision
		if h.attempts > 0 {
			n.event(Info, "programmed", fmt.Sprintf("the host is as it should be: %d objects", want.Len()))
		}
		h.attempts, h.failures = 0, nil
		delete(n.said, "apply-failed")
		n.forgetOld()
		return
	}
	h.busy, h.plan = true, plan.Ops
	n.ready.Plan = plan.Ops
}

// diff compares the host with the desired state. If neither has changed since
// they were found equal, it does not compare them again.
func (n *Node) diff(want *dataplane.State) reconcile.Plan {
	h := &n.host
	if h.settled == (settled{want, h.have}) {
		return reconcile.Plan{}
	}
	plan := reconcile.Diff(want, h.have, reconcile.Options{
		Own:      reconcile.Ownership{Links: h.links, Networks: h.networks},
		Prune:    n.synced(),
		Recreate: h.recreate,
		KeepMTU:  h.keepMTU,
		Denied:   h.denied,
	})
	h.settled = settled{}
	if plan.Empty() {
		h.settled = settled{want, h.have}
	}
	return plan
}

// ownPart reports whether an op is about the node itself, and not about a peer.
func ownPart(op dataplane.Op) bool {
	switch op.Object.(type) {
	case dataplane.Link, dataplane.Addr, dataplane.Sysctl, dataplane.Proxy:
		return true
	}
	return false
}

// wantCache keeps the last rendering, which is a pure function of its inputs.
type wantCache struct {
	state  *dataplane.State // nil: nothing yet
	snap   *lease.Snapshot
	peers  []*lease.Lease // the leases of snap that were rendered
	self   backend.Self
	uplink uplink.Uplink
	routes []driver.Route
}

// holds reports whether the cache was rendered for this node as it is now,
// apart from its peers.
func (c *wantCache) holds(self backend.Self, h *hostState) bool {
	return c.state != nil && c.self.Key == self.Key && c.self.Attrs.Equal(self.Attrs) &&
		c.uplink == h.uplink && slices.EqualFunc(c.routes, h.facts.Routes, driver.Route.Equal)
}

// wanted returns the desired state of the host, and whether it is another one
// than at the last call.
func (n *Node) wanted() (want *dataplane.State, moved bool) {
	h := &n.host
	self := n.lease.self
	if n.disowned(self.Key) {
		self.Key = lease.Key{}
	}
	same := h.want.holds(self, h)
	if same && h.want.snap == n.store.snap {
		return h.want.state, false
	}
	next := wantCache{snap: n.store.snap, peers: n.others(), self: self, uplink: h.uplink, routes: h.facts.Routes}
	if same && len(h.problems) == 0 {
		next.state, same = backend.Update(n.network.backend, n.env(), self, h.want.state, h.want.peers, next.peers)
	} else {
		same = false
	}
	if !same {
		next.state = n.render(self, next.peers)
	}
	h.want = next
	return next.state, true
}

// render asks the backend for everything, and reports the peers that it refuses.
func (n *Node) render(self backend.Self, peers []*lease.Lease) *dataplane.State {
	state, problems := n.network.backend.Render(n.env(), self, peers)
	n.reportProblems(problems)
	if n.opts.Blackhole {
		for _, r := range firewall.Blackhole(self.Key) {
			state.AddRoute(r)
		}
	}
	return state
}

// disowned reports whether a fenced node's subnet is certainly not its own any
// more: it lies outside the network, or somebody else's record covers it.
func (n *Node) disowned(key lease.Key) bool {
	if !n.fenced() {
		return false
	}
	return n.fits(key) != nil || slices.ContainsFunc(n.others(), func(p *lease.Lease) bool { return p.Key.Overlaps(key) })
}

// others are all records but our own.
func (n *Node) others() []*lease.Lease {
	peers := make([]*lease.Lease, 0, len(n.store.snap.Leases))
	for _, p := range n.store.snap.Leases {
		if !n.isSelf(p) {
			peers = append(peers, p)
		}
	}
	return peers
}

// isSelf reports whether a record is ours, of this run or a former one.
func (n *Node) isSelf(p *lease.Lease) bool {
	if a := n.assigned(); a != nil && a.Key.IsValid() {
		return p.Key == a.Key
	}
	// Until a changed address is published, the record says what the grant says.
	if g := n.lease.grant; g != nil && p.Key == g.Key && sameOwner(p.Attrs, g.Attrs) {
		return true
	}
	return p.Key == n.lease.self.Key && sameOwner(p.Attrs, n.lease.self.Attrs) || n.isOurs(&p.Attrs)
}

func (n *Node) reportProblems(problems []backend.Problem) {
	known := map[string]bool{}
	for _, p := range n.host.problems {
		known[p.String()] = true
	}
	for _, p := range problems {
		if !known[p.String()] {
			n.event(Warning, "peer-refused", p.String())
		}
	}
	n.host.problems = problems
}

// appliedPlan notes what failed, and looks again at once to see what it led
// to. Deleting what is gone and adding what is there are successes.
func (n *Node) appliedPlan(a Applied) {
	h := &n.host
	h.failures = nil
	for i, err := range a.Errs {
		op := h.plan[i]
		if err == nil || op.Verb == dataplane.Delete && errors.Is(err, driver.ErrNotFound) {
			continue
		}
		if s, ok := op.Object.(dataplane.Sysctl); ok && errors.Is(err, driver.ErrDenied) {
			n.denySetting(s, err)
			continue
		}
		if s, ok := op.Object.(dataplane.Sysctl); ok && errors.Is(err, driver.ErrNotFound) {
			// If the device is missing, too, its own op says why.
			n.once(Info, "setting-absent", fmt.Sprintf("%s: this host has no such setting, as without IPv6 or with an MTU below 1280", s))
			continue
		}
		if link, ok := op.Object.(dataplane.Link); ok && op.Verb == dataplane.Replace && refused(err) {
			if n.keepsMTU(link, err) {
				continue
			}
			h.recreate[link.Name] = true
		}
		h.failures = append(h.failures, fmt.Errorf("%s: %w", op, err))
	}
	n.reportPlan(h.plan)
	for _, op := range h.plan {
		if link, ok := op.Object.(dataplane.Link); ok && op.Verb == dataplane.Create {
			delete(h.recreate, link.Name)
		}
	}
	h.busy, h.plan = false, nil
	h.attempts++
	if h.attempts <= eager {
		h.lookDue = n.now
		return
	}
	h.lookDue = n.now.Add(n.backoff(h.attempts-eager, n.opts.Debounce, n.opts.Resync))
}

// denySetting gives up a kernel setting, until the next start: a container sees
// /proc/sys read-only, and no attempt will change that.
func (n *Node) denySetting(s dataplane.Sysctl, err error) {
	n.host.denied[s.Path] = true
	n.event(Warning, "setting-denied", fmt.Sprintf("%s: %v; going on without: set it on the host, or make /proc/sys writable", s, err))
}

func refused(err error) bool {
	return errors.Is(err, driver.ErrUnsupported) || errors.Is(err, driver.ErrInvalid)
}

// reportPlan logs one line a plan and the first of its failures.
func (n *Node) reportPlan(plan []dataplane.Op) {
	h := &n.host
	var text string
	if len(plan) == 1 {
		text = plan[0].String()
	} else {
		var counts [dataplane.Delete + 1]int
		for _, op := range plan {
			counts[op.Verb]++
		}
		text = fmt.Sprintf("%d changes: %d added, %d put in place, %d deleted", len(plan),
			counts[dataplane.Create], counts[dataplane.Replace], counts[dataplane.Delete])
	}
	if len(h.failures) == 0 {
		n.event(Info, "applied", text)
		return
	}
	n.once(Error, "apply-failed", fmt.Sprintf("%s; %d failed, first: %v", text, len(h.failures), h.failures[0]))
}

// rememberNetworks keeps former networks owned, so that a changed config
// leaves nothing of the old one behind.
func (h *hostState) rememberNetworks(network config.Network) {
	for _, f := range cidr.Families {
		if p := network.Of(f).Network; p.IsValid() && !slices.Contains(h.networks, p) {
			h.networks = append(h.networks, p)
		}
	}
}

// forgetOld ends the ownership of former devices and networks once the host is
// clean of them.
func (n *Node) forgetOld() {
	if !n.synced() || n.fenced() {
		return
	}
	h := &n.host
	current := n.network.backend.Extent().Links
	maps.DeleteFunc(h.links, func(name string, _ bool) bool { return !slices.Contains(current, name) })
	h.networks = slices.DeleteFunc(h.networks, func(p netip.Prefix) bool {
		return p != n.network.config.V4.Network && p != n.network.config.V6.Network
	})
}
