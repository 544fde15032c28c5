package bench

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/flanneld/flannel/core/agent"
	"github.com/flanneld/flannel/core/driver"
	"github.com/flanneld/flannel/core/lease"
	"github.com/flanneld/flannel/core/node"
	"github.com/flanneld/flannel/drivers/etcd"
	"github.com/flanneld/flannel/drivers/etcd/embedded"
	"github.com/flanneld/flannel/drivers/sim/kernel"
	"github.com/flanneld/flannel/drivers/sim/world"
	"github.com/flanneld/flannel/harness"
)

// crowded has only a few more subnets than nodes.
const crowded = `{"Network":"10.0.0.0/17","Backend":{"Type":"vxlan"}}`

// BenchmarkAcquire measures how long it takes 100 nodes that start at once to
// hold 100 of the 127 subnets of a network. They are agents on simulated hosts
// in this process; the etcd they share is real and syncs to disk.
func BenchmarkAcquire(b *testing.B) {
	const nodes = 100
	ctx, cancel := context.WithTimeout(b.Context(), limit)
	defer cancel()
	server, err := embedded.Start(ctx, embedded.Options{Dir: b.TempDir()})
	if err != nil {
		b.Fatal(err)
	}
	defer func() {
		if err := server.Close(); err != nil {
			b.Error(err)
		}
	}()
	var conflicts int64
	for i := 0; b.Loop(); i++ {
		b.StopTimer()
		c := newCrowd(ctx, b, server, fmt.Sprintf("/round%d", i), nodes)
		b.StartTimer()
		c.start()
		c.holding.Wait()
		b.StopTimer()
		conflicts += c.conflicts.Load()
		c.stop()
		c.check(ctx, b, server)
		b.StartTimer()
	}
	b.ReportMetric(float64(conflicts)/float64(b.N), "conflicts/op")
}

// crowd is a set of nodes about to start with the same etcd.
type crowd struct {
	prefix  string
	agents  []agent.Options
	stores  []*etcd.Store
	holding sync.WaitGroup // until each holds a subnet
	running sync.WaitGroup

	ctx       context.Context
	stop      func()
	conflicts atomic.Int64
}

func newCrowd(ctx context.Context, b *testing.B, server *embedded.Server, prefix string, nodes int) *crowd {
	b.Helper()
	c := &crowd{prefix: prefix}
	var cancel context.CancelFunc
	c.ctx, cancel = context.WithCancel(ctx)
	c.stop = func() {
		cancel()
		c.running.Wait()
		for _, s := range c.stores {
			s.Close()
		}
	}
	b.Cleanup(cancel)
	if _, err := embedded.SeedConfig(ctx, server.Client(), prefix, []byte(crowded)); err != nil {
		b.Fatal(err)
	}
	for i := range nodes {
		// Each host is in a world of its own: they share only etcd.
		host := kernel.NewNetwork(world.New(uint64(i))).NewHost("n")
		addr := netip.PrefixFrom(netip.AddrFrom4([4]byte{172, 16, 0, byte(i + 1)}), 24)
		if _, err := host.AddUplink("eth0", host.Network().NewSegment("lan"), addr); err != nil {
			b.Fatal(err)
		}
		if err := host.DefaultRoute(netip.MustParseAddr("172.16.0.254")); err != nil {
			b.Fatal(err)
		}
		store, err := etcd.Open(c.ctx, etcd.Options{Endpoints: server.Endpoints(), Prefix: prefix})
		if err != nil {
			b.Fatal(err)
		}
		c.stores = append(c.stores, store)
		c.holding.Add(1)
		c.agents = append(c.agents, agent.Options{
			Node:  node.Options{Rand: rand.New(rand.NewPCG(uint64(i), 0))},
			Lanes: [node.LaneCount]driver.Lane{node.HostLane: host.Driver()},
			Store: store, SubnetFile: fmt.Sprintf("%s/%d.env", b.TempDir(), i),
			Log: c.listen,
		})
	}
	return c
}

// listen counts the messages of the nodes.
func (c *crowd) listen(e node.Event) {
	switch e.Kind {
	case "lease-acquired":
		c.holding.Done()
	case "lease-conflict":
		c.conflicts.Add(1)
	}
}

func (c *crowd) start() {
	for _, o := range c.agents {
		c.running.Go(func() { agent.Run(c.ctx, o) })
	}
}

// check checks that all hold different subnets.
func (c *crowd) check(ctx context.Context, b *testing.B, server *embedded.Server) {
	b.Helper()
	store, err := etcd.Open(ctx, etcd.Options{Endpoints: server.Endpoints(), Prefix: c.prefix})
	if err != nil {
		b.Fatal(err)
	}
	defer store.Close()
	for store.View().Snapshot == nil {
		select {
		case <-store.Changed():
		case <-ctx.Done():
			b.Fatal(ctx.Err())
		}
	}
	leases := store.View().Snapshot.Leases
	owners := map[netip.Addr]lease.Key{}
	for i, l := range leases {
		owners[l.Attrs.PublicIP] = l.Key
		for _, other := range leases[:i] {
			if l.Key.Overlaps(other.Key) {
				b.Fatalf("%s and %s overlap", l.Key, other.Key)
			}
		}
	}
	if len(owners) != len(c.agents) || len(leases) != len(c.agents) {
		b.Fatalf("%d records of %d nodes, want %d", len(leases), len(owners), len(c.agents))
	}
}

// BenchmarkCrowd measures how long it takes 40 daemons, started at once, until
// each is ready and has a route to every other.
func BenchmarkCrowd(b *testing.B) {
	const nodes = 40
	ctx, lab := newLab(b, nodes, 0)
	var ready time.Duration
	var alive int
	for b.Loop() {
		began := time.Now()
		for _, n := range lab.Nodes {
			if err := n.Start(); err != nil {
				b.Fatal(err)
			}
		}
		for _, n := range lab.Nodes {
			until(ctx, b, n.Name+" to be ready", func() bool { ok, _ := n.Ready(ctx); return ok || !n.Running() })
		}
		ready += time.Since(began)
		for _, n := range lab.Nodes {
			until(ctx, b, n.Name+" to have all routes", func() bool { return knows(ctx, b, n, nodes-1) || !n.Running() })
		}
		b.StopTimer()
		alive += living(b, lab)
		for _, n := range lab.Nodes {
			forget(ctx, b, lab, n)
		}
		b.StartTimer()
	}
	b.ReportMetric(milliseconds(ready)/float64(b.N), "ready-ms/op")
	b.ReportMetric(float64(alive)/float64(b.N), "alive-daemons")
}

// knows reports whether a node's kernel has routes to that many peers.
func knows(ctx context.Context, b *testing.B, n *harness.Node, peers int) bool {
	b.Helper()
	state, err := n.State(ctx, extent)
	if err != nil {
		b.Fatal(err)
	}
	return state.Routes.Len() >= peers
}

// living counts the running daemons, and shows how the others ended.
func living(b *testing.B, lab *harness.Lab) (alive int) {
	b.Helper()
	for _, n := range lab.Nodes {
		if n.Running() {
			alive++
		} else {
			b.Logf("%s has ended (%v):\n%s", n.Name, n.ExitStatus(), n.LogTail(20))
		}
	}
	return alive
}
