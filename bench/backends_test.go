package bench

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/lease"
	"github.com/flanneld/flannel/harness"
)

// peersEnv is the number of peers of [BenchmarkBackends], 5,000 if it is not set.
const peersEnv = "FLANNEL_BENCH_PEERS"

// kind is a backend to compare.
type kind struct {
	name, config, device string
	policies             bool
	data                 func(i int) []byte

	// served counts the peers whose objects a host has.
	served func(*dataplane.State) int
	// watch returns a function that waits until a node's kernel has the address of a record.
	watch func(ctx context.Context, b *testing.B, n *harness.Node) func(lease.Lease)
}

var kinds = []kind{
	{
		name: "vxlan", config: `{"Type":"vxlan"}`, device: device,
		data: func(i int) []byte { return vxlanData(dataplane.MAC{0xc6, 0, 0, 0, byte(i >> 8), byte(i)}) },
		served: func(s *dataplane.State) int {
			return min(s.Routes.Len(), s.Neighs.Len(), s.FDB.Len())
		},
		watch: watchEntries,
	},
	{
		name: "ipip", config: `{"Type":"ipip"}`, device: "flannel.ipip",
		served: func(s *dataplane.State) int { return s.Routes.Len() },
		watch:  polled(gatewayOf),
	},
	{
		name: "ipsec", config: `{"Type":"ipsec","PSK":"` + strings.Repeat("0123456789abcdef", 6) + `"}`, policies: true,
		served: func(s *dataplane.State) int { return s.Policies.Len() / 3 },
		watch:  polled(tunnelEndOf),
	},
}

// record returns the record of the i-th peer, at one of two addresses.
func (k kind) record(i, version int) lease.Lease {
	p := peer(i)
	p.Attrs.BackendType, p.Attrs.BackendData = k.name, nil
	if k.data != nil {
		p.Attrs.BackendData = k.data(i)
	}
	p.Attrs.PublicIP = netip.AddrFrom4([4]byte{172, byte(16 + version%2), byte(i >> 8), byte(i)})
	return p
}

// BenchmarkBackends compares backends by whole daemons on the kernel: vxlan, ipip and ipsec with a real charon.
// The hosts of the peers do not exist. It needs a kernel with all three, such as that of bin/vm.
//
//	start   from the start of the process until the daemon is ready and the kernel has the objects of all peers
//	idle    a minute without a change of the records or the host
//	change  a peer gets another address, until the kernel has it
func BenchmarkBackends(b *testing.B) {
	peers := 5000
	if text := os.Getenv(peersEnv); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil {
			b.Fatalf("%s=%s: %v", peersEnv, text, err)
		}
		peers = n
	}
	for _, k := range kinds {
		b.Run(fmt.Sprintf("%s/peers=%d", k.name, peers), func(b *testing.B) {
			network := fmt.Sprintf(`{"Network":"10.0.0.0/8","Backend":%s}`, k.config)
			ctx, lab := newLabOf(b, 1, peers, network, func(i int) lease.Lease { return k.record(i, 0) })
			m := &candidate{kind: k, n: lab.Nodes[0], lab: lab, peers: peers}
			for b.Loop() {
				m.start(ctx, b)
				b.StopTimer()
				m.idle(ctx, b)
				m.change(ctx, b)
				m.remember(b)
				forgetDevice(ctx, b, lab, m.n, k.device)
				b.StartTimer()
			}
			m.report(b)
		})
	}
}

// candidate is a daemon of one backend, and the sums of its figures.
type candidate struct {
	kind
	n     *harness.Node
	lab   *harness.Lab
	peers int

	charon                  int // its process, 0 without one
	ready                   time.Duration
	cpu, idleCPU, changeCPU time.Duration // of the daemon
	charonCPU, charonIdle   time.Duration
	changeTime              time.Duration
	memory, charonMemory    int64
	changes                 int
}

// start starts the daemon and waits for all objects.
func (m *candidate) start(ctx context.Context, b *testing.B) {
	b.Helper()
	began := time.Now()
	extent := extent
	extent.Policies = m.policies
	if m.device != "" {
		extent.Links = []string{m.device}
	}
	boot(ctx, b, m.n, noProbes)
	m.ready += time.Since(began)
	m.cpu += cpuTime(b, m.n.PID())
	state, err := m.n.State(ctx, extent)
	if err != nil {
		b.Fatal(err)
	}
	if served := m.served(state); served < m.peers {
		b.Fatalf("ready with the objects of %d of %d peers", served, m.peers)
	}
	m.charon = 0
	if m.policies {
		m.findCharon(b)
	}
}

// findCharon finds the daemon's charon and checks that it has a connection for each peer.
func (m *candidate) findCharon(b *testing.B) {
	b.Helper()
	conns, err := m.n.Conns()
	if err != nil || conns < m.peers {
		b.Fatalf("charon has %d connections of %d: %v", conns, m.peers, err)
	}
	m.charon, err = m.n.CharonPID()
	if err != nil {
		b.Fatal(err)
	}
	m.charonCPU += cpuTime(b, m.charon)
}

// idle measures a minute without a change, once the daemon has followed its own start.
func (m *candidate) idle(ctx context.Context, b *testing.B) {
	b.Helper()
	if m.charon == 0 { // with ipsec the daemon asks for the missing tunnels all the time
		rest(ctx, b, m.n.PID(), 0)
	}
	pids := []int{m.n.PID()}
	if m.charon != 0 {
		pids = append(pids, m.charon)
	}
	used := make([]time.Duration, len(pids))
	for i, pid := range pids {
		used[i] = cpuTime(b, pid)
	}
	end := time.After(time.Minute)
	select {
	case <-end:
	case <-ctx.Done():
		b.Fatal(ctx.Err())
	}
	m.idleCPU += cpuTime(b, pids[0]) - used[0]
	if m.charon != 0 {
		m.charonIdle += cpuTime(b, m.charon) - used[1]
	}
}

// change gives a peer another address, five times.
func (m *candidate) change(ctx context.Context, b *testing.B) {
	b.Helper()
	const times = 5
	arrived := m.watch(ctx, b, m.n)
	for version := 1; version <= times; version++ {
		p := m.record(m.peers/2, version)
		used, began := cpuTime(b, m.n.PID()), time.Now()
		if err := m.lab.Store.PutRaw(ctx, harness.SubnetKey(p.Key.String()), string(lease.EncodeAttrs(p.Attrs))); err != nil {
			b.Fatal(err)
		}
		arrived(p)
		m.changeTime += time.Since(began)
		if m.charon == 0 {
			rest(ctx, b, m.n.PID(), used)
		}
		m.changeCPU += cpuTime(b, m.n.PID()) - used
		m.changes++
	}
	p := m.record(m.peers/2, 0)
	if err := m.lab.Store.PutRaw(ctx, harness.SubnetKey(p.Key.String()), string(lease.EncodeAttrs(p.Attrs))); err != nil {
		b.Fatal(err)
	}
}

// remember keeps the peaks of the processes, which end after it.
func (m *candidate) remember(b *testing.B) {
	b.Helper()
	m.memory = max(m.memory, peakMemory(b, m.n.PID()))
	if m.charon != 0 {
		m.charonMemory = max(m.charonMemory, peakMemory(b, m.charon))
	}
}

func (m *candidate) report(b *testing.B) {
	b.Helper()
	each := func(d time.Duration) float64 { return milliseconds(d) / float64(b.N) }
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(each(m.ready), "start-ms")
	b.ReportMetric(each(m.cpu), "start-cpu-ms")
	b.ReportMetric(each(m.idleCPU), "idle-cpu-ms/min")
	b.ReportMetric(milliseconds(m.changeTime)/float64(m.changes), "change-ms")
	b.ReportMetric(milliseconds(m.changeCPU)/float64(m.changes), "change-cpu-ms")
	b.ReportMetric(megabytes(m.memory), "peak-MB")
	if m.policies {
		b.ReportMetric(each(m.charonCPU), "charon-start-cpu-ms")
		b.ReportMetric(each(m.charonIdle), "charon-cpu-ms/min")
		b.ReportMetric(megabytes(m.charonMemory), "charon-MB")
	}
}

// gatewayOf asks a node's kernel for the gateway of the route to a peer.
func gatewayOf(b *testing.B, n *harness.Node, p lease.Lease) (gateway netip.Addr) {
	b.Helper()
	err := n.Do(func() error {
		routes, err := netlink.RouteGet(p.Key.V4.Addr().AsSlice())
		if err == nil && len(routes) > 0 {
			gateway = addrOf(routes[0].Gw)
		}
		return err
	})
	if err != nil {
		b.Fatal(err)
	}
	return gateway
}

// tunnelEndOf asks a node's kernel for the far end in the policy for packets to a peer.
func tunnelEndOf(b *testing.B, n *harness.Node, p lease.Lease) (end netip.Addr) {
	b.Helper()
	env, err := n.SubnetEnv()
	if err != nil {
		b.Fatal(err)
	}
	err = n.Do(func() error {
		got, err := netlink.XfrmPolicyGet(&netlink.XfrmPolicy{
			Src: prefixOf(env.Subnet[0].Masked()), Dst: prefixOf(p.Key.V4), Dir: netlink.XFRM_DIR_OUT,
		})
		if err == nil && len(got.Tmpls) > 0 {
			end = addrOf(got.Tmpls[0].Dst)
		}
		return nil // while the policy is replaced there may be none
	})
	if err != nil {
		b.Fatal(err)
	}
	return end
}

// watchEntries waits for the forwarding entries of a vxlan device.
func watchEntries(ctx context.Context, b *testing.B, n *harness.Node) func(lease.Lease) {
	b.Helper()
	updates := neighbours(b, n)
	return func(p lease.Lease) {
		for {
			select {
			case e := <-updates:
				if addrOf(e.IP) == p.Attrs.PublicIP {
					return
				}
			case <-ctx.Done():
				b.Fatalf("waiting for a forwarding entry to %s: %v", p.Attrs.PublicIP, ctx.Err())
			}
		}
	}
}

// polled asks again and again how a node's kernel reaches a peer.
func polled(
	ask func(*testing.B, *harness.Node, lease.Lease) netip.Addr,
) func(context.Context, *testing.B, *harness.Node) func(lease.Lease) {
	return func(ctx context.Context, b *testing.B, n *harness.Node) func(lease.Lease) {
		return func(p lease.Lease) {
			until(ctx, b, "the address "+p.Attrs.PublicIP.String(), func() bool { return ask(b, n, p) == p.Attrs.PublicIP })
		}
	}
}

// addrOf returns an IPv4 address, the zero one for none.
func addrOf(ip net.IP) netip.Addr {
	a, _ := netip.AddrFromSlice(ip)
	return a.Unmap()
}

func prefixOf(p netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), 32)}
}
