package kernel

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/dataplane"
)

// TestExactMTU sends the largest packet that fits the pods' MTU, and one byte
// more, with DF.
func TestExactMTU(t *testing.T) {
	for _, f := range cidr.Families {
		header := [...]int{20, 40}[f] + 8
		l := overlay(t, 1, 2)
		wantDelivered(t, l.ping(t, f, PingOptions{Size: 1430 - header, DF: true}))
		p := l.ping(t, f, PingOptions{Size: 1430 - header + 1, DF: true})
		wantDrop(t, p, DropTooBig, "n1.pod")
		if p.PathMTU != 1430 {
			t.Errorf("%s: path MTU %d, want 1430", f, p.PathMTU)
		}
		wantDelivered(t, l.ping(t, f, PingOptions{Size: 4000}))
	}
}

// TestSmallerMTUOnTheWay lowers a tunnel's MTU below the pods': the node
// reports it to the pod, which then uses it.
func TestSmallerMTUOnTheWay(t *testing.T) {
	for _, f := range cidr.Families {
		l := overlay(t, 1, 2)
		must(t, l.hosts[0].SetMTU([...]string{"flannel.1", "flannel-v6.1"}[f], 1300))
		p := l.ping(t, f, PingOptions{Size: 1350, DF: true})
		wantDrop(t, p, DropTooBig, "n1")
		if p.PathMTU != 1300 {
			t.Errorf("%s: path MTU %d, want 1300", f, p.PathMTU)
		}
		wantDrop(t, l.ping(t, f, PingOptions{Size: 1350, DF: true}), DropTooBig, "n1.pod")
		wantDelivered(t, l.ping(t, f, PingOptions{Size: 1350}))
	}
}

// TestUnderlaySmallerThanItsLinks gives a wire a lower MTU than the links on it:
// full packets vanish silently, small ones pass.
func TestUnderlaySmallerThanItsLinks(t *testing.T) {
	l := overlay(t, 1, 2)
	l.hosts[1].Wire("eth0").MTU = 1400
	wantDrop(t, l.ping(t, cidr.V4, PingOptions{Size: 1400, DF: true}), DropWireMTU, "n1")
	wantDelivered(t, l.ping(t, cidr.V4, PingOptions{Size: 1300}))
}

// TestOuterPacketIsFragmented lowers the uplink's MTU, which the tunnel does
// not follow: outer IPv4 packets carry no DF, and are fragmented and
// reassembled.
func TestOuterPacketIsFragmented(t *testing.T) {
	for _, f := range cidr.Families {
		l := overlay(t, 1, 2)
		must(t, l.hosts[0].SetMTU("eth0", 1400))
		wantDelivered(t, l.ping(t, f, PingOptions{Size: 1380, DF: true}))
	}
}

// damage is a fault between two pods, and the drop that a ping then ends with.
type damage struct {
	name   string
	breaks func(*testing.T, *lab)
	why    Drop
	where  string
}

func wantDrops(t *testing.T, damages []damage) {
	t.Helper()
	for _, c := range damages {
		t.Run(c.name, func(t *testing.T) {
			l := overlay(t, 1, 2)
			c.breaks(t, l)
			wantDrop(t, l.ping(t, cidr.V4, PingOptions{}), c.why, c.where)
		})
	}
}

func TestTunnelDropsHaveNames(t *testing.T) {
	mac := func(i int) string { return fmt.Sprintf("02:00:00:00:04:%02x", i) }
	wantDrops(t, []damage{
		{"route flushed", func(t *testing.T, l *lab) { must(t, l.hosts[0].FlushRoutes("flannel.1")) }, DropNoRoute, "n1"},
		{"neighbour flushed", func(t *testing.T, l *lab) {
			must(t, l.hosts[0].FlushNeigh("flannel.1"))
		}, DropNeighMissing, "n1"},
		{"fdb flushed", func(t *testing.T, l *lab) { must(t, l.hosts[0].FlushFDB("flannel.1")) }, DropFDBMissing, "n1"},
		{"fdb diverted", func(t *testing.T, l *lab) { must(t, l.hosts[0].DivertFDB("flannel.1")) }, DropFDBMissing, "n1"},
		{"wrong neighbour", func(t *testing.T, l *lab) {
			program(t, l.hosts[0], "replace neigh 10.5.2.0 lladdr "+mac(7)+" dev flannel.1",
				"add fdb "+mac(7)+" dst 192.168.64.2 dev flannel.1")
		}, DropNotMine, "n2"},
		{"wrong host", func(t *testing.T, l *lab) {
			program(t, l.hosts[0], "replace fdb "+mac(2)+" dst 192.168.64.77 dev flannel.1")
		}, DropNeighFailed, "n1"},
		{"other vni", func(t *testing.T, l *lab) {
			program(t, l.hosts[1], "del link flannel.1 type vxlan mtu 0",
				"add link flannel.2 type vxlan mtu 1450 up id 2 dev eth0 local 192.168.64.2 port 8472")
		}, DropVNIMismatch, "n2"},
		{"no tunnel", func(t *testing.T, l *lab) { must(t, l.hosts[1].LinkDelete("flannel.1")) }, DropNoListener, "n2"},
		{"tunnel down there", func(t *testing.T, l *lab) { must(t, l.hosts[1].LinkDown("flannel.1")) }, DropNoListener, "n2"},
		{"tunnel down here", func(t *testing.T, l *lab) { must(t, l.hosts[0].LinkDown("flannel.1")) }, DropNoRoute, "n1"},
		{"MAC taken twice", func(t *testing.T, l *lab) {
			must(t, l.hosts[1].Remove(dataplane.Link{Name: "flannel.1"}))
			program(t, l.hosts[1], "add link flannel.1 type vxlan mtu 1450 mac "+mac(1)+
				" up id 1 dev eth0 local 192.168.64.2 port 8472")
		}, DropLoop, "n2"},
	})
}

func TestOtherDropsHaveNames(t *testing.T) {
	wantDrops(t, []damage{
		{"uplink down", func(t *testing.T, l *lab) { must(t, l.hosts[0].LinkDown("eth0")) }, DropNoRoute, "n1"},
		{"no carrier", func(t *testing.T, l *lab) { must(t, l.hosts[0].Carrier("eth0", false)) }, DropNoCarrier, "n1"},
		{"uplink down there", func(t *testing.T, l *lab) { must(t, l.hosts[1].LinkDown("eth0")) }, DropNeighFailed, "n1"},
		{"wire down", func(_ *testing.T, l *lab) { l.hosts[1].Wire("eth0").Down = true }, DropWireDown, "n1"},
		{"lossy wire", func(_ *testing.T, l *lab) { l.hosts[1].Wire("eth0").Loss = 1 }, DropWireLoss, "n1"},
		{"partition", func(_ *testing.T, l *lab) { l.segment.Partition(l.hosts[:1]) }, DropPartition, "n1"},
		{"no forwarding", func(t *testing.T, l *lab) {
			must(t, l.hosts[1].SetSysctl("net/ipv4/ip_forward", "0"))
		}, DropNotMine, "n2"},
		{"a link without forwarding", func(t *testing.T, l *lab) {
			must(t, l.hosts[1].SetSysctl("net/ipv4/conf/flannel.1/forwarding", "0"))
		}, DropNotMine, "n2"},
		{"bridge down", func(t *testing.T, l *lab) { must(t, l.hosts[1].LinkDown("cni0")) }, DropNoRoute, "n2"},
		{"own bridge down", func(t *testing.T, l *lab) { must(t, l.hosts[0].LinkDown("cni0")) }, DropNeighFailed, "n1.pod"},
		{"strict reverse path", func(t *testing.T, l *lab) {
			must(t, l.hosts[1].SetSysctl("net/ipv4/conf/flannel.1/rp_filter", "1"))
			must(t, l.hosts[1].FlushRoutes("flannel.1"))
		}, DropRPFilter, "n2"},
		{"reverse path by another link", func(t *testing.T, l *lab) {
			must(t, l.hosts[1].SetSysctl("net/ipv4/conf/flannel.1/rp_filter", "1"))
			program(t, l.hosts[1], "replace route 10.5.1.0/24 via 192.168.64.1 dev eth0")
		}, DropRPFilter, "n2"},
		{"no way back", func(t *testing.T, l *lab) { must(t, l.hosts[1].FlushRoutes("flannel.1")) }, DropNoRoute, "n2"},
		{"address gone", func(t *testing.T, l *lab) { // with it goes the connected route
			must(t, l.hosts[0].AddrDel("eth0", v4("192.168.64.1/24")))
		}, DropNoRoute, "n1"},
		{"address moved", func(t *testing.T, l *lab) {
			must(t, l.hosts[0].AddrDel("eth0", v4("192.168.64.1/24")))
			must(t, l.hosts[0].AddrAdd("eth0", v4("192.168.64.9/24")))
		}, DropBadSource, "n1"},
		{"pod gone", func(_ *testing.T, l *lab) { l.pods[1].Remove() }, DropNeighFailed, "n2"},
		{"blackhole", func(t *testing.T, l *lab) {
			r := v4("10.5.2.2/32")
			o := lineRoute(t, "route "+r.String()+" blackhole proto 3")
			must(t, l.hosts[0].RouteAdd(o))
		}, DropBlackhole, "n1"},
		{"tunnel in itself", func(t *testing.T, l *lab) {
			must(t, l.hosts[0].RouteAdd(lineRoute(t, "route 192.168.64.2/32 dev flannel.1 scope 253 proto 3")))
		}, DropLoop, "n1"},
	})
}

// TestTTLEndsALoop has two hosts send a packet back and forth.
func TestTTLEndsALoop(t *testing.T) {
	l := overlay(t, 1, 2)
	program(t, l.hosts[0],
		"add route 10.9.0.0/24 via 192.168.64.2 dev eth0",
		"add route 10.5.2.0/24 via 192.168.64.2 dev eth0 metric 9")
	program(t, l.hosts[1], "add route 10.9.0.0/24 via 192.168.64.1 dev eth0")
	p := l.await(t, l.pods[0].Ping(netip.MustParseAddr("10.9.0.9"), PingOptions{TTL: 9}))
	if p.Drop != DropTTL {
		t.Errorf("%s; want ttl", p)
	}
}

// TestTTLIsCounted sends a packet with exactly the TTL that it needs, and one
// less.
func TestTTLIsCounted(t *testing.T) {
	for _, f := range cidr.Families {
		l := overlay(t, 1, 2)
		wantDrop(t, l.ping(t, f, PingOptions{TTL: 1}), DropTTL, "n1")
		wantDrop(t, l.ping(t, f, PingOptions{TTL: 2}), DropTTL, "n2")
		wantDelivered(t, l.ping(t, f, PingOptions{TTL: 3}))
	}
}

// TestPathMTUIsForgotten waits until a learnt path MTU expires.
func TestPathMTUIsForgotten(t *testing.T) {
	l := overlay(t, 1, 2)
	must(t, l.hosts[0].SetMTU("flannel.1", 1300))
	o := PingOptions{Size: 1350, DF: true}
	wantDrop(t, l.ping(t, cidr.V4, o), DropTooBig, "n1")
	must(t, l.hosts[0].SetMTU("flannel.1", 1450))
	wantDrop(t, l.ping(t, cidr.V4, o), DropTooBig, "n1.pod")
	l.Run(pmtuTime)
	wantDelivered(t, l.ping(t, cidr.V4, o))
}

// TestRouterBetweenSegments runs the overlay across two underlays.
func TestRouterBetweenSegments(t *testing.T) {
	l := overlay(t, 1, 1)
	far := l.network.NewSegment("far")
	router := l.network.NewHost("router")
	_, err := router.AddUplink("eth0", l.segment, v4("192.168.64.254/24"))
	must(t, err)
	_, err = router.AddUplink("eth1", far, v4("192.168.65.254/24"))
	must(t, err)
	router.Forward()
	n9 := l.network.NewHost("n9")
	_, err = n9.AddUplink("eth0", far, v4("192.168.65.9/24"))
	must(t, err)
	must(t, n9.DefaultRoute(netip.MustParseAddr("192.168.65.254")))
	must(t, l.hosts[0].DefaultRoute(netip.MustParseAddr("192.168.64.254")))
	n9.Forward()
	program(t, n9,
		"add link flannel.1 type vxlan mtu 1450 mac 02:00:00:00:04:09 up id 1 dev eth0 local 192.168.65.9 port 8472",
		"add neigh 10.5.1.0 lladdr 02:00:00:00:04:01 dev flannel.1",
		"add fdb 02:00:00:00:04:01 dst 192.168.64.1 dev flannel.1",
		"add route 10.5.1.0/24 via 10.5.1.0 dev flannel.1 onlink")
	program(t, l.hosts[0], "add neigh 10.5.9.0 lladdr 02:00:00:00:04:09 dev flannel.1",
		"add fdb 02:00:00:00:04:09 dst 192.168.65.9 dev flannel.1",
		"add route 10.5.9.0/24 via 10.5.9.0 dev flannel.1 onlink")
	pod, err := n9.NewPod("pod", 1450, v4("10.5.9.0/24"))
	must(t, err)
	p := l.await(t, l.pods[0].Ping(pod.Addr(cidr.V4), PingOptions{}))
	wantDelivered(t, p)
	if want := 8 * UnderlayLatency; p.RTT != want {
		t.Errorf("RTT %s, want %s", p.RTT, want)
	}
	if !slices.ContainsFunc(p.Path, func(h Hop) bool { return h.Where == "router" && h.What == "forward" }) {
		t.Errorf("path misses the router: %v", p.Path)
	}

	// A router with a smaller MTU fragments the outer packets, which carry no
	// DF.
	must(t, router.SetMTU("eth1", 900))
	wantDelivered(t, l.await(t, l.pods[0].Ping(pod.Addr(cidr.V4), PingOptions{Size: 1300, DF: true})))
}

// TestLearningFollows has a tunnel that learns the hosts of MACs.
func TestLearningFollows(t *testing.T) {
	l := overlay(t, 1, 2)
	program(t, l.hosts[1],
		"replace link flannel.1 type vxlan mtu 1450 up id 1 dev eth0 local 192.168.64.2 port 8472 learning")
	must(t, l.hosts[1].FlushFDB("flannel.1"))
	wantDelivered(t, l.ping(t, cidr.V4, PingOptions{}))
	program(t, l.hosts[1], "replace fdb 02:00:00:00:04:01 dst 192.168.64.8 dev flannel.1")
	wantDrop(t, l.ping(t, cidr.V4, PingOptions{}), DropFDBConflict, "n2")
}
