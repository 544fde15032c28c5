package report

import (
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/control"
	"github.com/flanneld/flannel/core/lease"
	"github.com/flanneld/flannel/core/node"
	"github.com/flanneld/flannel/internal/page"
	"github.com/flanneld/flannel/tools/diff"
	"github.com/flanneld/flannel/tools/mesh"
	"github.com/flanneld/flannel/tools/trace"
)

// Daemon holds the answers of one daemon. A part that it did not give is in Missing,
// with the reason.
type Daemon struct {
	From    string // where it was asked
	Status  *node.Status
	Peers   control.Peers
	Diff    *control.Diff
	Events  control.Events
	Traces  []*trace.Result // of packets that this host sends to its peers
	Missing []string
}

// Build makes a recording of the answers. Command is the command line that asked.
func Build(now time.Time, daemons []Daemon, command string) page.Recording {
	b := &builder{now: now, began: now, daemons: daemons, r: page.NewRecorder()}
	b.choose()
	b.name()
	b.learn()
	b.history()
	b.present()
	b.packets()
	rec := b.r.Finish(b.end(), page.About{
		Scenario: "flannel on " + count(len(b.hosts)+b.hidden, "node"), World: page.Live, Replay: command,
		Began: b.began.UTC().Format(time.RFC3339Nano),
	})
	b.conclude(&rec)
	return rec
}

// longest is the longest time that a page covers. Older events are at its beginning: a host
// without a clock of its own begins in 1970, until a server tells it the time.
const longest = 30 * 24 * time.Hour

// mostHosts is the number of nodes that a page shows. The others are counted.
const mostHosts = 60

// builder makes one recording.
type builder struct {
	now, began time.Time
	daemons    []Daemon
	mesh       mesh.Result
	hidden     int // nodes that the page does not show
	hosts      []host
	missing    []string
	troubles   []string
	r          *page.Recorder
}

// host is a node on the page.
type host struct {
	name   string
	key    lease.Key // zero: none yet
	daemon *Daemon   // nil: it was not asked, or did not answer
}

// choose compares the daemons, as far as they know the nodes that the page shows.
func (b *builder) choose() {
	shown := b.shown()
	var answers []mesh.Answer
	for _, d := range b.daemons {
		if d.Status == nil {
			continue
		}
		known := control.Peers{TakenAt: d.Peers.TakenAt}
		for _, p := range d.Peers.Peers {
			if shown[p.Subnet] {
				known.Peers = append(known.Peers, p)
			}
		}
		if d.Status.Subnet.IsValid() {
			answers = append(answers, mesh.Answer{From: d.From, Status: *d.Status, Peers: known})
		}
	}
	b.mesh = mesh.Compare(answers)
}

// shown returns the nodes that the page shows: first those that were asked, then those
// with trouble, then the others.
func (b *builder) shown() map[lease.Key]bool {
	var asked, bad, rest []lease.Key
	for _, d := range b.daemons {
		if d.Status != nil && d.Status.Subnet.IsValid() {
			asked = append(asked, d.Status.Subnet)
		}
		for _, p := range d.Peers.Peers {
			if troubled(p) {
				bad = append(bad, p.Subnet)
			} else {
				rest = append(rest, p.Subnet)
			}
		}
	}
	shown, all := map[lease.Key]bool{}, map[lease.Key]bool{}
	for _, key := range slices.Concat(asked, bad, rest) {
		all[key] = true
		if len(shown) < mostHosts {
			shown[key] = true
		}
	}
	b.hidden = len(all) - len(shown)
	return shown
}

// name names the nodes by their addresses, and those that share one by their subnets too.
func (b *builder) name() {
	uses := map[string]int{}
	for _, n := range b.mesh.Nodes {
		uses[n.Address.String()]++
	}
	for _, n := range b.mesh.Nodes {
		name := n.Address.String()
		if uses[name] > 1 {
			name += " " + n.Subnet.String()
		}
		b.hosts = append(b.hosts, host{name: name, key: n.Subnet, daemon: b.daemonOf(n.Subnet)})
	}
	for i := range b.daemons {
		d := &b.daemons[i]
		switch {
		case d.Status == nil && !b.knows(d.From):
			b.hosts = append(b.hosts, host{name: d.From})
		case d.Status != nil && !d.Status.Subnet.IsValid():
			b.hosts = append(b.hosts, host{name: nameOf(d), daemon: d})
		}
	}
}

// nameOf names a node without a subnet.
func nameOf(d *Daemon) string {
	if ip := d.Status.Uplink.Public(cidr.V4); ip.IsValid() {
		return ip.String()
	}
	return d.From
}

// knows reports whether the page has a node with the address of a listener.
func (b *builder) knows(listener string) bool {
	at, err := netip.ParseAddrPort(listener)
	return err == nil && slices.ContainsFunc(b.hosts, func(h host) bool { return h.name == at.Addr().String() })
}

// daemonOf returns the daemon of a node that has answered, or nil.
func (b *builder) daemonOf(key lease.Key) *Daemon {
	for i := range b.daemons {
		if s := b.daemons[i].Status; s != nil && s.Subnet == key {
			return &b.daemons[i]
		}
	}
	return nil
}

// learn notes what is not known, and tells the recorder of the nodes.
func (b *builder) learn() {
	top := page.Topology{Segments: []string{"network between the nodes"}}
	for _, h := range b.hosts {
		top.Nodes = append(top.Nodes, page.Place{Name: h.name})
		if h.daemon == nil {
			if h.key.IsValid() {
				b.missing = append(b.missing, fmt.Sprintf("%s: its daemon was not asked, or did not answer", h.name))
			}
			continue
		}
		if top.Backend == "" {
			top.Backend = h.daemon.Status.Backend
		}
		if n := h.daemon.Events.Dropped; n > 0 {
			b.missing = append(b.missing, fmt.Sprintf("%s: the first %s, which it has forgotten", h.name, count(n, "event")))
		}
	}
	for _, d := range b.daemons {
		for _, text := range d.Missing {
			b.missing = append(b.missing, d.From+": "+text)
		}
	}
	if b.hidden > 0 {
		b.missing = append(b.missing, fmt.Sprintf("%s: the page shows %d, those with trouble first",
			count(b.hidden, "further node"), mostHosts))
	}
	b.r.Topology(top)
}

// history tells the events that the daemons remember, by each one's own clock.
func (b *builder) history() {
	type said struct {
		host string
		control.Event
	}
	var all []said
	for _, h := range b.hosts {
		if h.daemon == nil {
			continue
		}
		for _, e := range h.daemon.Events.Events {
			all = append(all, said{h.name, e})
		}
	}
	slices.SortStableFunc(all, func(x, y said) int { return x.At.Compare(y.At) })
	for _, e := range all {
		if e.At.Before(b.began) && e.At.After(b.now.Add(-longest)) {
			b.began = e.At
		}
	}
	for _, e := range all {
		at := b.at(e.At)
		b.r.Event(at, e.host, e.Kind, e.Text)
		var phase node.Phase
		if e.Kind == control.PhaseKind && phase.UnmarshalText([]byte(e.Text)) == nil {
			b.r.State(at, e.host, page.State{Life: "running", Phase: e.Text, Ready: phase == node.PhaseReady, Brief: true})
		}
	}
}

// at returns a moment as a time on the page. Clocks of hosts may differ.
func (b *builder) at(t time.Time) time.Duration { return min(max(0, t.Sub(b.began)), b.end()) }

func (b *builder) end() time.Duration { return b.now.Sub(b.began) }

// present tells the state of each node, the difference on its host, and the leases.
func (b *builder) present() {
	var leases []page.Lease
	for _, h := range b.hosts {
		if h.key.IsValid() {
			leases = append(leases, page.Lease{Key: h.key.String(), Owner: h.name, Reserved: b.reserved(h.key)})
		}
		if h.daemon == nil {
			b.r.State(b.end(), h.name, page.State{Life: "unknown", Subnet: subnet(h.key)})
			continue
		}
		b.r.State(b.end(), h.name, state(h.daemon.Status))
		if h.daemon.Diff != nil {
			b.r.Short(b.end(), h.name, shortage(*h.daemon.Diff))
		}
	}
	b.r.Leases(0, leases)
}

// reserved reports whether a daemon knows that a lease never expires.
func (b *builder) reserved(key lease.Key) bool {
	return slices.ContainsFunc(b.daemons, func(d Daemon) bool {
		return slices.ContainsFunc(d.Peers.Peers, func(p node.Peer) bool { return p.Subnet == key && p.Reserved })
	})
}

// state returns what a daemon says of its node.
func state(s *node.Status) page.State {
	out := page.State{
		Life: "running", Phase: s.Phase.String(), Ready: s.Ready, Fenced: s.Fenced, Stale: s.Stale, Synced: s.Synced,
		Peers: s.Peers, Revision: s.Revision, Subnet: subnet(s.Subnet),
		Reasons: slices.Concat(s.Unhealthy, s.Reasons, s.Problems, s.Notes),
	}
	if s.Age > 0 {
		out.Reasons = append(out.Reasons, fmt.Sprintf("the node is busy; this is its status of %s ago",
			s.Age.Round(time.Second)))
	}
	return out
}

// subnet returns the name of a subnet; empty: there is none.
func subnet(key lease.Key) string {
	if !key.IsValid() {
		return ""
	}
	return key.String()
}

// shortage returns the differences on a host as the page shows them.
func shortage(d control.Diff) []string {
	verb := map[string]string{"+": "missing ", "-": "left over "}
	var ops []string
	for _, lane := range diff.Result(d).Lanes {
		for _, l := range lane.Lines {
			text := verb[l.Sign] + l.Object
			if l.Why != "" {
				text += " (" + l.Why + ")"
			}
			ops = append(ops, text)
		}
		for _, note := range lane.Notes {
			ops = append(ops, lane.Lane+": "+note)
		}
	}
	return ops
}
