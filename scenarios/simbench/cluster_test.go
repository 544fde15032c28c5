package simbench

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/drivers/sim/daemon"
	"github.com/flanneld/flannel/drivers/sim/kernel"
	"github.com/flanneld/flannel/drivers/sim/store"
	"github.com/flanneld/flannel/drivers/sim/world"
)

const (
	config  = `{"Network":"10.0.0.0/8","Backend":{"Type":"vxlan"}}`
	device  = "flannel.1"
	patient = 5 * time.Minute // of virtual time, for a cluster to settle
)

// extent is the part of a host that holds the overlay.
var extent = dataplane.Extent{Links: []string{device}, Networks: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}}

// gateway is the default gateway of all hosts. No host has its address.
var gateway = netip.MustParseAddr("172.31.255.254")

// cluster is a world of hosts on one segment, each with its flanneld.
type cluster struct {
	*world.World
	network *kernel.Network
	b       *testing.B
	segment *kernel.Segment
	store   *store.Store
	daemons []*daemon.Daemon // the running ones
	made    int              // hosts ever created
	events  int
	rng     *rand.Rand
}

// newCluster creates a world with that many hosts, and does not start their daemons.
func newCluster(b *testing.B, nodes int) *cluster {
	w := world.New(1)
	c := &cluster{World: w, network: kernel.NewNetwork(w), b: b}
	c.Always("count", func() error { c.events++; return nil })
	c.rng = c.Rand("cluster")
	c.segment = c.network.NewSegment("lan")
	c.store = store.New(c.World, store.Options{})
	c.must(c.store.Put("config", config, 0))
	for range nodes {
		c.join()
	}
	return c
}

func (c *cluster) must(err error) {
	c.b.Helper()
	if err != nil {
		c.b.Fatal(err)
	}
}

// join adds a host with a daemon, and does not start it.
func (c *cluster) join() *daemon.Daemon {
	c.made++
	h := c.network.NewHost(fmt.Sprintf("n%d", c.made))
	address := netip.AddrFrom4([4]byte{172, 16, byte(c.made >> 8), byte(c.made)})
	_, err := h.AddUplink("eth0", c.segment, netip.PrefixFrom(address, 12))
	c.must(err)
	c.must(h.DefaultRoute(gateway))
	h.Forward()
	d := daemon.New(h, c.store, daemon.Options{})
	c.daemons = append(c.daemons, d)
	return d
}

// leave ends a daemon and lets its lease run out, which others see as its deletion.
func (c *cluster) leave(d *daemon.Daemon) {
	key, ok := d.Node().Holding()
	if !ok {
		c.b.Fatalf("%s leaves without a lease", d.Host().Name())
	}
	d.Kill()
	c.must(c.store.Revoke("subnets/" + key.String()))
	for i, o := range c.daemons {
		if o == d {
			c.daemons = append(c.daemons[:i], c.daemons[i+1:]...)
		}
	}
}

// settle lets time pass until every running node is ready with all peers.
func (c *cluster) settle() {
	c.b.Helper()
	for began := c.Now(); ; c.Run(time.Second) {
		why := c.unsettled()
		if why == "" {
			return
		}
		c.must(c.Err())
		if c.Now().Sub(began) > patient {
			c.b.Fatalf("not settled after %s: %s", patient, why)
		}
	}
}

// unsettled names a node that has not settled, and the reason.
func (c *cluster) unsettled() string {
	for _, d := range c.daemons {
		s := d.Status()
		if !s.Ready || s.Peers != len(c.daemons)-1 || s.Programmed != c.store.Snapshot().Revision {
			return fmt.Sprintf("%s has %d of %d peers at revision %d of %d; %s", d.Host().Name(), s.Peers,
				len(c.daemons)-1, s.Programmed, c.store.Snapshot().Revision, strings.Join(s.Reasons, ", "))
		}
	}
	return ""
}

// verify checks some nodes by their kernels and by packets, without their daemons.
func (c *cluster) verify() {
	c.b.Helper()
	var pods []*kernel.Pod
	for _, i := range c.rng.Perm(len(c.daemons))[:5] {
		d := c.daemons[i]
		seen, err := d.Host().Driver().Look(context.Background(), extent)
		c.must(err)
		state := seen.State
		state = state.Clone()
		state.Routes.DeleteFunc(
			func(_ dataplane.RouteKey, r dataplane.Route) bool { return r.Protocol != dataplane.Protocol })
		n := len(c.daemons) - 1
		if state.Routes.Len() != n || state.Neighs.Len() != n || state.FDB.Len() != n {
			c.b.Fatalf("%s: %d routes, %d neighbours and %d FDB entries of %d peers", d.Host().Name(),
				state.Routes.Len(), state.Neighs.Len(), state.FDB.Len(), n)
		}
		key, _ := d.Node().Holding()
		pod, err := d.Host().NewPod(fmt.Sprintf("%s.pod%d", d.Host().Name(), len(pods)), 1450, key.V4)
		c.must(err)
		pods = append(pods, pod)
	}
	for i, from := range pods {
		to := pods[(i+1)%len(pods)]
		p := from.Ping(to.Addr(cidr.V4), kernel.PingOptions{})
		c.RunUntil(p.Done, time.Minute)
		if !p.Delivered {
			c.b.Fatalf("%s", p)
		}
	}
}

// faults are faults of a host that flannel repairs by itself.
var faults = []func(h *kernel.Host) error{
	func(h *kernel.Host) error { return h.LinkDelete(device) },
	func(h *kernel.Host) error {
		if err := h.LinkDown(device); err != nil {
			return err
		}
		return h.LinkUp(device)
	},
	func(h *kernel.Host) error { return h.FlushRoutes(device) },
	func(h *kernel.Host) error { return h.FlushNeigh(device) },
	func(h *kernel.Host) error { return h.FlushFDB(device) },
}
