package kernel

import (
	"context"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/drivers/sim/world"
)

// must fails the test on an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// program applies ops in canonical form to a host.
func program(t testing.TB, h *Host, lines ...string) {
	t.Helper()
	for _, line := range lines {
		op, err := dataplane.ParseOp(line)
		must(t, err)
		must(t, h.Driver().Apply(context.Background(), []dataplane.Op{op})[0])
	}
}

// lab is two or more hosts on one segment with a vxlan overlay of both
// families, and a pod on each.
type lab struct {
	*world.World
	network *Network
	segment *Segment
	hosts   []*Host
	pods    []*Pod
}

func v4(format string, args ...any) netip.Prefix {
	return netip.MustParsePrefix(fmt.Sprintf(format, args...))
}

// underlay makes n hosts with addresses 192.168.64.N and fd00:64::N.
func underlay(t testing.TB, seed uint64, n int) *lab {
	t.Helper()
	w := world.New(seed)
	l := &lab{World: w, network: NewNetwork(w)}
	l.segment = l.network.NewSegment("lan")
	for i := 1; i <= n; i++ {
		h := l.network.NewHost(fmt.Sprintf("n%d", i))
		_, err := h.AddUplink("eth0", l.segment, v4("192.168.64.%d/24", i), v4("fd00:64::%d/64", i))
		must(t, err)
		h.Forward()
		l.hosts = append(l.hosts, h)
	}
	return l
}

// overlay programs vxlan between all hosts by hand, as the core would, and
// gives each a pod.
func overlay(t testing.TB, seed uint64, n int) *lab {
	t.Helper()
	l := underlay(t, seed, n)
	for i, h := range l.hosts {
		me := i + 1
		program(t, h,
			fmt.Sprintf("add link flannel.1 type vxlan mtu 1450 mac 02:00:00:00:04:%02x up id 1"+
				" dev eth0 local 192.168.64.%d port 8472", me, me),
			fmt.Sprintf("add link flannel-v6.1 type vxlan mtu 1430 mac 02:00:00:00:06:%02x up id 1"+
				" dev eth0 local fd00:64::%d port 8472", me, me),
			fmt.Sprintf("add addr 10.5.%d.0/32 dev flannel.1", me),
			fmt.Sprintf("add addr fd05:0:0:%d::/128 dev flannel-v6.1", me))
		for peer := 1; peer <= n; peer++ {
			if peer == me {
				continue
			}
			program(t, h,
				fmt.Sprintf("add neigh 10.5.%d.0 lladdr 02:00:00:00:04:%02x dev flannel.1", peer, peer),
				fmt.Sprintf("add fdb 02:00:00:00:04:%02x dst 192.168.64.%d dev flannel.1", peer, peer),
				fmt.Sprintf("add route 10.5.%d.0/24 via 10.5.%d.0 dev flannel.1 onlink", peer, peer),
				fmt.Sprintf("add neigh fd05:0:0:%d:: lladdr 02:00:00:00:06:%02x dev flannel-v6.1", peer, peer),
				fmt.Sprintf("add fdb 02:00:00:00:06:%02x dst fd00:64::%d dev flannel-v6.1", peer, peer),
				fmt.Sprintf("add route fd05:0:0:%d::/64 via fd05:0:0:%d:: dev flannel-v6.1 onlink", peer, peer))
		}
		pod, err := h.NewPod("pod", 1430, v4("10.5.%d.0/24", me), v4("fd05:0:0:%d::/64", me))
		must(t, err)
		l.pods = append(l.pods, pod)
	}
	return l
}

// await lets time pass until the probe is done.
func (l *lab) await(t testing.TB, p *Probe) *Probe {
	t.Helper()
	if !l.RunUntil(p.Done, time.Minute) {
		t.Fatalf("%s: no end within a minute", p)
	}
	return p
}

// ping sends a request from one pod to the other.
func (l *lab) ping(t testing.TB, f cidr.Family, o PingOptions) *Probe {
	t.Helper()
	return l.await(t, l.pods[0].Ping(l.pods[1].Addr(f), o))
}

// wantDrop checks how a probe ended.
func wantDrop(t *testing.T, p *Probe, why Drop, where string) {
	t.Helper()
	if p.Delivered || p.Drop != why || p.Where != where {
		t.Errorf("%s; want %s at %s\npath %v", p, why, where, p.Path)
	}
}

func wantDelivered(t *testing.T, p *Probe) {
	t.Helper()
	if !p.Delivered {
		t.Errorf("%s; want it delivered\npath %v", p, p.Path)
	}
}

// lineRoute parses a route in canonical form.
func lineRoute(t testing.TB, line string) dataplane.Route {
	t.Helper()
	o, err := dataplane.ParseObject(line)
	must(t, err)
	return o.(dataplane.Route)
}
