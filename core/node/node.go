package node

import (
	"net/netip"
	"strings"
	"time"

	"github.com/flanneld/flannel/core/backend"
	"github.com/flanneld/flannel/core/config"
	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/driver"
	"github.com/flanneld/flannel/core/lease"
	"github.com/flanneld/flannel/core/node/event"
	"github.com/flanneld/flannel/core/node/transition"
	"github.com/flanneld/flannel/core/node/underlay"
	"github.com/flanneld/flannel/core/reconcile"
	"github.com/flanneld/flannel/core/uplink"
)

// Node is the state of one node's life. It belongs to one goroutine.
type Node struct {
	opts    Options
	now     time.Time
	effects Effects // for the next Ready

	store      storeState
	network    networkState
	transition *transition.Machine
	underlay   *underlay.Machine
	lease      leaseState
	lanes      [LaneCount]*lane
	host       hostState
	firewall   firewallState
	commands   commandsState
	ike        ikeState
	cloud      cloudState
	files      fileState
	probes     probeState
	removal    removal
	repairs    []Repair // the last ones, newest first
	log        *event.Log
}

// storeState holds the news of the lease store, and the saved state.
type storeState struct {
	view  lease.View
	snap  *lease.Snapshot // the one in force: the view's, else the saved one, else nil
	stale bool            // snap was saved by the last run
	// syncedAt is the last time when the view was synced; zero: never.
	syncedAt time.Time
	lost     lostRecords // peers that the datastore lost by accident
	changed  bool        // snap changed since the last look at the host
	saved    *saved      // nil: none
	giveUp   time.Time   // the time to fall back on saved
	leftOut  error       // why the config of the view is refused; see refuseLeftOut
}

// networkState is the network config in force.
type networkState struct {
	known   bool
	config  config.Network
	doc     lease.Document
	inForce lease.Document  // the last doc that could be used: that of config
	err     error           // why doc is not in force
	refusal error           // why the host cannot run doc beside its other networks
	history uint64          // of the datastore that held inForce; 0: it may have lost inForce by accident
	with    *lease.Snapshot // the last one with a config, of a named network; nil: none in this run
}

// hostState holds the last look at the host and the conclusions from it.
type hostState struct {
	facts      driver.HostFacts
	have       *dataplane.State
	looked     bool    // facts and have are known
	settled    settled // the last two states whose diff was empty; zero: none
	shared     settled // the last two states of shareTables; zero: none
	reach      reach
	asked      []netip.Addr  // whose routes the last look read
	askedAgain bool          // the next plan waits for a look that asks for more
	uplink     uplink.Uplink // in use, as peers see it
	podBridges []string      // as of the last look
	checksums  checksums     // what probes show of the network card
	nextHops   bool          // IPv4 routes use next-hop objects
	// noForwarding lists the settings that keep packets between pods from passing.
	noForwarding []string

	standing   lease.Key       // the subnet for which the last plan changed none of the node's own devices and addresses
	programmed *lease.Snapshot // for which the last diff was empty; nil: none
	conflicts  []reconcile.Conflict
	problems   []backend.Problem // peers that the backend refuses
	refusals   refusals          // peers that the kernel refuses
	endpoints  endpoints         // of WireGuard peers
	guard      guard             // against foreign routes
	paths      []PacketPath      // packet paths that this process runs
	withheld   int               // deletes that wait for the store
	recreate   map[string]bool   // links that refused a change in place
	keepMTU    map[string]int    // links whose kernel refused this MTU
	notes      []string          // the backend's, about this host
	lack       *backend.Lack     // what this host lacks for the backend, nil if nothing is known
	denied     map[string]bool   // kernel settings that the node may not change
	links      map[string]bool   // devices ever owned, in this run or an earlier one
	recall     recall            // of devices that no memory tells of
	handover   handover          // of device names to the operator's commands
	policies   bool              // whether it may own IPsec policies, of this run or an earlier one
	networks   []netip.Prefix    // overlay networks ever owned
	ports      []backend.UDPPort // at which the devices of present and former configs listen
	want       wantCache
	coming     wantCache // the rendering for a look that reads only what it changes; zero: none

	again   []dataplane.Object // that the last look read; nil: everything
	effect  bool               // the last look was to show the effect of a plan
	planned []dataplane.Object // those of the last plan, or more than fewObjects of them

	kept map[string]dataplane.PublicKey // see keptKeys
}

// settled is a desired and an observed state without a difference.
type settled struct{ want, have *dataplane.State }

// New returns the node before its first Step.
func New(opts Options) *Node {
	n := &Node{opts: opts.WithDefaults(), log: event.NewLog()}
	n.lanes = newLanes(n)
	n.host.links = map[string]bool{}
	n.host.handover.saved = map[string]bool{}
	n.host.recreate = map[string]bool{}
	n.host.keepMTU = map[string]int{}
	n.host.denied = map[string]bool{}
	n.transition = transition.New(n.log, n.opts.ChangeLimit)
	n.underlay = underlay.New(n.log)
	n.host.refusals.of = map[netip.Prefix]refusal{}
	n.commands = newCommandsState()
	n.lease.previous = opts.Previous
	n.lease.besides.written = map[lease.Key]lease.ByFamily{}
	n.lease.ceded = map[lease.Key]bool{}
	n.probes = newProbeState(n.opts)
	n.load(opts.Saved)
	return n
}

// WithDefaults returns the options with each zero duration replaced by its default.
func (o Options) WithDefaults() Options {
	set := func(d *time.Duration, to time.Duration) {
		if *d <= 0 {
			*d = to
		}
	}
	set(&o.LeaseTTL, 24*time.Hour)
	set(&o.RenewMargin, time.Hour)
	set(&o.Resync, 30*time.Second)
	set(&o.Debounce, 100*time.Millisecond)
	set(&o.Rules, 5*time.Second)
	set(&o.ChangeLimit, time.Hour)
	return o
}

// Step takes in the news and decides on the next effects. Now never goes back.
func (n *Node) Step(now time.Time, in Input) {
	if now.Before(n.now) {
		now = n.now
	}
	if n.now.IsZero() {
		n.store.giveUp = now.Add(patience)
		n.transition.NotAfter(now)
		for _, l := range n.lanes {
			l.lookBy(now, causeStart)
		}
	}
	n.now = now
	if n.store.view.Synced {
		n.store.syncedAt = now
	}
	if n.effects.Exit != nil {
		return
	}
	n.absorb(in)
	n.chooseSnapshot()
	n.giveUpLost()
	if in.Stop {
		n.files.saveDue, n.files.retryAt = time.Time{}, time.Time{}
		n.followFiles()
		for _, l := range n.lanes {
			n.stopLane(l)
		}
		return
	}
	n.noticeRemoval()
	if n.removal.begun() {
		n.followRemoval()
		return
	}
	n.followConfig()
	n.followUplink()
	n.followBackends()
	n.followLease()
	for _, l := range n.lanes {
		n.followLane(l)
	}
	if n.transition.Changing() {
		n.followBackends() // what the lanes have found may end a step of the change
		n.followLease()
	}
	n.followFiles()
	n.followProbes()
}

// absorb records results; it decides nothing.
func (n *Node) absorb(in Input) {
	if in.View != nil {
		view := n.refuseLeftOut(*in.View)
		// The node may now make the deletes withheld during the outage.
		if view.Synced && !n.store.view.Synced {
			for _, id := range []LaneID{HostLane, CommandsLane, IKELane} {
				n.lanes[id].lookBy(n.now, causeChange)
			}
			if n.cloud.plan.Withheld > 0 {
				n.lanes[CloudLane].lookBy(n.now, causeChange)
			}
			n.storeAnswers(view.Snapshot)
		}
		if before, now := n.assigned(), view.Assigned; before != now && !before.SameAddresses(now) {
			n.underlay.Again()
		}
		n.store.view = view
	}
	for _, l := range n.lanes {
		n.absorbLane(l, in.Lanes[l.id])
	}
	if in.Requested != nil {
		n.finishedRequest(*in.Requested)
	}
	if in.Wrote != nil {
		n.wroteFiles(*in.Wrote)
	}
	if in.Probed != nil {
		n.probed(*in.Probed)
	}
}

// Ready returns the effects of the last Step. Each effect is returned once.
func (n *Node) Ready() Effects {
	e := n.effects
	e.Wake, e.Events = n.wake(), n.log.Take()
	n.effects = Effects{Exit: e.Exit}
	return e
}

// wake returns the earliest moment at which time alone changes a decision.
func (n *Node) wake() time.Time {
	var at time.Time
	consider := func(t time.Time) {
		// A decision whose moment has passed waits for something other than time.
		if t.After(n.now) && (at.IsZero() || t.Before(at)) {
			at = t
		}
	}
	if n.store.snap == nil && n.store.saved != nil {
		consider(n.store.giveUp)
	}
	if n.store.stale {
		consider(n.store.saved.Expires)
	}
	if len(n.store.lost.peers) > 0 {
		consider(n.store.lost.until)
	}
	for _, l := range n.lanes {
		if !l.busy && l.part.watches() {
			consider(l.lookDue)
		}
	}
	consider(n.underlay.At())
	n.transition.Wake(n.now, consider)
	n.lease.wake(consider)
	consider(n.files.wake())
	consider(n.probes.wake())
	return at
}

// exit ends the process as failed.
func (n *Node) exit(reason error) {
	n.event(Error, "exit", reason.Error())
	n.effects.Exit = &Exit{Status: 1, Reason: reason.Error()}
}

func (n *Node) event(level Level, kind, text string) { n.log.Add(level, kind, text) }

// jitter spreads d over ±20 %, so that nodes started together drift apart.
func (n *Node) jitter(d time.Duration) time.Duration {
	return d*4/5 + time.Duration(n.opts.Rand.Int64N(int64(d)*2/5+1))
}

// backoff returns a jittered pause that doubles with each attempt, from first to most.
func (n *Node) backoff(attempt int, first, most time.Duration) time.Duration {
	return n.jitter(min(first<<min(attempt, 20), most))
}

func (n *Node) once(level Level, kind, text string) { n.log.Once(level, kind, text) }

// textOf returns the texts of several errors, or "" without any.
func textOf[E error](errs []E) string {
	return strings.Join(textsOf(errs), "\n")
}

func textsOf[E error](errs []E) []string {
	texts := make([]string, len(errs))
	for i, err := range errs {
		texts[i] = err.Error()
	}
	return texts
}
