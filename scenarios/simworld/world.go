package simworld

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/driver"
	"github.com/flanneld/flannel/core/firewall"
	"github.com/flanneld/flannel/core/node"
	"github.com/flanneld/flannel/core/subnetfile"
	"github.com/flanneld/flannel/drivers/sim/daemon"
	"github.com/flanneld/flannel/drivers/sim/kernel"
	"github.com/flanneld/flannel/drivers/sim/store"
	"github.com/flanneld/flannel/drivers/sim/world"
	"github.com/flanneld/flannel/scenarios/check/invariants"
	"github.com/flanneld/flannel/scenarios/lang"
)

// World is a topology in the simulator.
type World struct {
	World   *world.World
	network *kernel.Network

	top      lang.Topology
	began    time.Time
	segments []*kernel.Segment
	router   *kernel.Host
	outside  *kernel.Host   // nil if the topology has none
	outward  []dataplane.Op // the changes that Outward made
	storage  *store.Store
	nodes    map[string]*simNode

	podCIDR map[string]int // numbers of subnets that nodes were moved to
	moves   int

	invariants *invariants.Invariants
	defects    []Wrap
}

var _ lang.World = (*World)(nil)

// Wrap wraps the parts of a node's process.
type Wrap func(node string, p daemon.Parts) daemon.Parts

// New builds a topology in the simulator. The seed determines every random
// choice. The daemons are the real ones, with the defects that a test plants.
func New(top lang.Topology, seed uint64, defects ...Wrap) (*World, error) {
	events := world.New(seed)
	w := &World{World: events, network: kernel.NewNetwork(events), top: top, nodes: map[string]*simNode{},
		defects: defects}
	w.began = w.World.Now()
	w.router = w.network.NewHost("router")
	w.router.Forward()
	for i := range top.Segments {
		g := w.network.NewSegment(fmt.Sprintf("segment%d", i))
		w.segments = append(w.segments, g)
		if err := w.plug(w.router, fmt.Sprintf("eth%d", i), i, lang.RouterHost); err != nil {
			return nil, err
		}
	}
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

// Name implements [World].
func (w *World) Name() string { return "sim" }

// Close implements [World].
func (w *World) Close() error { return w.World.Err() }

// Logs implements [World].
func (w *World) Logs() string {
	var all strings.Builder
	fmt.Fprintf(&all, "seed %d, trace %016x, after %s\n", w.World.Seed(), w.World.TraceHash(), w.Elapsed())
	for _, name := range w.top.NodeNames() {
		log := w.nodes[name].daemon.Log()
		fmt.Fprintf(&all, "%s:\n%s\n", name, strings.Join(log[max(0, len(log)-lang.LogTail):], "\n"))
	}
	return all.String()
}

// Events counts the daemons' log events, by kind.
func (w *World) Events() map[string]int {
	counts := map[string]int{}
	for _, n := range w.nodes {
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

// Elapsed returns the time since the world began.
func (w *World) Elapsed() time.Duration { return w.World.Now().Sub(w.began) }

// Until implements [World]: it runs events. It checks the condition every 10 ms
// of virtual time, and less often the longer it takes: a check after every event
// would cost more than the events themselves.
func (w *World) Until(within time.Duration, cond func() error) error {
	for began := w.World.Now(); ; {
		err, passed := cond(), w.World.Now().Sub(began)
		if err == nil || passed >= within || w.World.Err() != nil {
			return errors.Join(err, w.World.Err())
		}
		w.World.Run(min(within-passed, max(10*time.Millisecond, passed/50)))
	}
}

// Node implements [World].
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

func (w *World) pods(from, to string, f cidr.Family) (a, b *kernel.Pod, err error) {
	a, err = w.pod(from)
	if err != nil {
		return nil, nil, err
	}
	b, err = w.pod(to)
	if err != nil {
		return nil, nil, err
	}
	if !a.Addr(f).IsValid() || !b.Addr(f).IsValid() {
		return nil, nil, fmt.Errorf("%s or %s has no %s address", from, to, f)
	}
	return a, b, nil
}

// Ping implements [World].
func (w *World) Ping(from, to string, o lang.PingOptions) (lang.PingResult, error) {
	a, b, err := w.places(from, to, o.Family)
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
		Expired: p.Drop == kernel.DropTTL, TooBig: p.Drop == kernel.DropTooBig}
	for _, h := range p.Path {
		r.Trace = append(r.Trace, h.String())
	}
	return r, w.World.Err()
}

// Transfer implements [Streamer]. The simulator has no TCP: it sends the bytes as
// echo requests that fill the path's MTU, every one of which must come back.
func (w *World) Transfer(from, to string, f cidr.Family, bytes int64) error {
	_, b, err := w.pods(from, to, f)
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

// Stream implements [Streamer].
func (w *World) Stream(from, to string, every time.Duration) (func() (int, int, error), error) {
	f := w.top.Families[0]
	a, b, err := w.places(from, to, f)
	if err != nil {
		return nil, err
	}
	var probes []*kernel.Probe
	var next *world.Event
	var send func()
	send = func() {
		probes = append(probes, a.ping(b.addrs[f], kernel.PingOptions{}))
		next = w.World.After(every, "stream "+from+" "+to, send)
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

// Store implements [World].
func (w *World) Store() lang.Store { return simStore{w.storage} }

// simStore adapts the simulated store to scenarios.
type simStore struct{ *store.Store }

func (s simStore) Stop() error                  { s.Store.Stop(); return nil }
func (s simStore) Start() error                 { s.Store.Start(); return nil }
func (s simStore) Compact() error               { s.Store.Compact(); return nil }
func (s simStore) Put(name, value string) error { return s.Store.Put(name, value, 0) }
func (s simStore) Expire(name string) error     { return s.Revoke(name) }

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

// simNode is a simulated host with its daemon.
type simNode struct {
	*kernel.Host
	world   *World
	index   int
	daemon  *daemon.Daemon
	pod     *kernel.Pod
	subnet  string // the subnet file that the pod was made from
	mtu     int
	cut     bool
	second  *daemon.Daemon   // the daemon started by mistake
	addrs   [2]netip.Addr    // later addresses of the uplink, by family
	watched *invariants.Node // the node as the invariants watch it
}

func (w *World) newNode(i int, name string) (*simNode, error) {
	n := &simNode{Host: w.network.NewHost(name), world: w, index: i}
	n.Forward()
	if slices.Contains(w.top.NoIPv6, name) {
		n.WithoutIPv6()
	}
	if err := w.plug(n.Host, "eth0", w.top.Segment(i), i+1); err != nil {
		return nil, err
	}
	n.watched = w.invariants.AddNode(n.Host)
	n.daemon = daemon.New(n.Host, w.storage, daemon.Options{
		Node:      NodeOptions(w.top),
		Reachable: n.reachesStore,
		OneByOne:  true,
		Wrap:      n.watched.Wrap(n.plant),
	})
	n.watched.Daemon = n.daemon
	return n, n.defaultRoutes()
}

// NodeOptions returns the options of every node of a topology: the same as from
// the flags that a lab gives its daemons.
func NodeOptions(top lang.Topology) node.Options {
	return node.Options{
		LeaseTTL:   top.TTL,
		ExitOnLoss: top.ExitOnLoss,
		Firewall:   firewall.Options{Masquerade: top.Firewalled(), Forward: top.Firewalled()},
		Blackhole:  top.Blackhole,
	}
}

// plant wraps a process in the world's defects.
func (n *simNode) plant(p daemon.Parts) daemon.Parts {
	for _, defect := range n.world.defects {
		p = defect(n.Name(), p)
	}
	return p
}

// GoByOneName implements [Twin].
func (n *simNode) GoByOneName() { n.watched.Twinned = true }

// ShowsProcess implements [ProcessState].
func (n *simNode) ShowsProcess() {}

func (n *simNode) defaultRoutes() error {
	for _, f := range cidr.Families {
		if f == cidr.V4 || n.world.top.HasIPv6() {
			err := n.DefaultRoute(lang.UnderlayAddr(f, n.world.top.Segment(n.index), lang.RouterHost).Addr())
			if err != nil && !errors.Is(err, driver.ErrExists) {
				return err
			}
		}
	}
	return nil
}

// reachesStore reports whether the node reaches the datastore, which is beyond its uplink.
func (n *simNode) reachesStore() bool {
	wire := n.Wire("eth0")
	return !n.cut && wire != nil && !wire.Down && n.HasCarrier("eth0") && n.uplinkUp()
}

func (n *simNode) uplinkUp() bool {
	for _, l := range n.Facts().Links {
		if l.Name == "eth0" {
			return l.Up
		}
	}
	return false
}

func (n *simNode) Start([]string) error { n.daemon.Start(); return nil }

func (n *simNode) Stop() error {
	n.daemon.Stop()
	if !n.World().RunUntil(func() bool { return !n.daemon.Running() }, 10*time.Second) {
		return errors.New("the daemon does not end")
	}
	return nil
}

func (n *simNode) Kill() error { n.daemon.Kill(); return nil }

// Running reports whether the daemon runs. A halted daemon that was asked to end
// does so as soon as it goes on.
func (n *simNode) Running() bool { return n.daemon.Running() && !n.daemon.Stopping() }

// forever is longer than any scenario.
const forever = 1000 * time.Hour

func (n *simNode) Pause() error  { n.daemon.Pause(forever); return nil }
func (n *simNode) Resume() error { n.daemon.Resume(); return nil }

func (n *simNode) Exited() (int, bool) {
	if e := n.daemon.Exit(); e != nil {
		return e.Status, true
	}
	return 0, false
}

func (n *simNode) Log() string { return strings.Join(n.daemon.Log(), "\n") }

func (n *simNode) SubnetFile() string {
	data, _ := n.daemon.File(node.SubnetFile)
	return string(data)
}

func (n *simNode) Status() (node.Status, error) {
	if !n.daemon.Running() {
		return node.Status{}, lang.ErrNoDaemon
	}
	return n.daemon.Status(), nil
}

func (n *simNode) SyncPods() error {
	text := n.SubnetFile()
	if text == n.subnet && n.pod != nil {
		return nil
	}
	key := subnetfile.Previous([]byte(text))
	_, after, _ := strings.Cut(text, "FLANNEL_MTU=")
	if _, err := fmt.Sscanf(after, "%d", &n.mtu); err != nil {
		return fmt.Errorf("subnet file %q: MTU: %w", text, err)
	}
	if n.pod != nil {
		if err := n.removePod(); err != nil {
			return err
		}
	}
	var subnets []netip.Prefix
	for _, f := range cidr.Families {
		if p := key.Of(f); p.IsValid() {
			subnets = append(subnets, p)
		}
	}
	var err error
	n.subnet = text
	n.pod, err = n.NewPod(n.Name()+".pod", n.mtu, subnets...)
	return err
}

// removePod ends the pod and takes its gateway's addresses off the bridge.
func (n *simNode) removePod() error {
	n.pod.Remove()
	key := subnetfile.Previous([]byte(n.subnet))
	for _, f := range cidr.Families {
		if p := key.Of(f); p.IsValid() {
			if err := n.AddrDel("cni0", netip.PrefixFrom(p.Addr().Next(), p.Bits())); err != nil {
				return err
			}
		}
	}
	return nil
}

func (n *simNode) UplinkDown() error { return n.LinkDown("eth0") }

func (n *simNode) UplinkUp() error {
	if err := n.LinkUp("eth0"); err != nil {
		return err
	}
	if n.world.top.HasIPv6() {
		err := n.AddrAdd("eth0", n.uplinkAddr(cidr.V6))
		if err != nil && !errors.Is(err, driver.ErrExists) {
			return err
		}
	}
	return n.defaultRoutes()
}

func (n *simNode) UplinkAddress(ip netip.Addr) error {
	f := cidr.FamilyOf(ip)
	old := n.uplinkAddr(f)
	if err := n.AddrDel("eth0", old); err != nil && !errors.Is(err, driver.ErrNotFound) {
		return err // an IPv6 address goes by itself when the link goes down
	}
	n.addrs[f] = ip
	if err := n.AddrAdd("eth0", netip.PrefixFrom(ip, old.Bits())); err != nil || !n.uplinkUp() {
		return err // no route leads over a link that is down
	}
	return n.defaultRoutes()
}

// uplinkAddr returns the uplink's present or last address of a family.
func (n *simNode) uplinkAddr(f cidr.Family) netip.Prefix {
	own := lang.UnderlayAddr(f, n.world.top.Segment(n.index), n.index+1)
	if moved := n.addrs[f]; moved.IsValid() {
		return netip.PrefixFrom(moved, own.Bits())
	}
	return own
}

func (n *simNode) UplinkMTU(mtu int) error { return n.SetMTU("eth0", mtu) }

func (n *simNode) Isolate(on bool) error {
	n.Wire("eth0").Down = on
	return nil
}

func (n *simNode) Cut(on bool) error {
	n.cut = on
	return nil
}

func (n *simNode) State(extent dataplane.Extent) (*dataplane.State, error) {
	seen, err := n.daemon.Driver().Look(context.Background(), extent)
	return seen.State, err
}
