package kernel

import (
	"bytes"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/flanneld/flannel/core/cidr"
)

// protected makes two hosts with pods whose packets the policies of ipsec protect. They
// have no keys yet.
func protected(t *testing.T) *lab {
	t.Helper()
	l := underlay(t, 1, 2)
	for i, h := range l.hosts {
		me, peer := i+1, 2-i
		must(t, h.DefaultRoute(netip.MustParseAddr(fmt.Sprintf("192.168.64.%d", peer))))
		program(t, h,
			"add policy out 10.5.0.0/16 to 10.5.0.0/16 block priority 102",
			fmt.Sprintf("add policy out 10.5.0.0/16 to 10.5.%d.0/24 allow priority 101", me))
		pod, err := h.NewPod("pod", 1423, v4("10.5.%d.0/24", me))
		must(t, err)
		l.pods = append(l.pods, pod)
	}
	return l
}

// meet adds the policies of the other host to a host.
func meet(t *testing.T, l *lab, i int) {
	me, peer := i+1, 2-i
	out := fmt.Sprintf("10.5.%d.0/24 to 10.5.%d.0/24 esp 192.168.64.%d to 192.168.64.%d reqid 11 priority 0",
		me, peer, me, peer)
	back := fmt.Sprintf("10.5.%d.0/24 to 10.5.%d.0/24 esp 192.168.64.%d to 192.168.64.%d reqid 11 priority 0",
		peer, me, peer, me)
	program(t, l.hosts[i], "add policy out "+out, "add policy in "+back, "add policy fwd "+back)
}

// agree gives both hosts the keys of both directions.
func agree(l *lab, udp bool) {
	for i := range l.hosts {
		a := Association{SPI: uint32(0xc0 + i), ReqID: 11, Key: uint64(77 + i), UDP: udp,
			From: netip.MustParseAddr(fmt.Sprintf("192.168.64.%d", i+1)),
			To:   netip.MustParseAddr(fmt.Sprintf("192.168.64.%d", 2-i))}
		for _, h := range l.hosts {
			h.AddAssociation(a)
		}
	}
}

// send pings the second pod from the first.
func (l *lab) send(t *testing.T, o PingOptions) *Probe {
	t.Helper()
	p := l.pods[0].Ping(l.pods[1].Addr(cidr.V4), o)
	l.RunUntil(p.Done, time.Minute)
	return p
}

// TestPacketsTravelInESP checks that a packet is blocked while the peer is unknown, dropped
// while there is no key, and delivered once both hosts have policies and keys. The wire
// never shows its content.
func TestPacketsTravelInESP(t *testing.T) {
	for _, udp := range []bool{false, true} {
		l := protected(t)
		if udp {
			for _, h := range l.hosts {
				must(t, h.TakePort(4500))
			}
		}
		var wire bytes.Buffer
		must(t, l.hosts[1].Wire("eth0").Capture(&wire))
		expect := func(want Drop) {
			t.Helper()
			if p := l.send(t, PingOptions{}); p.Drop != want || p.Delivered != (want == "") {
				t.Errorf("udp %t: %s, want %q; path %v", udp, p, want, p.Path)
			}
		}
		expect(DropPolicyBlock)
		meet(t, l, 0)
		expect(DropNoAssociation)
		agree(l, udp)
		expect(DropUnprotected)
		meet(t, l, 1)
		expect("")
		source := netip.MustParseAddr("10.5.1.2").As4()
		if wire.Len() < 500 || bytes.Contains(wire.Bytes(), source[:]) {
			t.Errorf("udp %t: %d bytes on the wire show %t a pod's address", udp, wire.Len(),
				bytes.Contains(wire.Bytes(), source[:]))
		}
		l.hosts[1].DeleteAssociation(netip.MustParseAddr("192.168.64.2"), 0xc0)
		expect(DropUnknownSPI)
	}
}

// TestSizeOfESP checks that a packet of the contract's MTU fits, and that the largest
// packet that the kernel accepts has the size that AES-GCM allows.
func TestSizeOfESP(t *testing.T) {
	for _, c := range []struct{ size, want int }{{1395, 0}, {1418, 0}, {1419, 1446}} {
		l := protected(t)
		for _, p := range l.pods {
			must(t, p.SetMTU(1500))
		}
		must(t, l.hosts[0].SetMTU("cni0", 1500))
		must(t, l.hosts[1].SetMTU("cni0", 1500))
		meet(t, l, 0)
		meet(t, l, 1)
		agree(l, false)
		p := l.send(t, PingOptions{Size: c.size, DF: true})
		if p.Delivered != (c.want == 0) || p.PathMTU != c.want {
			t.Errorf("%d bytes: %s, path MTU %d, want %d", c.size, p, p.PathMTU, c.want)
		}
	}
}

// TestClearPacketsAreRefused sends a packet in the clear that claims to come from the
// peer's subnet.
func TestClearPacketsAreRefused(t *testing.T) {
	l := protected(t)
	meet(t, l, 1)
	agree(l, false)
	program(t, l.hosts[0], "del policy out 10.5.0.0/16 to 10.5.0.0/16 block priority 102")
	if p := l.send(t, PingOptions{}); p.Drop != DropUnprotected || p.Where != "n2" {
		t.Errorf("%s", p)
	}
}
