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
	"github.com/flanneld/flannel/core/node"
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

// pingAll sends from every pod to every other one.
func (c *cluster) pingAll(t testing.TB) {
	t.Helper()
	for _, from := range c.hosts {
		for _, to := range c.hosts {
			if from == to {
				continue
			}
			p := c.await(t, from.Pods()[0].Ping(to.Pods()[0].Addr(cidr.V4), kernel.PingOptions{}))
			if !p.Delivered {
				t.Errorf("seed %d, %s to %s: %s", c.Seed(), from.Name(), to.Name(), p)
			}
		}
	}
}

// check waits until the cluster settles, pings, and checks the invariants.
func (c *cluster) check(t testing.TB) {
	t.Helper()
	c.settle(t)
	leases := c.store.Snapshot().Leases
	if len(leases) != len(c.daemons) {
		t.Errorf("seed %d: %d leases for %d nodes:\n%s", c.Seed(), len(leases), len(c.daemons), c.store.Dump())
	}
	for i, a := range leases {
		for _, b := range leases[:i] {
			if a.Key.Overlaps(b.Key) {
				t.Errorf("seed %d: leases %s and %s overlap", c.Seed(), a.Key, b.Key)
			}
		}
	}
	c.pingAll(t)
	if t.Failed() {
		c.dump(t)
	}
}

func hasLog(d *Daemon, kind string) bool {
	return strings.Contains(strings.Join(d.Log(), "\n")+"\n", " "+d.host.Name()+" "+kind)
}

func TestDaemonsServePods(t *testing.T) {
	c := newCluster(t, 1, 3, nil)
	c.start()
	c.check(t)
}

func TestDaemonsAreDeterministic(t *testing.T) {
	run := func(seed uint64) (uint64, string) {
		c := newCluster(t, seed, 4, func(o *Options) { o.OneByOne = true })
		c.store.SetFaults(store.Faults{LoseAnswer: 0.1, Slow: 0.2, SlowBy: 2 * time.Second, WatchLose: 0.1, WatchBreak: 0.1})
		c.start()
		c.daemons[1].KillAtBoundary(12)
		c.Run(20 * time.Second)
		c.daemons[1].Start()
		c.daemons[2].Restart()
		c.Run(20 * time.Second)
		return c.TraceHash(), c.store.Dump() + strings.Join(c.daemons[0].Log(), "\n")
	}
	h1, d1 := run(1)
	h2, d2 := run(1)
	if h1 != h2 || d1 != d2 {
		t.Errorf("one seed, two runs:\n%s\n%s", d1, d2)
	}
	if h3, _ := run(2); h3 == h1 {
		t.Error("another seed, the same run")
	}
}

// TestDaemonKilledAtEveryBoundary kills a node between any two effects of its
// first start, and of its adoption of a host that another run had programmed.
func TestDaemonKilledAtEveryBoundary(t *testing.T) {
	oneByOne := func(o *Options) { o.OneByOne = true }
	whole := newCluster(t, 1, 2, oneByOne)
	whole.daemons[1].Start()
	whole.settleOne(t, 1)
	whole.daemons[0].Start()
	whole.check(t)
	n := whole.daemons[0].Boundaries()
	if n < 10 {
		t.Fatalf("only %d boundaries in a start", n)
	}
	for k := 1; k <= n; k++ {
		c := newCluster(t, 1, 2, oneByOne)
		c.daemons[1].Start()
		c.settleOne(t, 1)
		c.daemons[0].KillAtBoundary(k)
		c.daemons[0].Start()
		if !c.RunUntil(func() bool { return !c.daemons[0].Running() }, settleTime) {
			t.Fatalf("boundary %d of %d never came", k, n)
		}
		c.Run(time.Second)
		c.daemons[0].Start()
		c.check(t)
	}
}

// settleOne waits for one daemon alone.
func (c *cluster) settleOne(t testing.TB, i int) {
	t.Helper()
	if !c.RunUntil(func() bool { return c.daemons[i].Status().Ready }, settleTime) {
		c.dump(t)
		t.Fatalf("%s is not ready", c.hosts[i].Name())
	}
}

func TestDaemonKeepsItsSubnet(t *testing.T) {
	ends := map[string]func(*cluster, *Daemon){
		"restart":        func(_ *cluster, d *Daemon) { d.Restart() },
		"stop and start": func(_ *cluster, d *Daemon) { d.Stop(); d.Start(); d.Start() },
		"kill":           func(_ *cluster, d *Daemon) { d.Kill(); d.Start() },
		"kill and wait":  func(c *cluster, d *Daemon) { d.Kill(); c.Run(10 * time.Minute); d.Start() },
		"files lost": func(_ *cluster, d *Daemon) {
			d.Kill()
			d.SetFile(node.SubnetFile, nil)
			d.SetFile(node.StateFile, nil)
			d.Start()
		},
		"files torn": func(_ *cluster, d *Daemon) {
			d.Kill()
			d.SetFile(node.SubnetFile, []byte("FLANNEL_NETWORK=10.5.0.0/16\nFLANNEL_SUB"))
			d.SetFile(node.StateFile, []byte(`{"Version":1,"Snap`))
			d.Start()
		},
		"pause":   func(_ *cluster, d *Daemon) { d.Pause(5 * time.Minute) },
		"suspend": func(_ *cluster, d *Daemon) { d.Suspend(5 * time.Minute) },
		"outage": func(c *cluster, d *Daemon) {
			c.store.Stop()
			d.Restart()
			c.Run(time.Minute)
			if s := d.Status(); !s.Stale {
				t.Errorf("restarted without a store, but not stale: %+v", s)
			}
			c.pingAll(t)
			c.store.Start()
		},
	}
	for name, end := range ends {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, 3, 3, nil)
			c.start()
			c.check(t)
			before := c.daemons[0].Status().Subnet
			end(c, c.daemons[0])
			c.Run(6 * time.Minute)
			c.check(t)
			if after := c.daemons[0].Status().Subnet; after != before {
				t.Errorf("subnet %s became %s", before, after)
				c.dump(t)
			}
		})
	}
}

func TestDaemonStop(t *testing.T) {
	c := newCluster(t, 4, 2, func(o *Options) { o.OneByOne = true })
	var exits []node.Exit
	d := c.daemons[0]
	d.opts.OnExit = func(e node.Exit) { exits = append(exits, e) }
	d.Start()
	if !c.RunUntil(func() bool { return d.process != nil && d.process.plans() }, time.Minute) {
		t.Fatal("no plan was ever made")
	}
	d.Stop()
	if !d.Running() {
		t.Fatal("ended in the middle of a plan")
	}
	d.process.input.Lanes[node.HostLane].Hint = true
	d.process.turn()
	if !d.process.input.Lanes[node.HostLane].Hint {
		t.Error("the node had another turn")
	}
	c.Run(time.Second)
	if d.Running() || len(exits) != 1 || exits[0].Status != 0 || d.Exit() == nil {
		t.Errorf("running %v, exits %v", d.Running(), exits)
	}
	if n := c.store.Streams(); n != 0 {
		t.Errorf("%d streams are left", n)
	}
	if seen := look(t, c.hosts[0]); seen.FDB.Len() != 0 || len(seen.Links) != 1 {
		t.Error("the plan was not finished")
	}
}

func TestDaemonExitsAndIsRespawned(t *testing.T) {
	c := newCluster(t, 5, 2, func(o *Options) { o.Node.ExitOnLoss = true; o.Respawn = 5 * time.Second })
	c.start()
	c.check(t)
	d := c.daemons[0]
	must(t, c.store.Delete("subnets/"+d.Status().Subnet.String()))
	if !c.RunUntil(func() bool { return !d.Running() }, time.Minute) {
		t.Fatal("lost its lease and went on")
	}
	if e := d.Exit(); e == nil || e.Status != 1 {
		t.Errorf("exit %+v, want status 1", e)
	}
	c.check(t)

	must(t, c.store.Delete("subnets/"+d.Status().Subnet.String()))
	if !c.RunUntil(func() bool { return !d.Running() }, time.Minute) {
		t.Fatal("lost its lease and went on")
	}
	d.Kill() // a kill by the operator: the supervisor does not respawn it
	c.Run(time.Minute)
	if d.Running() {
		t.Error("the supervisor respawned a daemon that the operator had killed")
	}
}

// TestDaemonDoesNothingWhenDead kills in the middle of a plan.
func TestDaemonDoesNothingWhenDead(t *testing.T) {
	c := newCluster(t, 4, 2, func(o *Options) { o.OneByOne = true })
	d := c.daemons[0]
	d.Start()
	if !c.RunUntil(func() bool { return d.process.plans() }, time.Minute) {
		t.Fatal("no plan was ever made")
	}
	d.Kill()
	boundaries, lines := d.Boundaries(), len(d.Log())
	c.Run(time.Minute)
	if d.Boundaries() != boundaries || len(d.Log()) != lines {
		t.Errorf("a dead process went on:\n%s", strings.Join(d.Log(), "\n"))
	}
}

// TestDaemonDoesNothingWhenHalted compares the two ways to be halted.
func TestDaemonDoesNothingWhenHalted(t *testing.T) {
	for _, clock := range []bool{false, true} {
		c := newCluster(t, 4, 2, nil)
		c.start()
		c.check(t)
		d := c.daemons[0]
		d.halt(5*time.Minute, clock)
		boundaries := d.Boundaries()
		must(t, c.hosts[0].LinkDelete("flannel.1"))
		c.Run(5*time.Minute - 1)
		if d.Boundaries() != boundaries || len(look(t, c.hosts[0]).Links) != 0 {
			t.Error("a halted process went on")
		}
		c.check(t)
		want := c.Now()
		if clock {
			want = want.Add(-5 * time.Minute)
		}
		if got := d.process.now(); !got.Equal(want) {
			t.Errorf("clock stands %t: it is %s, want %s", clock, got, want)
		}
	}
}

// TestDaemonPausedPastItsLease halts a node until its lease has expired. When
// it resumes, it must not take the subnet from the new owner.
func TestDaemonPausedPastItsLease(t *testing.T) {
	halts := map[string]func(*Daemon){
		"pause":   func(d *Daemon) { d.Pause(10 * time.Minute) },
		"suspend": func(d *Daemon) { d.Suspend(10 * time.Minute) },
	}
	for name, halt := range halts {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, 6, 2, nil)
			c.start()
			c.check(t)
			d := c.daemons[0]
			mine := d.Status().Subnet
			halt(d)
			c.Run(5 * time.Minute)
			const foreign = `{"PublicIP":"192.168.64.99","PublicIPv6":null,"BackendType":"vxlan",` +
				`"BackendData":{"VNI":1,"VtepMAC":"c6:00:00:00:00:99"}}`
			must(t, c.store.Put("subnets/"+mine.String(), foreign, time.Hour))
			c.Run(5 * time.Minute)
			moved := func() bool { s := d.Status(); return s.Ready && s.Subnet != mine }
			if !c.RunUntil(moved, settleTime) {
				c.dump(t)
				t.Fatal("did not give its subnet up")
			}
			if got, _ := c.store.Get("subnets/" + mine.String()); got != foreign {
				t.Errorf("the foreign record became %s", got)
			}
			if !hasLog(d, "lease-lost") {
				t.Error("the loss was not reported")
			}
		})
	}
}

// TestDaemonDataLoss empties the datastore: the nodes write their leases again,
// long before they would have to renew them.
func TestDaemonDataLoss(t *testing.T) {
	c := newCluster(t, 6, 3, func(o *Options) { o.Node.LeaseTTL = 24 * time.Hour })
	c.start()
	c.check(t)
	before := c.daemons[0].Status().Subnet
	c.store.LoseData()
	must(t, c.store.Put("config", testConfig, 0))
	c.check(t)
	if after := c.daemons[0].Status().Subnet; after != before {
		t.Errorf("subnet %s became %s", before, after)
	}
}

func TestDaemonClockIsWrong(t *testing.T) {
	for _, offset := range []time.Duration{-30 * 365 * 24 * time.Hour, -time.Hour, 24 * time.Hour} {
		t.Run(offset.String(), func(t *testing.T) {
			c := newCluster(t, 7, 2, nil)
			c.daemons[0].SetClock(offset)
			c.start()
			c.check(t)
			c.Run(10 * time.Minute)
			c.check(t)
			if hasLog(c.daemons[0], "lease-expired") || hasLog(c.daemons[0], "lease-lost") {
				c.dump(t)
				t.Error("a wrong clock cost the lease")
			}
			before := c.daemons[0].Status().Subnet
			c.daemons[0].SetClock(-offset)
			c.daemons[0].Restart()
			c.check(t)
			if after := c.daemons[0].Status().Subnet; after != before {
				t.Errorf("subnet %s became %s", before, after)
			}
		})
	}
}

func TestDaemonFilesFail(t *testing.T) {
	c := newCluster(t, 8, 2, nil)
	d := c.daemons[0]
	full := errors.New("no space left on device")
	d.FailWrites(node.SubnetFile, full)
	c.start()
	c.Run(time.Minute)
	if s := d.Status(); s.Ready || !strings.Contains(strings.Join(s.Reasons, "\n"), full.Error()) {
		t.Errorf("subnet file cannot be written, but: %+v", s)
	}
	if _, ok := d.File(node.SubnetFile); ok {
		t.Error("a failed write left a file")
	}
	d.FailWrites(node.SubnetFile, nil)
	c.check(t)
}

func TestDaemonTornWrite(t *testing.T) {
	for _, f := range []node.File{node.SubnetFile, node.StateFile} {
		t.Run(f.String(), func(t *testing.T) {
			c := newCluster(t, 9, 2, nil)
			d := c.daemons[0]
			d.TearWrite(f, true)
			c.start()
			if !c.RunUntil(func() bool { return !d.Running() }, time.Minute) {
				t.Fatal("the machine did not go down")
			}
			if data, ok := d.File(f); !ok || len(data) == 0 {
				t.Error("nothing is left of the file")
			}
			d.Start()
			c.check(t)
		})
	}
}

// TestDaemonPartitionedFromStore cuts the network between the hosts and the store.
func TestDaemonPartitionedFromStore(t *testing.T) {
	reachable := true
	c := newCluster(t, 10, 2, func(o *Options) { o.Reachable = func() bool { return reachable } })
	c.start()
	c.check(t)
	reachable = false
	c.Run(30 * time.Second)
	for _, d := range c.daemons {
		if s := d.Status(); s.Ready || s.Synced {
			t.Errorf("%s: ready without a store: %+v", d.host.Name(), s)
		}
	}
	c.pingAll(t)
	c.Run(10 * time.Minute) // the leases run out
	for _, d := range c.daemons {
		if s := d.Status(); !s.Fenced {
			t.Errorf("%s is not fenced: %+v", d.host.Name(), s)
		}
	}
	reachable = true
	c.check(t)
}
