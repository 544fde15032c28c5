package simworld

import (
	"errors"
	"fmt"
	"net/netip"
	"runtime/debug"
	"strings"
	"time"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/drivers/sim/cloud"
	"github.com/flanneld/flannel/drivers/sim/daemon"
	"github.com/flanneld/flannel/drivers/sim/kernel"
	"github.com/flanneld/flannel/drivers/sim/store"
	"github.com/flanneld/flannel/drivers/sim/world"
	"github.com/flanneld/flannel/scenarios/check/invariants"
	"github.com/flanneld/flannel/scenarios/check/oracle"
	"github.com/flanneld/flannel/scenarios/lang"
	"github.com/flanneld/flannel/tools/trace"
)

// init slows the collector: a seed leaves much garbage and keeps little, and a third of its time was the collector's.
func init() { debug.SetGCPercent(400) }

// World is a topology in the simulator.
type World struct {
	World   *world.World
	network *kernel.Network

	top      lang.Topology
	began    time.Time
	segments []*kernel.Segment
	router   *kernel.Host
	cloud    *cloud.Cloud   // of which each host is an instance
	outside  *kernel.Host   // nil if the topology has none
	outward  []dataplane.Op // the changes that Outward made
	storage  *store.Store
	servers  []*store.Server
	nodes    map[string]*simNode

	podCIDR map[string]int // the numbers of the subnets to which nodes were moved
	moves   int

	invariants *invariants.Invariants
	defects    []Defect

	apart  *invariants.Apart // nil: each host has one network
	worlds *[]*World         // of all networks, this one included
}

var (
	_ lang.World         = (*World)(nil)
	_ lang.DeadlineJudge = (*World)(nil)
)

// Wrap wraps the parts of a node's process.
type Wrap func(node string, p daemon.Parts) daemon.Parts

// Defect is a defect that a test plants: in each daemon, or in the answers that flannelctl
// trace gets from a node's kernel. A nil member plants nothing there.
type Defect struct {
	Daemon Wrap
	Trace  func(node string, k trace.Kernel) trace.Kernel
}

// New builds a topology in the simulator. The seed determines every random
// choice. The daemons are the real ones, with the defects that a test plants.
func New(top lang.Topology, seed uint64, defects ...Defect) (*World, error) {
	events := world.New(seed)
	w := &World{World: events, network: kernel.NewNetwork(events), top: top, nodes: map[string]*simNode{},
		defects: defects}
	w.began = w.World.Now()
	w.worlds = &[]*World{w}
	if top.Networks != nil && !top.Apart {
		w.apart = invariants.WatchApart(events)
	}
	w.router = w.network.NewHost("router")
	w.router.Forward()
	for i := range top.Segments {
		g := w.network.NewSegment(fmt.Sprintf("segment%d", i))
		w.segments = append(w.segments, g)
		if err := w.plug(w.router, fmt.Sprintf("eth%d", i), i, lang.RouterHost); err != nil {
			return nil, err
		}
	}
	w.addCloud()
	if top.Firewalled() {
		if err := w.addOutside(); err != nil {
			return nil, err
		}
	}
	if err := w.newStore(); err != nil {
		return nil, err
	}
	for i, name := range top.NodeNames() {
		n, err := w.newNode(i, name)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		w.nodes[name] = n
	}
	return w, nil
}

// plug gives a host a link on a segment, with the addresses of a host number.
func (w *World) plug(h *kernel.Host, link string, segment, number int) error {
	var addrs []netip.Prefix
	for _, f := range cidr.Families {
		if f == cidr.V4 || w.top.HasIPv6() {
			addrs = append(addrs, lang.UnderlayAddr(f, segment, number))
		}
	}
	if _, err := h.AddUplink(link, w.segments[segment], addrs...); err != nil {
		return err
	}
	if w.top.MTU != 1500 {
		return h.SetMTU(link, w.top.MTU)
	}
	return nil
}

// Name implements [lang.World].
func (w *World) Name() string { return "sim" }

// Close implements [lang.World].
func (w *World) Close() error { return w.World.Err() }

// Directed implements [lang.DeadlineJudge].
func (w *World) Directed(directive, faults []string, host func(node string) (oracle.Host, error)) {
	w.invariants.Directed(invariants.Situation{Directive: directive, Faults: faults, Host: host})
}

// JudgeClaims begins to judge what records of other programs do to nodes.
func (w *World) JudgeClaims() {
	for _, o := range *w.worlds {
		o.invariants.JudgeClaims()
	}
}

// Logs implements [lang.World].
func (w *World) Logs() string {
	var all strings.Builder
	fmt.Fprintf(&all, "seed %d, trace %016x, after %s\n", w.World.Seed(), w.World.TraceHash(), w.Elapsed())
	for _, n := range w.allNodes() {
		log := n.daemon.Log()
		fmt.Fprintf(&all, "%s:\n%s\n", n.label(), strings.Join(log[max(0, len(log)-lang.LogTail):], "\n"))
	}
	return all.String()
}

// Events counts the daemons' log events, by kind.
func (w *World) Events() map[string]int {
	counts := map[string]int{}
	for _, n := range w.allNodes() {
		for _, line := range n.daemon.Log() {
			// The form is "12.345 n1 kind: text".
			fields := strings.Fields(line)
			if kind, ok := strings.CutSuffix(fields[min(2, len(fields)-1)], ":"); ok {
				counts[kind]++
			}
		}
	}
	return counts
}

// allNodes returns the nodes of all networks.
func (w *World) allNodes() []*simNode {
	var all []*simNode
	for _, o := range *w.worlds {
		for _, name := range w.top.NodeNames() {
			all = append(all, o.nodes[name])
		}
	}
	return all
}

// Elapsed returns the time since the world began.
func (w *World) Elapsed() time.Duration { return w.World.Now().Sub(w.began) }

// Until implements [lang.World]: it runs events. It checks the condition every 10 ms
// of virtual time, and less often the longer it takes: a check after every event
// would cost more than the events themselves.
func (w *World) Until(within time.Duration, cond func() error) error {
	for began := w.World.Now(); ; {
		err, passed := cond(), w.World.Now().Sub(began)
		if err == nil || passed >= within || w.World.Err() != nil {
			return errors.Join(err, w.World.Err())
		}
		w.World.Run(min(within-passed, max(10*time.Millisecond, passed/20)))
	}
}

// Node implements [lang.World].
func (w *World) Node(name string) (lang.Node, error) {
	n, ok := w.nodes[name]
	if !ok {
		return nil, fmt.Errorf("no node %q", name)
	}
	return n, nil
}

// pod finds "n1.pod".
func (w *World) pod(name string) (*kernel.Pod, error) {
	n, ok := w.nodes[strings.TrimSuffix(name, ".pod")]
	if !ok || !strings.HasSuffix(name, ".pod") {
		return nil, fmt.Errorf("no pod %q: want n1.pod", name)
	}
	if n.pod == nil {
		return nil, fmt.Errorf("%s does not exist: its node has not settled yet", name)
	}
	return n.pod, nil
}

// Ping implements [lang.World].
func (w *World) Ping(from, to string, o lang.PingOptions) (lang.PingResult, error) {
	a, b, err := lang.Pair(w.place, from, to, o.Family)
	if err != nil {
		return lang.PingResult{}, err
	}
	opts := kernel.PingOptions{Src: o.Source, DF: o.DF, TTL: uint8(o.TTL)}
	if o.Size > 0 {
		opts.Size = o.Size - lang.HeaderSize(o.Family)
	}
	p := a.ping(b.addrs[o.Family], opts)
	w.World.RunUntil(p.Done, time.Minute)
	r := lang.PingResult{OK: p.Delivered, Source: p.SourceSeen, WantSource: a.addrs[o.Family], Drop: string(p.Drop),
		Where: p.Where, Expired: p.Drop == kernel.DropTTL, TooBig: p.Drop == kernel.DropTooBig}
	for _, h := range p.Path {
		r.Trace = append(r.Trace, h.String())
	}
	return r, w.World.Err()
}

// Transfer implements [lang.Streamer]. The simulator has no TCP: it sends the bytes as
// echo requests that fill the path's MTU, every one of which must come back.
func (w *World) Transfer(from, to string, f cidr.Family, bytes int64) error {
	_, b, err := lang.Pair(w.pod, from, to, f)
	if err != nil {
		return err
	}
	size := int64(w.nodes[b.Host().Name()].mtu)
	for sent := int64(0); sent < bytes; sent += size {
		r, err := w.Ping(from, to, lang.PingOptions{Family: f, Size: int(size), DF: true})
		if err != nil {
			return err
		}
		if !r.OK || r.Source != r.WantSource {
			return fmt.Errorf("after %d bytes: %s %s", sent, lang.Outcome(r), r.Drop)
		}
	}
	return nil
}

// Stream implements [lang.Streamer].
func (w *World) Stream(from, to string, o lang.StreamOptions) (func() (int, int, error), error) {
	a, b, err := lang.Pair(w.place, from, to, o.Family)
	if err != nil {
		return nil, err
	}
	var probes []*kernel.Probe
	var next *world.Event
	var send func()
	send = func() {
		probes = append(probes, a.ping(b.addrs[o.Family], kernel.PingOptions{Timeout: lang.EchoBound}))
		next = w.World.After(o.Every, "stream "+from+" "+to, send)
	}
	send()
	return func() (sent, lost int, err error) {
		next.Cancel()
		w.World.RunUntil(func() bool { return probes[len(probes)-1].Done() }, time.Minute)
		for _, p := range probes {
			if !p.Delivered {
				lost++
			}
		}
		return len(probes), lost, w.World.Err()
	}, nil
}

// Store implements [lang.World].
func (w *World) Store() lang.Store {
	s := simStore{Store: w.storage}
	for _, o := range *w.worlds {
		s.etcd = append(s.etcd, o.storage)
	}
	return s
}

// simStore adapts the simulated store to scenarios.
type simStore struct {
	*store.Store
	etcd []*store.Store // of all networks, which one etcd holds
}

func (s simStore) Stop() error              { s.each((*store.Store).Stop); return nil }
func (s simStore) Start() error             { s.each((*store.Store).Start); return nil }
func (s simStore) Compact() error           { s.Store.Compact(); return nil }
func (s simStore) Expire(name string) error { return s.Revoke(name) }

// Put implements [lang.Store]. The config of a Kubernetes cluster is no record.
func (s simStore) Put(name, value string) error {
	if name == "config" && s.Kubernetes() {
		return s.SetNetConfig(value)
	}
	return s.Store.Put(name, value, 0)
}

func (s simStore) Records() ([]lang.Record, error) {
	var records []lang.Record
	snap := s.Snapshot()
	for _, l := range snap.Leases {
		if s.Kubernetes() {
			records = append(records, nodeRecord(*l))
			continue
		}
		value, _ := s.Get("subnets/" + l.Key.String())
		records = append(records, lang.Record{Name: l.Key.String(), Value: value, Reserved: l.Reserved(),
			Created: l.CreateRevision, Modified: l.ModRevision})
	}
	for _, q := range snap.Quarantined {
		name := q.Raw[strings.LastIndexByte(q.Raw, '/')+1:]
		records = append(records, lang.Record{Name: name, Value: "(undecodable)"})
	}
	return records, nil
}
