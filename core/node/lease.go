package node

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/flanneld/flannel/core/backend"
	"github.com/flanneld/flannel/core/backend/backends"
	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/driver"
	"github.com/flanneld/flannel/core/lease"
	"github.com/flanneld/flannel/core/uplink"
)

// leaseState is the node's right to its subnet.
//
// Self is the subnet the host is programmed for; grant is the right to it. If
// the right is lost or can no longer be proven, the node is fenced. A fenced node
// keeps its data plane, because taking it down would only cut connections, but it
// announces nothing until it holds a lease again (docs/adr 0005).
type leaseState struct {
	self     backend.Self
	grant    *lease.Grant
	full     lease.Attrs // what the host is programmed for: it offers every way
	attrs    lease.Attrs // the desired content of our record: full without the ways that are not ready
	source   attrsSource // the inputs of attrs, besides the stored attributes
	previous lease.Key   // the subnet to ask for first
	target   lease.Key   // the subnet to move to from one that does not fit any more

	busy     bool
	request  Request
	agreed   agreement // the last comparison that called for nothing
	atLeast  int64     // no decision on a snapshot older than this revision
	retryAt  time.Time // after a failure
	attempts int
	renewAt  time.Time
	doubtAt  time.Time // when to ask the store about a write that no snapshot has shown
	asked    bool      // the grant's TTL is the store's answer to ours
	created  bool      // this run created the record, with a subnet that the host did not have before
	expired  bool
	trouble  error   // why there is no lease, or why it is not in order
	copied   bool    // an older record of another host has our backend data
	unknown  Request // the last update whose outcome is unknown
	dispute  dispute
	besides  besides
	ceded    map[lease.Key]bool // the subnets that another host took from this run
}

// fenced reports whether the host is programmed for a subnet that the node
// cannot prove to hold. The lease of the last run counts until it ends, as it
// would have for that run.
func (n *Node) fenced() bool {
	l, s := &n.lease, n.store.saved
	switch {
	case !l.self.Key.IsValid():
		return false
	case l.grant != nil:
		return l.expired || l.grant.Key != l.self.Key
	case n.store.stale:
		return !s.Expires.IsZero() && !n.now.Before(s.Expires)
	}
	return true
}

type attrsSource struct {
	uplink  uplink.Uplink
	backend *backends.Set     // each config has its own
	key     driver.Key        // of the host's tunnels
	startup dataplane.Command // as it ran
}

// wake passes consider the moments at which time alone changes a decision.
// Requests wait for the last answer and for retryAt; the fence waits for nothing.
func (l *leaseState) wake(consider func(time.Time)) {
	if l.grant != nil && !l.expired {
		consider(l.grant.Expires)
	}
	if l.busy {
		return
	}
	consider(l.retryAt)
	if l.grant == nil {
		return
	}
	for _, at := range [...]time.Time{l.renewAt, l.doubtAt, l.dispute.repairAt, l.besides.retryAt} {
		if at.After(l.retryAt) {
			consider(at)
		}
	}
}

// followLease compares the lease with the snapshot and sends at most one
// request. Every Step calls it, so it is idempotent.
func (n *Node) followLease() {
	l := &n.lease
	if n.effects.Exit != nil || !n.network.known || n.host.uplink.Link == "" {
		return
	}
	n.noticeExpiry()
	if l.busy || n.store.stale || n.store.snap == nil {
		return
	}
	if n.store.snap.Revision < l.atLeast { // all but a renewal waits for a newer one
		if l.grant != nil && l.renewalDue(n.now) && !n.now.Before(l.retryAt) {
			n.request(Request{Verb: Renew, Grant: *l.grant})
		}
		return
	}
	n.followAssignment()
	if l.grant != nil {
		n.checkGrant()
	}
	if n.effects.Exit != nil || n.now.Before(l.retryAt) {
		return
	}
	l.retryAt = time.Time{}
	err := n.followAttrs()
	switch {
	case err != nil:
		n.noAttrs(err)
	case l.grant != nil:
		n.maintain()
	case n.assigned() != nil:
		n.takeAssigned()
	default:
		n.acquire()
	}
}

// followAttrs computes what the host is programmed for and the desired content of
// our record.
func (n *Node) followAttrs() error {
	l := &n.lease
	source := attrsSource{
		n.host.uplink, n.transition.Set(), n.host.facts.Keys[dataplane.WireGuardKey], n.commands.startup(),
	}
	stored := n.stored()
	// Backends keep stored attributes, so with the same source the result is the same.
	if !l.copied && source == l.source && l.full.Equal(stored) {
		l.attrs = n.publishable()
		return nil
	}
	have := n.host.have
	if l.copied {
		stored, have = lease.Attrs{}, &dataplane.State{}
	}
	attrs, err := n.transition.Set().Attrs(n.env(), stored, have, n.opts.Rand)
	if err != nil {
		return err
	}
	n.log.Over("no-attributes")
	l.full, l.source = attrs, source
	l.copied = false
	l.attrs = n.publishable()
	return nil
}

// noticeExpiry fences the node once its lease may belong to another node. The
// store's clock and ours may differ; the next renewal shows who is right.
func (n *Node) noticeExpiry() {
	l := &n.lease
	if n.store.stale && n.fenced() {
		n.once(Error, "lease-expired", fmt.Sprintf("saved lease %s has run out while the datastore did not answer; "+
			"it may belong to another node by now", l.self.Key))
	}
	if l.grant == nil || l.grant.Reserved() || l.expired || l.grant.Expires.IsZero() || n.now.Before(l.grant.Expires) {
		return
	}
	l.expired = true
	n.event(Error, "lease-expired", fmt.Sprintf("lease %s could not be renewed in time; "+
		"it may belong to another node by now", l.grant.Key))
}

// noAttrs handles a config that this node cannot serve. The node still renews a held
// lease, since the operator may fix the config.
func (n *Node) noAttrs(err error) {
	l := &n.lease
	var wait backend.NotYet
	waits := errors.As(err, &wait)
	if waits && !wait.Soon {
		n.once(Warning, "no-attributes", err.Error())
	}
	switch {
	case !waits && !l.self.Key.IsValid() && !n.waitsForAddress():
		n.exit(err)
		return
	case l.grant != nil && l.renewalDue(n.now):
		n.request(Request{Verb: Renew, Grant: *l.grant})
	}
	l.trouble = err
}

// stored returns the attributes that the node last published, so that peers need
// not change: those of this run, of the store, or of the state file, in this
// order.
func (n *Node) stored() lease.Attrs {
	if n.lease.self.Key.IsValid() {
		return n.lease.self.Attrs
	}
	if n.lease.grant != nil { // granted, but no snapshot shows it yet
		return n.lease.grant.Attrs
	}
	if own, ok := n.ownRecord(); ok {
		return own.Attrs
	}
	if n.store.saved != nil {
		return n.store.saved.Self.Attrs
	}
	return lease.Attrs{}
}

// lost notes that the right to the subnet is gone for good. After an accident of
// the datastore that removed the peers' records too, the node does not
// exit, but writes its record again, unless another node has taken the subnet.
func (n *Node) lost(reason error) {
	l := &n.lease
	n.event(Error, "lease-lost", reason.Error())
	accident := n.now.Before(n.store.lost.until) && !n.taken(l.grant.Key)
	l.trouble = reason
	n.drop()
	if n.opts.ExitOnLoss && !accident {
		n.exit(reason)
	}
}

// taken reports whether another node's record covers part of a subnet.
func (n *Node) taken(key lease.Key) bool {
	return slices.ContainsFunc(n.others(), func(p *lease.Lease) bool { return p.Key.Overlaps(key) })
}

// drop forgets the grant. The host stays as it is until the node holds another.
func (n *Node) drop() {
	l := &n.lease
	l.grant = nil
	l.target = lease.Key{}
	l.renewAt, l.doubtAt = time.Time{}, time.Time{}
	l.expired, l.asked = false, false
	l.created = false
	l.dispute.anew = false
}

// maintain keeps a held lease valid for the config, correct and renewed.
func (n *Node) maintain() {
	l := &n.lease
	if err := n.fits(n.network.config, l.grant.Key); err != nil {
		n.leaveUnfit(err)
		return
	}
	wrong := l.dispute.anew || !l.attrs.Equal(l.grant.Attrs) || n.otherTTL()
	switch {
	case wrong && !n.now.Before(l.dispute.repairAt):
		n.request(Request{Verb: Update, Grant: *l.grant, Attrs: l.attrs, TTL: n.opts.LeaseTTL})
	case l.renewalDue(n.now):
		n.request(Request{Verb: Renew, Grant: *l.grant})
	case wrong:
		l.trouble = l.dispute.err
	default: // nothing is left to do, so earlier failures are over
		l.trouble, l.attempts = nil, 0
		if r, ok := n.outdatedBeside(); ok && !n.now.Before(l.besides.retryAt) {
			n.readdress(r)
		}
	}
}

// leaveUnfit gives up a lease that does not fit the config any more, as soon as
// another can be had. A reservation stays in the store (interop E15), and the node
// asks for a lease with the half that fits.
func (n *Node) leaveUnfit(why error) {
	l := &n.lease
	switch {
	case l.grant.Reserved():
		n.event(Warning, "lease-unfit", fmt.Sprintf("lease %s does not fit the network any more (%v); asking for another",
			l.grant.Key, why))
		n.drop()
	case l.renewalDue(n.now):
		n.request(Request{Verb: Renew, Grant: *l.grant})
	default:
		n.move(*l.grant, why)
	}
}

// renewalDue reports whether it is time to renew. It depends only on the lease.
func (l *leaseState) renewalDue(now time.Time) bool {
	return !l.renewAt.IsZero() && !now.Before(l.renewAt)
}

// otherTTL reports whether the lease still has the TTL of an earlier run with
// another option. The store may have a shortest or a longest TTL, so any answer
// to a request of this run counts as the right one.
func (n *Node) otherTTL() bool {
	l := &n.lease
	return !l.asked && !l.grant.Reserved() && l.grant.TTL > 0 && l.grant.TTL != n.opts.LeaseTTL
}

func (n *Node) request(r Request) {
	r.Limit = requestLimit(r.Grant, n.now)
	n.lease.busy, n.lease.request = true, r
	n.effects.Request = &r
}

// The time limit of a request for a lease that is about to end. The stores give up a
// request without an answer after mostRequest or later.
const (
	leastRequest = time.Second
	mostRequest  = 5 * time.Second
)

// requestLimit returns the time limit of a request for a held lease, or 0 for that of the
// store. A request whose packets are lost, or whose connection is dead, holds up the next
// one. With half of the lease's remaining time, the node can ask again before its end.
func requestLimit(g lease.Grant, now time.Time) time.Duration {
	left := g.Expires.Sub(now)
	if g.Expires.IsZero() || left <= 0 || left >= 2*mostRequest {
		return 0
	}
	return max(left/2, leastRequest)
}

// finishedRequest handles the answer of the store.
func (n *Node) finishedRequest(done Requested) {
	l := &n.lease
	req := l.request
	l.busy, l.request = false, Request{}
	var conflict *lease.ConflictError
	switch {
	case l.isReaddress(req):
		n.readdressed(req, done)
	case errors.As(done.Err, &conflict):
		l.atLeast = max(l.atLeast, conflict.Revision)
		n.retrySoon(req, done.Err)
	case errors.Is(done.Err, lease.ErrLost) && l.grant != nil:
		n.lost(fmt.Errorf("%s of lease %s: %w", req.Verb, req.Grant.Key, done.Err))
		n.retrySoon(req, done.Err)
	case done.Err != nil:
		if req.Verb == Update {
			l.unknown = req
		}
		l.trouble = fmt.Errorf("%s of lease %s: %w", req.Verb, keyOf(req), done.Err)
		if l.attempts == 0 {
			n.event(Warning, "lease-request-failed", l.trouble.Error())
		}
		n.retryLease()
	case req.Verb == Release:
		// Wait for a snapshot without the record: in an older one the node would
		// find it again. Releasing a record that has changed does nothing.
		n.retryWithin(releasePause, 5*time.Second)
	default:
		if req.Verb == Create {
			l.created = !slices.Contains(n.formerKeys(), req.Key)
		}
		n.hold(done.Grant)
		if req.Verb != Renew { // the record has the desired content
			l.asked, l.unknown = true, Request{}
			l.dispute.anew = false
		}
	}
}

func keyOf(r Request) lease.Key {
	if r.Verb == Create {
		return r.Key
	}
	return r.Grant.Key
}

// retrySoon handles an answer that a newer snapshot will explain.
func (n *Node) retrySoon(req Request, err error) {
	n.event(Info, "lease-conflict", fmt.Sprintf("%s of %s: %v; trying again", req.Verb, keyOf(req), err))
	n.retryWithin(5*time.Millisecond, 5*time.Second)
}

// releasePause is the shortest pause after the release of a record.
const releasePause = 50 * time.Millisecond

// The longest pause of a node without a lease while the view follows the datastore: all
// nodes together ask a hundred times a second at most.
const (
	followedFirst = 5 * time.Second
	followedPeer  = 10 * time.Millisecond
)

// retryLease sets the time of the next attempt after a failure: within a minute,
// and well before the lease ends. While changes of the datastore arrive though it grants
// nothing, no sign tells when it does again: a node without a lease asks more often.
func (n *Node) retryLease() {
	l := &n.lease
	most := time.Minute
	if l.grant != nil && !l.grant.Reserved() {
		most = min(most, max(cmp.Or(l.grant.TTL, n.opts.LeaseTTL)/10, 100*time.Millisecond))
	}
	if n.synced() && (l.grant == nil || l.expired) {
		most = min(most, followedFirst+time.Duration(len(n.store.snap.Leases))*followedPeer)
	}
	n.retryWithin(100*time.Millisecond, most)
}

// retryWithin sets the time of the next request: after a pause that grows with
// each attempt, from first to most.
func (n *Node) retryWithin(first, most time.Duration) {
	l := &n.lease
	l.retryAt = n.now.Add(n.backoff(l.attempts, first, most))
	l.attempts++
}

// A datastore that answers again gets the requests of all nodes within a time that grows
// with their number.
const (
	answersFirst = 100 * time.Millisecond
	answersPeer  = time.Millisecond
)

// storeAnswers ends the pauses that have grown while the datastore did not answer.
func (n *Node) storeAnswers(snap *lease.Snapshot) {
	l := &n.lease
	l.attempts = 0
	l.besides.attempts, l.besides.retryAt = 0, time.Time{}
	if l.retryAt.IsZero() || snap == nil {
		return
	}
	spread := answersFirst + time.Duration(len(snap.Leases))*answersPeer
	soon := n.now.Add(time.Duration(n.opts.Rand.Int64N(int64(spread))))
	if soon.Before(l.retryAt) {
		l.retryAt = soon
	}
}

// hold takes over a grant that the store has just confirmed.
func (n *Node) hold(g lease.Grant) {
	l := &n.lease
	fresh := l.grant == nil || g.Key != l.grant.Key
	if fresh || g.ModRevision != l.grant.ModRevision {
		l.doubtAt = n.now.Add(doubtAfter)
	}
	l.renewAt = time.Time{}
	if !g.Reserved() {
		l.renewAt = renewTime(g.Expires.Add(-g.TTL), g.TTL, n.opts.RenewMargin)
	}
	if l.expired || fresh {
		n.event(Info, "lease-acquired", fmt.Sprintf("holding subnet %s", describeGrant(g)))
	}
	l.grant, l.previous = &g, g.Key
	l.target = lease.Key{}
	l.expired, l.trouble = false, nil
	l.attempts, l.retryAt = 0, time.Time{}
}

func describeGrant(g lease.Grant) string {
	if g.Reserved() {
		return g.Key.String() + " (reservation)"
	}
	return fmt.Sprintf("%s for %s", g.Key, g.TTL)
}

// renewTime returns the time to renew a lease whose TTL began at began: after a
// third of the TTL, or when only the margin is left, whichever is earlier. An
// early renewal costs one small request; with it, a lease survives two thirds of
// its TTL without a datastore.
func renewTime(began time.Time, ttl, margin time.Duration) time.Time {
	after := ttl / 3
	if margin < ttl {
		after = min(after, ttl-margin)
	}
	return began.Add(after)
}
