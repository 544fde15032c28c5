package bench

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/vishvananda/netns"

	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/lease"
	"github.com/flanneld/flannel/core/node"
	"github.com/flanneld/flannel/drivers/linux"
	"github.com/flanneld/flannel/harness"
)

// amongMany runs a benchmark with 5,000 and with 20,000 peers.
func amongMany(b *testing.B, benchmark func(b *testing.B, peers int)) {
	for _, peers := range []int{5000, 20_000} {
		b.Run(fmt.Sprintf("peers=%d", peers), func(b *testing.B) { benchmark(b, peers) })
	}
}

// BenchmarkNoChangePass measures a look at a healthy host: the driver's reading
// of the kernel, and the node's work on the result.
func BenchmarkNoChangePass(b *testing.B) { amongMany(b, benchmarkNoChangePass) }

func benchmarkNoChangePass(b *testing.B, peers int) {
	ctx, lab := newLab(b, 1, 0)
	d, err := linux.Open(ctx, netns.NsHandle(lab.Nodes[0].NamespaceFD()), nil)
	if err != nil {
		b.Fatal(err)
	}
	defer func() {
		if err := d.Close(); err != nil {
			b.Error(err)
		}
	}()
	n := settled(ctx, b, d, peers)
	b.ReportAllocs()
	began := cpuTime(b, os.Getpid())
	for b.Loop() {
		n.pass(ctx, b)
	}
	b.ReportMetric(milliseconds(cpuTime(b, os.Getpid())-began)/float64(b.N), "cpu-ms/op")
}

// inline is a node whose effects are performed at once, by one goroutine, with
// a clock of its own.
type inline struct {
	*node.Node
	driver *linux.Driver
	now    time.Time
	subnet []byte // the subnet file
	snap   *lease.Snapshot
}

// settled returns a node that has programmed that many peers.
func settled(ctx context.Context, b *testing.B, d *linux.Driver, peers int) *inline {
	b.Helper()
	opts := node.Options{Rand: rand.New(rand.NewPCG(1, 2)), NextHopsFrom: node.DefaultNextHopsFrom}
	n := &inline{Node: node.New(opts), driver: d, now: time.Now()}
	snap := &lease.Snapshot{Revision: int64(peers), Config: lease.Document{Data: []byte(network), Revision: 1}}
	for i := range peers {
		snap.Leases = append(snap.Leases, new(peer(i)))
	}
	n.Step(n.now, node.Input{View: &lease.View{Snapshot: snap, Synced: true}})
	for !n.Status().Ready {
		effects := n.Ready()
		n.Step(n.now, n.perform(ctx, effects, snap))
		if effects.Exit != nil {
			b.Fatal(effects.Exit.Reason)
		}
		host := effects.Lanes[node.HostLane]
		idle := host.Look == nil && host.Plan == nil && effects.Request == nil && effects.Writes == nil
		if idle && effects.Wake.After(n.now) {
			n.now = effects.Wake
		}
	}
	n.Step(n.now, n.perform(ctx, n.Ready(), snap))
	return n
}

// perform performs the node's effects and returns the results. It grants every
// request to the store and keeps the subnet file; other files are lost.
func (n *inline) perform(ctx context.Context, effects node.Effects, snap *lease.Snapshot) (in node.Input) {
	host, result := effects.Lanes[node.HostLane], &in.Lanes[node.HostLane]
	if host.Look != nil {
		seen, err := n.driver.Look(ctx, host.Look.Extent)
		result.Looked = &node.Looked{Seen: seen, SubnetFile: n.subnet, Err: err}
	}
	if host.Plan != nil {
		result.Applied = &node.Applied{Errs: n.driver.Apply(ctx, host.Plan)}
	}
	if r := effects.Request; r != nil {
		own := lease.Lease{Key: r.Key, Attrs: r.Attrs, CreateRevision: snap.Revision, ModRevision: snap.Revision}
		in.Requested = &node.Requested{Grant: lease.Grant{Lease: own, TTL: r.TTL, Expires: n.now.Add(r.TTL)}}
		next := *snap
		next.Leases = append(next.Leases[:len(next.Leases):len(next.Leases)], &own)
		n.snap = &next
		in.View = &lease.View{Snapshot: &next, Synced: true}
	}
	for _, w := range effects.Writes {
		if w.File == node.SubnetFile {
			n.subnet = w.Data
		}
	}
	if effects.Writes != nil {
		in.Wrote = &node.Wrote{Errs: make([]error, len(effects.Writes))}
	}
	return in
}

// pass is one look that is due by the clock and finds nothing to change.
func (n *inline) pass(ctx context.Context, b *testing.B) {
	n.now = n.now.Add(time.Minute)
	n.Step(n.now, node.Input{})
	effects := n.Ready()
	if effects.Lanes[node.HostLane].Look == nil {
		b.Fatal("no look after a minute")
	}
	n.Step(n.now, n.perform(ctx, node.Effects{Lanes: effects.Lanes}, nil))
	plan := n.Ready().Lanes[node.HostLane].Plan
	if plan != nil || !n.Status().Ready {
		b.Fatalf("%d changes without a cause; %q", len(plan), n.Status().Reasons)
	}
}

// BenchmarkHintedPass measures the same in a running daemon, which looks
// because the kernel announced a change that turns out not to concern it. The
// time includes the daemon's garbage collections.
func BenchmarkHintedPass(b *testing.B) { amongMany(b, benchmarkHintedPass) }

func benchmarkHintedPass(b *testing.B, peers int) {
	ctx, lab := newLab(b, 1, peers)
	n := lab.Nodes[0]
	start(ctx, b, n, peers, noProbes)
	used := rest(ctx, b, n.PID(), 0)
	began := used
	for b.Loop() {
		if err := provoke(n); err != nil {
			b.Fatal(err)
		}
		used = rest(ctx, b, n.PID(), used)
	}
	b.ReportMetric(milliseconds(used-began)/float64(b.N), "cpu-ms/op")
	b.ReportMetric(megabytes(peakMemory(b, n.PID())), "peak-MB")
	// Most of the wall time is the daemon's pause between two looks and the
	// time of rest.
	b.ReportMetric(0, "ns/op")
}

// provoke gives the node's loopback device another MTU and takes it back at once.
func provoke(n *harness.Node) error {
	return errors.Join(n.SetMTU("lo", 60000), n.SetMTU("lo", 65536))
}

// BenchmarkOneChange measures what follows from the change of one peer: the looks, the plan
// and the node's work, without the store.
func BenchmarkOneChange(b *testing.B) { amongMany(b, benchmarkOneChange) }

func benchmarkOneChange(b *testing.B, peers int) {
	ctx, lab := newLab(b, 1, 0)
	d, err := linux.Open(ctx, netns.NsHandle(lab.Nodes[0].NamespaceFD()), nil)
	if err != nil {
		b.Fatal(err)
	}
	defer func() {
		if err := d.Close(); err != nil {
			b.Error(err)
		}
	}()
	n := settled(ctx, b, d, peers)
	b.ReportAllocs()
	began := cpuTime(b, os.Getpid())
	for i := 0; b.Loop(); i++ {
		n.change(ctx, b, peers/2, byte(i))
	}
	b.ReportMetric(milliseconds(cpuTime(b, os.Getpid())-began)/float64(b.N), "cpu-ms/op")
}

// change gives a peer another MAC and follows until the host is as desired again.
func (n *inline) change(ctx context.Context, b *testing.B, at int, to byte) {
	next := *n.snap
	next.Revision++
	next.Leases = slices.Clone(next.Leases)
	p := *next.Leases[at]
	p.Attrs.BackendData = vxlanData(dataplane.MAC{0xc6, 1, to, 0, 0, 1})
	next.Leases[at], n.snap = &p, &next
	n.Step(n.now, node.Input{View: &lease.View{Snapshot: n.snap, Synced: true}})
	n.now = n.now.Add(100 * time.Millisecond)
	n.Step(n.now, node.Input{})
	looks, plans := 0, 0
	for {
		effects := n.Ready()
		host := effects.Lanes[node.HostLane]
		if host.Look == nil && host.Plan == nil {
			break
		}
		if host.Look != nil {
			looks++
		} else {
			plans++
		}
		n.Step(n.now, n.perform(ctx, node.Effects{Lanes: effects.Lanes}, n.snap))
	}
	if looks != 2 || plans != 1 {
		b.Fatalf("%d looks and %d plans, want a look, a plan and a look", looks, plans)
	}
}
