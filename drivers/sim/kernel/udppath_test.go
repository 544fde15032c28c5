package kernel

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/dataplane"
)

// tunnels programs the udp backend between hosts by hand, as the core would,
// and gives each a pod.
func tunnels(t *testing.T, n int) *lab {
	t.Helper()
	l := underlay(t, 1, n)
	for i, h := range l.hosts {
		me := i + 1
		program(t, h,
			"add link flannel0 type tun mtu 1472 up",
			"replace sysctl net/ipv4/conf/flannel0/accept_local = 1 dev flannel0",
			fmt.Sprintf("add addr 10.5.%d.0/32 dev flannel0", me),
			fmt.Sprintf("add proxy flannel0 local 192.168.64.%d:8285 subnet 10.5.%d.0/24 mtu 1472 offload auto", me, me),
			"add route 10.5.0.0/16 dev flannel0")
		for peer := 1; peer <= n; peer++ {
			if peer != me {
				program(t, h, fmt.Sprintf("add peer 10.5.%d.0/24 to 192.168.64.%d dev flannel0", peer, peer))
			}
		}
		pod, err := h.NewPod("pod", 1472, v4("10.5.%d.0/24", me))
		must(t, err)
		l.pods = append(l.pods, pod)
	}
	return l
}

func TestTunnelDrops(t *testing.T) {
	for _, c := range []struct {
		name  string
		harm  func(t *testing.T, l *lab) error
		why   Drop
		where string
	}{
		{"no reader", func(t *testing.T, l *lab) error {
			program(t, l.hosts[0], "del proxy flannel0 mtu 0")
			return nil
		}, DropNoCarrier, "n1"},
		{"no listener", func(t *testing.T, l *lab) error {
			program(t, l.hosts[1], "del proxy flannel0 mtu 0")
			return nil
		}, DropNoListener, "n2"},
		{"no peer", func(t *testing.T, l *lab) error {
			program(t, l.hosts[0], "del peer 10.5.2.0/24 to 192.168.64.2 dev flannel0")
			return nil
		}, DropNoRoute, "n1"},
		{"not believed", func(t *testing.T, l *lab) error {
			program(t, l.hosts[1], "replace peer 10.5.1.0/24 to 192.168.64.9 dev flannel0")
			return nil
		}, "spoofed", "n2"},
		{"unknown to the peer", func(t *testing.T, l *lab) error {
			program(t, l.hosts[1], "del peer 10.5.1.0/24 to 192.168.64.1 dev flannel0")
			return nil
		}, "foreign", "n2"},
		{"address gone", func(_ *testing.T, l *lab) error {
			if err := l.hosts[0].AddrAdd("eth0", v4("192.168.65.1/24")); err != nil {
				return err
			}
			if err := l.hosts[0].AddrDel("eth0", v4("192.168.64.1/24")); err != nil {
				return err
			}
			return l.hosts[0].DefaultRoute(netip.MustParseAddr("192.168.65.9"))
		}, DropBadSource, "n1"},
		{"device down", func(_ *testing.T, l *lab) error { return l.hosts[1].LinkDown("flannel0") }, DropLinkDown, "n2"},
		{"routed into itself", func(_ *testing.T, l *lab) error {
			key := dataplane.RouteKey{Dst: v4("192.168.64.2/32")}
			route := dataplane.Route{RouteKey: key, Link: "flannel0", Protocol: dataplane.ProtocolBoot}
			return l.hosts[0].RouteAdd(route)
		}, DropLoop, "n1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := tunnels(t, 2)
			must(t, c.harm(t, l))
			wantDrop(t, l.ping(t, cidr.V4, PingOptions{}), c.why, c.where)
		})
	}
}

// TestErrorsNeedAcceptLocal clears accept_local: Linux then drops the ICMP
// errors, which come out of the device with its own address.
func TestErrorsNeedAcceptLocal(t *testing.T) {
	l := tunnels(t, 2)
	program(t, l.hosts[0], "replace sysctl net/ipv4/conf/flannel0/accept_local = 0 dev flannel0")
	p := l.ping(t, cidr.V4, PingOptions{TTL: 2})
	if last := p.Path[len(p.Path)-1].String(); last != "n1 drop martian 10.5.1.0 dev flannel0" {
		t.Errorf("last step %q", last)
	}
}

// TestPortIsTaken binds a taken port: the first owner keeps it.
func TestPortIsTaken(t *testing.T) {
	l := tunnels(t, 2)
	if err := l.hosts[0].TakePort(8285); err == nil {
		t.Error("a program took a port that is in use")
	}
	must(t, l.hosts[0].TakePort(9000))
	if err := l.hosts[0].TakePort(9000); err == nil {
		t.Error("two programs took one port")
	}
	must(t, l.hosts[0].LeavePort(9000))
	if err := l.hosts[0].LeavePort(8285); err == nil {
		t.Error("LeavePort took the port of a packet path")
	}
	wantDelivered(t, l.ping(t, cidr.V4, PingOptions{}))
}
