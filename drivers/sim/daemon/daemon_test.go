package daemon

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/driver"
	"github.com/flanneld/flannel/core/lease"
	"github.com/flanneld/flannel/core/subnetfile"
	"github.com/flanneld/flannel/drivers/sim/kernel"
	"github.com/flanneld/flannel/drivers/sim/store"
	"github.com/flanneld/flannel/drivers/sim/world"
)

// cluster is a group of hosts on one segment that run flanneld on one store, each
// with a pod in the subnet that its daemon announces.
type cluster struct {
	*world.World
	hosts   []*kernel.Host
	store   *store.Store
	daemons []*Daemon
}

// settleTime is how long a cluster may take to converge: longer than any
// backoff, resync or ping.
const settleTime = 2 * time.Minute

func newCluster(t testing.TB, seed uint64, n int, mod func(*Options)) *cluster {
	t.Helper()
	c := &cluster{World: world.New(seed)}
	network := kernel.NewNetwork(c.World)
	segment := network.NewSegment("lan")
	for i := 1; i <= n; i++ {
		h := network.NewHost(fmt.Sprintf("n%d", i))
		_, err := h.AddUplink("eth0", segment, prefix("192.168.64.%d/24", i), prefix("fd00:64::%d/64", i))
		must(t, err)
		h.Forward()
		c.hosts = append(c.hosts, h)
	}
	c.store = store.New(c.World, store.Options{})
	must(t, c.store.Put("config", testConfig, 0))
	for _, h := range c.hosts {
		opts := Options{OnSubnetFile: func(text []byte) { givePod(t, h, subnetfile.Previous(text)) }}
		opts.Node.LeaseTTL = time.Minute
		opts.Node.Uplink.Ifaces = []string{"eth0"}
		if mod != nil {
			mod(&opts)
		}
		c.daemons = append(c.daemons, New(h, c.store, opts))
	}
	return c
}

// givePod replaces the host's pod with one in the subnet, as a restarted CNI
// does.
func givePod(t testing.TB, h *kernel.Host, key lease.Key) {
	t.Helper()
	for _, p := range h.Pods() {
		if key.V4.Contains(p.Addr(cidr.V4)) {
			return
		}
		p.Remove()
	}
	err := h.LinkDelete("cni0")
	if err != nil && !errors.Is(err, driver.ErrNotFound) {
		t.Fatal(err)
	}
	_, err = h.NewPod("pod", 1450, key.V4)
	must(t, err)
}

func (c *cluster) start() {
	for _, d := range c.daemons {
		d.Start()
	}
}

// settle lets time pass until all daemons are ready and know all leases.
func (c *cluster) settle(t testing.TB) {
	t.Helper()
	settled := func() bool {
		for _, d := range c.daemons {
			s := d.Status()
			if !s.Ready || s.Peers != len(c.daemons)-1 || s.Revision != c.store.Snapshot().Revision {
				return false
			}
		}
		return true
	}
	for range 10 {
		if !c.RunUntil(settled, settleTime) {
			break
		}
		// A node stays ready until it has looked at the host again, so the
		// cluster can seem settled for a moment.
		c.Run(2 * time.Second)
		if settled() {
			return
		}
	}
	c.dump(t)
	t.Fatalf("seed %d: not settled; world: %v", c.Seed(), c.Err())
}

func (c *cluster) dump(t testing.TB) {
	t.Helper()
	for _, d := range c.daemons {
		t.Logf("%s: %+v\n%s", d.host.Name(), d.Status(), strings.Join(d.Log(), "\n"))
	}
	t.Log(c.store.Dump())
}
