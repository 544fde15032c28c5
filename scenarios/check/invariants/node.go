package invariants

import (
	"context"
	"net/netip"
	"slices"
	"time"

	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/driver"
	"github.com/flanneld/flannel/core/lease"
	"github.com/flanneld/flannel/core/node"
	"github.com/flanneld/flannel/core/subnetfile"
	"github.com/flanneld/flannel/drivers/sim/daemon"
	"github.com/flanneld/flannel/drivers/sim/kernel"
)

// Node is a watched node.
type Node struct {
	*kernel.Host
	// Daemon is the node's own daemon, set as soon as it exists.
	Daemon *daemon.Daemon
	// Twinned is set once another daemon or host has used this node's name. From
	// then on a record does not tell which of the two holds a subnet.
	Twinned bool
	// Public are the addresses that the node publishes in place of its own.
	Public []netip.Addr

	name   string
	all    *Invariants
	client daemon.Requester // of the last process, without planted defects
	told   lease.View       // the last view of it that the process, of several networks, has asked for

	idle    bool          // after the last event no process could act
	stoodAt time.Duration // when idle was last true

	key      lease.Key // the subnet that it holds, as of its last turn
	record   string    // the name of the record for key
	holds    bool
	last     lease.Key  // the subnet that it held last, over all restarts
	lastAddr netip.Addr // the public address at that time
	excused  bool       // it may change its subnet
	leaving  bool       // it has learnt that its network has gone

	lostAt map[string]int64 // the revisions at which records that it wrote or held were lost, by name
	lost   accident
	hidden []lease.Key // subnets held until a stale read hid their record
	blind  lease.Key   // the subnet whose record it created last while reads could be stale

	lookedAtFirewall time.Duration // the last time, in elapsed time

	families familySwitches // of the last snapshot that carries read
	document string         // the config in the last snapshot that the process knows
	config   string         // the last such config that it could use, which is in force; "": none yet
	backend  string         // the type of its backend, or of the last one that a former process knew
	// refused says that the config in that snapshot collides with another network of the host.
	refused   bool
	verdict   verdict
	resumable string // the config that the state file held when the process began
	// resumed is the subnet in that file: the process takes it for its own until it holds a lease. The
	// file may be older than the last run.
	resumed lease.Key

	observed  *dataplane.State            // by the last look, of which the node may not know yet
	connected map[dataplane.RouteKey]bool // the kernel's own routes in it

	deadlines  deadlines // of the last process
	follows    follower
	dispute    dispute
	rewired    bool  // an op has changed the host since the last event
	comparing  bool  // the last turn began with the result of a look
	programmed int64 // the revision that the node had programmed after the last comparison
	claims     claims
	published  publication
	creates    map[lease.Key]*lease.Snapshot // what the node knew when it last asked for each lease
	formerly   []netip.Addr                  // all that its processes have published

	routed []netip.Prefix // the subnets whose routes its plan for a cloud's tables may make

	tamperedAt time.Duration // when another program last changed its policies; 0: never

	minute  time.Duration // when the present minute began
	count   counts        // since then
	changes int           // of the store, before the minute

	pen pen

	parted parted

	left left // the uplink to which the node has to return

	made map[string]madeDevice // by name

	undone  undone
	surface surface
	secrecy secrecy
}

// live reports whether the process runs: a halted one neither learns nor acts.
func (n *Node) live() bool { return n.holds && n.Daemon.Running() && !n.Daemon.Halted() }

func (n *Node) addresses() []netip.Addr {
	addrs := slices.Clone(n.Public)
	for _, l := range n.Facts().Links {
		for _, a := range l.Addrs {
			addrs = append(addrs, a.Prefix.Addr())
		}
	}
	return addrs
}

// AddNode adds a node.
func (i *Invariants) AddNode(h *kernel.Host) *Node {
	n := &Node{Host: h, name: h.Name(), all: i, record: lease.Key{}.String(), lostAt: map[string]int64{}, stoodAt: -1,
		made: map[string]madeDevice{}}
	i.nodes[n.name] = n
	i.order = append(i.order, n.name)
	n.watchWire("eth0")
	return n
}

// Wrap returns a wrapper for every process of the node. The invariants watch the
// real host and store, and the node as the planted defect makes it look.
func (n *Node) Wrap(plant func(daemon.Parts) daemon.Parts) func(daemon.Parts) daemon.Parts {
	return func(p daemon.Parts) daemon.Parts {
		n.client = p.Client
		n.all.believes(n, lease.Key{}, false)
		n.deadlines = deadlines{savedUntil: n.savedExpiry()}
		n.document, n.config = "", ""
		n.refused, n.verdict = false, verdict{}
		n.resumable, n.resumed = n.savedRun()
		n.leaving = false
		n.left = n.savedLeft()
		n.lost = accident{}
		n.dispute.open = false
		n.claims, n.published = claims{compared: n.claims.compared, lacks: n.claims.lacks}, publication{}
		p.Lanes[node.HostLane] = watchedDriver{p.Lanes[node.HostLane], n}
		p.Lanes[node.FirewallLane] = watchedFirewall{p.Lanes[node.FirewallLane], n}
		p.Lanes[node.CloudLane] = &watchedCloud{Lane: p.Lanes[node.CloudLane], n: n}
		if n.all.about.Apart != nil {
			p.Client = watchedClient{p.Client, n}
		}
		p = plant(p)
		p.Node = watchedMachine{p.Node, n}
		return p
	}
}

// watchedClient notes what the process is told.
type watchedClient struct {
	daemon.Requester
	n *Node
}

// View implements [daemon.Requester].
func (c watchedClient) View() lease.View {
	c.n.told = c.Requester.View()
	return c.n.told
}

// announced returns the subnet that the node's subnet file names.
func (n *Node) announced() lease.Key {
	text, _ := n.Daemon.File(node.SubnetFile)
	return subnetfile.Previous(text)
}

// watchedMachine follows the turns of a process.
type watchedMachine struct {
	daemon.Machine
	n *Node
}

// Step follows the node's belief.
func (m watchedMachine) Step(now time.Time, in node.Input) {
	m.Machine.Step(now, in)
	m.n.noteLook(in)
	if m.n.all.about.Apart == nil || in.View != nil && !in.Stop { // a process that ends takes in no config
		m.n.noteConfig(m.Status)
	}
	m.n.noteAccident(in)
	key, holds := m.Holding()
	m.n.all.believes(m.n, key, holds)
	m.n.tookLook(in)
	m.n.stepped(now, in, m.Machine)
	m.n.checkClaims(in, m.Pulse().Phase == node.PhaseReady)
	m.n.tally(counts{turns: 1})
}

// noteConfig follows the config that the process has in force. A config that it cannot use changes nothing. Of several
// networks one may have decided more since the process has asked.
func (n *Node) noteConfig(status func() node.Status) {
	view := n.told
	if n.all.about.Apart == nil {
		view = n.client.View()
	}
	snap, refused := view.Snapshot, view.Beside.Refusal() != nil
	n.noteRemoval(view)
	if snap == nil {
		return
	}
	before := inForceAt{n.document, n.config, n.refused}
	if n.document == "" || string(snap.Config.Data) != n.document || refused != n.refused {
		n.document, n.refused = string(snap.Config.Data), refused
		text := n.document
		if refused { // what it had goes on, or what a former run had
			text = n.config
			if text == "" && view.Beside.Resumes {
				text = n.resumable
			}
		}
		if network, _, ok := usableConfig(text); ok {
			n.config, n.backend = text, network.Backend.Type
		}
	}
	n.judgeVerdict(view, before, status)
}

// Ready checks the effects that the node asks for.
func (m watchedMachine) Ready() node.Effects {
	r := m.Machine.Ready()
	n := m.n
	for _, e := range r.Lanes {
		n.all.checkPlan(n, e.Plan)
		n.checkSurface(e.Plan)
	}
	n.notePlans(r.Lanes[node.CloudLane].Plan)
	n.checkUndone(r.Lanes, m.Pulse().Phase == node.PhaseReady)
	n.began(r)
	n.checkDifference(r, m.Machine)
	n.noteMoves(r.Events)
	c := counts{lines: len(r.Events)}
	for _, e := range r.Lanes {
		c.ops += len(e.Plan)
	}
	n.noteCreate(r.Request)
	if r.Request != nil {
		c.requests = 1
		n.askedFor(r.Request.Attrs)
	}
	n.tally(c)
	if r.Exit != nil {
		n.all.exited(n, *r.Exit)
	}
	return r
}

// counts are actions of a daemon that a hot loop repeats too often.
type counts struct{ turns, ops, requests, lines int }

// tally counts a node's actions and bounds them by minute. A busy minute has a
// reason: a fault, or changed records, each of which may cost every node a look
// and a few ops. The bound is several times the need of a thousand seeds.
func (n *Node) tally(c counts) {
	i := n.all
	if now := i.elapsed(); now-n.minute >= time.Minute {
		n.minute = now
		n.count = counts{}
		n.changes = i.changes
	}
	n.count.turns += c.turns
	n.count.ops += c.ops
	n.count.requests += c.requests
	n.count.lines += c.lines
	news := i.changes - n.changes
	for _, b := range []struct {
		what      string
		did, most int
	}{
		{"turns", n.count.turns, 3000 + 50*news},
		{"changes of the host", n.count.ops, 2000 + 50*news + 50*len(i.records)},
		{"requests to the store", n.count.requests, 300 + 10*news},
		{"lines of its log", n.count.lines, 1000 + 20*news},
	} {
		if b.did > b.most {
			i.broken("no-hot-loop", "%s needs %d %s within %s; %d would be plenty", n.name, b.did, b.what,
				i.elapsed()-n.minute, b.most)
		}
	}
}

// watchedDriver follows the changes of a host.
type watchedDriver struct {
	driver.Lane
	n *Node
}

// Look records what the node knows: a bridge may come up between its look and its
// next action.
func (d watchedDriver) Look(ctx context.Context, e dataplane.Extent) (driver.Observation, error) {
	seen, err := d.Lane.Look(ctx, e)
	if err == nil {
		d.n.sawAddresses(seen.Facts.(driver.HostFacts))
		d.n.claims.file, d.n.claims.written = d.n.announced(), false
	}
	if err == nil && seen.State != d.n.observed {
		d.n.observed = seen.State
		d.n.connected = map[dataplane.RouteKey]bool{}
		for k, r := range seen.State.Routes.All {
			d.n.connected[k] = r.Protocol == dataplane.ProtocolKernel
		}
	}
	return seen, err
}

// Apply reads each object just before and after the change.
func (d watchedDriver) Apply(ctx context.Context, ops []dataplane.Op) []error {
	errs := make([]error, 0, len(ops))
	for _, op := range ops {
		var before dataplane.Route
		if r, ok := op.Object.(dataplane.Route); ok {
			before, _ = d.n.Route(r.RouteKey)
		}
		refusing := d.n.Refusing()
		err := d.Lane.Apply(ctx, []dataplane.Op{op})[0]
		if err == nil {
			d.n.all.checkOp(d.n, op, before)
			d.n.checkSurface([]dataplane.Op{op})
			d.n.noteMade(op)
			d.n.rewired = true
		} else {
			d.n.wasRefused(refusing)
		}
		errs = append(errs, err)
	}
	return errs
}
