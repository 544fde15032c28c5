package daemon

import (
	"slices"
	"time"

	"github.com/flanneld/flannel/core/driver"
	"github.com/flanneld/flannel/core/lease"
	"github.com/flanneld/flannel/core/networks"
	"github.com/flanneld/flannel/core/node"
	"github.com/flanneld/flannel/drivers/sim/kernel"
	"github.com/flanneld/flannel/drivers/sim/store"
	"github.com/flanneld/flannel/drivers/sim/world"
)

// lookForNetworks is the time between two looks for networks in the datastore.
const lookForNetworks = 5 * time.Second

// Crew is flanneld with several networks as a service of a host: one process, with a
// node for each network. Its decisions are those of package networks. A [Daemon] of it is
// the part of one network; a command to one of them, such as Stop, is a command to all.
type Crew struct {
	host  *kernel.Host
	rules networks.Crew
	held  func() (names []string, synced bool)

	members []*Daemon  // of all networks that a process may run, in the order of Add
	run     *crewRun   // nil: there is no process
	exit    *node.Exit // of the last process, if it ended by itself or by Stop
}

// crewRun is one process of a crew.
type crewRun struct {
	host    *networks.Host
	filter  *networks.Filter
	nodes   map[string]*crewNode // the members that run
	ending  *node.Exit           // not nil: the process ends
	restart bool                 // start again as soon as it has ended
	look    *world.Event         // the next look for networks
}

// crewNode is a network of a process.
type crewNode struct {
	daemon  *Daemon
	idle    bool // it waits for a config
	stopped bool // the crew has ended it
	retry   *world.Event
	lane    driver.Lane // its part of the firewall
}

// NewCrew installs flanneld on the host, not yet started. Held returns the networks that the
// datastore holds; synced is false while it does not answer.
func NewCrew(h *kernel.Host, rules networks.Crew, held func() (names []string, synced bool)) *Crew {
	return &Crew{host: h, rules: rules, held: held}
}

// Add adds the part of a network, which uses a store of its own.
func (c *Crew) Add(network string, s *store.Store, opts Options) *Daemon {
	d := New(c.host, s, opts)
	d.crew, d.network = c, network
	d.opts.OnExit = func(exit node.Exit) { c.ended(d, exit) }
	if len(c.members) > 0 {
		d.secrets = c.members[0].secrets
	}
	c.members = append(c.members, d)
	return d
}

func (c *Crew) start() {
	if c.run != nil {
		c.run.restart = c.run.ending != nil
		return
	}
	c.exit = nil
	c.run = &crewRun{
		host: networks.NewHost(), filter: networks.NewFilter(c.host.Firewall()), nodes: map[string]*crewNode{},
	}
	c.begin(c.rules.Begin(c.former())...)
	c.lookSoon(0)
}

// former returns the networks of which the host has files.
func (c *Crew) former() (names []string) {
	for _, d := range c.members {
		_, subnet := d.File(node.SubnetFile)
		_, state := d.File(node.StateFile)
		if subnet || state {
			names = append(names, d.network)
		}
	}
	return names
}

// begin starts the nodes of networks. All of them are members of the host before the first one begins.
func (c *Crew) begin(names ...string) {
	nodes := make([]*crewNode, len(names))
	for j, name := range names {
		i := slices.IndexFunc(c.members, func(d *Daemon) bool { return d.network == name })
		n := &crewNode{daemon: c.members[i], lane: c.run.filter.Join(name, nil)}
		state, _ := n.daemon.File(node.StateFile)
		c.run.host.Join(name, state)
		c.run.nodes[name], nodes[j] = n, n
	}
	for _, n := range nodes {
		n.daemon.start()
	}
}

// join connects a process with the others: it sees its part of the firewall, and its view of
// the datastore tells what it has to know of them.
func (c *Crew) join(p *process, parts *Parts) {
	name, run := p.daemon.network, c.run
	parts.Lanes[node.FirewallLane] = run.nodes[name].lane
	parts.Client = besideClient{parts.Client, run.host, name}
	run.host.Follow(name, func() { p.after(0, p.label.turn, p.viewChanged) })
}

// besideClient is the store of a network on a host with others.
type besideClient struct {
	Requester
	host *networks.Host
	name string
}

// View implements [Requester].
func (b besideClient) View() lease.View { return b.host.View(b.name, b.Requester.View()) }

// lookSoon looks for networks after a time, and then at intervals.
func (c *Crew) lookSoon(after time.Duration) {
	if !c.rules.Watch {
		return
	}
	run := c.run
	run.look.Cancel()
	run.look = c.host.World().After(after, c.host.Name()+": networks", func() {
		if run.ending != nil {
			return
		}
		if names, synced := c.held(); synced && !c.halted() {
			c.follow(names)
		}
		c.lookSoon(lookForNetworks)
	})
}

// halted reports whether the process is halted.
func (c *Crew) halted() bool { return slices.ContainsFunc(c.members, (*Daemon).Halted) }

// follow starts and ends nodes, as the datastore holds their networks.
func (c *Crew) follow(held []string) {
	idle := map[string]bool{}
	for name, n := range c.run.nodes {
		idle[name] = n.idle
	}
	begin, end := c.rules.Follow(held, idle)
	for _, name := range end {
		n := c.run.nodes[name]
		n.stopped = true
		n.daemon.stop()
	}
	c.begin(begin...)
}

// pulsed follows the pulse of a node.
func (c *Crew) pulsed(d *Daemon, p node.Pulse) {
	n := c.nodeOf(d)
	if n == nil {
		return
	}
	c.run.host.Hold(d.network, p.Holds)
	if n.idle == p.Unusable {
		return
	}
	n.idle = p.Unusable
	if n.idle {
		c.lookSoon(0)
	}
}

func (c *Crew) nodeOf(d *Daemon) *crewNode {
	if c.run == nil {
		return nil
	}
	return c.run.nodes[d.network]
}

// ended decides what follows the end of a node.
func (c *Crew) ended(d *Daemon, exit node.Exit) {
	n := c.nodeOf(d)
	if n == nil {
		return
	}
	next := c.rules.After(exit)
	switch {
	case c.run.ending != nil:
		c.drop(d)
	case n.stopped || next == networks.Leave:
		c.drop(d)
		c.lookSoon(0)
	case next == networks.Exit:
		c.drop(d)
		c.end(exit)
	case next == networks.Wait:
		c.run.host.Gone(d.network)
		d.start()
	default:
		c.retry(n)
	}
	c.finish()
}

// retry starts a node again after a pause.
func (c *Crew) retry(n *crewNode) {
	run := c.run
	n.retry = c.host.World().After(networks.RetryPause, n.daemon.name()+": retry", func() {
		switch {
		case c.run != run || run.ending != nil:
			return
		case c.halted():
			c.retry(n)
		default:
			n.daemon.start()
		}
	})
}

// drop ends the membership of a network.
func (c *Crew) drop(d *Daemon) {
	delete(c.run.nodes, d.network)
	c.run.host.Leave(d.network)
	c.run.filter.Leave(d.network)
}

func (c *Crew) stop() {
	if c.run != nil && c.run.ending == nil {
		c.end(node.Exit{Reason: "shutting down"})
		c.finish()
	}
}

// end asks all nodes to end.
func (c *Crew) end(exit node.Exit) {
	c.run.ending = &exit
	for _, d := range c.members {
		n := c.nodeOf(d)
		if n == nil {
			continue
		}
		if d.process == nil { // it waits for its retry
			n.retry.Cancel()
			c.drop(d)
			continue
		}
		d.stop()
		if c.run == nil {
			return
		}
	}
}

// finish ends the process when it ends and its last node has ended.
func (c *Crew) finish() {
	run := c.run
	if run == nil || run.ending == nil || len(run.nodes) > 0 {
		return
	}
	run.look.Cancel()
	c.run, c.exit = nil, run.ending
	if run.restart {
		c.start()
	}
}

func (c *Crew) kill() {
	run := c.run
	if run == nil {
		return
	}
	c.run = nil
	run.look.Cancel()
	for _, d := range c.members {
		d.kill()
	}
}
