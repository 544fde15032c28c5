package tunnel_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/driver"
)

// TestObserve reads back the objects made, and those changed in place.
func TestObserve(t *testing.T) {
	a, b := newPair(t, 1500)
	c := &node{i: 3}
	want := func(p dataplane.Proxy, peers ...dataplane.Peer) {
		t.Helper()
		s := dataplane.NewState()
		s.AddLink(a.link())
		s.AddAddr(a.addr())
		s.AddRoute(a.route())
		s.AddProxy(p)
		for _, peer := range peers {
			s.AddPeer(peer)
		}
		if d := cmp.Diff(s.Dump(), withoutLinkLocal(a.observe(t)).Dump()); d != "" {
			t.Fatalf("(-want +got):\n%s", d)
		}
	}
	carry(t, a, b, dataplane.OffloadAuto, dataplane.OffloadAuto)
	want(a.proxy("auto"), a.peer(b))
	a.apply(t, dataplane.Create, a.peer(c))
	moved := a.peer(c)
	moved.To = netip.MustParseAddr("192.168.64.99")
	a.apply(t, dataplane.Replace, moved)
	want(a.proxy("auto"), a.peer(b), moved)
	for _, p := range []dataplane.Proxy{
		{Subnet: netip.MustParsePrefix("10.5.9.0/24"), MTU: 1300}, {Offload: dataplane.OffloadOff},
		{Local: netip.AddrPortFrom(a.underlay(), 8286)}, {Offload: dataplane.OffloadGSO},
	} {
		changed := a.proxy("auto")
		if p.Subnet.IsValid() {
			changed.Subnet, changed.MTU = p.Subnet, p.MTU
		}
		if p.Local.IsValid() {
			changed.Local = p.Local
		}
		if p.Offload != "" {
			changed.Offload = p.Offload
		}
		a.apply(t, dataplane.Replace, changed)
		want(changed, a.peer(b), moved)
	}
	a.apply(t, dataplane.Delete, moved)
	want(withOffload(a.proxy("auto"), "gso"), a.peer(b))
	a.apply(t, dataplane.Delete, a.proxy("gso"))
	if s := a.observe(t); len(s.Proxies) > 0 || s.Peers.Len() > 0 || len(s.Running) > 0 {
		t.Errorf("after the proxy was deleted: %s", s.Dump())
	}
}

func withOffload(p dataplane.Proxy, o dataplane.Offload) dataplane.Proxy {
	p.Offload = o
	return p
}

// withoutLinkLocal removes the addresses that the kernel makes itself.
func withoutLinkLocal(s *dataplane.State) *dataplane.State {
	s.Routes.DeleteFunc(func(k dataplane.RouteKey, _ dataplane.Route) bool { return k.Dst.Addr().Is6() })
	for a := range s.Addrs {
		if a.Prefix.Addr().Is6() {
			delete(s.Addrs, a)
		}
	}
	return s
}

// TestRunningNamesTier checks that "auto" uses the offloads of the kernel. It skips
// on kernels without them.
func TestRunningNamesTier(t *testing.T) {
	a, _ := newPair(t, 1500)
	a.apply(t, dataplane.Create, a.link())
	err := a.refusal(t, dataplane.Replace, a.proxy("gso"))
	if errors.Is(err, driver.ErrUnsupported) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		offload      dataplane.Offload
		tier, reason string
	}{
		{"off", "plain", "Offload is off"},
		{"auto", "gso", "the kernel has every feature"},
		{"gso", "gso", "the kernel has every feature"},
	} {
		a.apply(t, dataplane.Replace, a.proxy(c.offload))
		got := a.observe(t).Running[device]
		if got.Tier != c.tier || !strings.HasPrefix(got.Reason, c.reason) {
			t.Errorf("Offload %s: tier %s, %q", c.offload, got.Tier, got.Reason)
		}
	}
}

// TestRefusals checks that errors have the right class and say what to do.
func TestRefusals(t *testing.T) {
	a, b := newPair(t, 1500)
	check := func(verb dataplane.Verb, o dataplane.Object, class error, text string) {
		t.Helper()
		err := a.refusal(t, verb, o)
		if !errors.Is(err, class) || !strings.Contains(fmt.Sprint(err), text) {
			t.Errorf("%s %s: error %v, want one of class %q with %q", verb, o, err, class, text)
		}
	}
	check(dataplane.Create, a.proxy("auto"), driver.ErrNotFound, "open TUN device flannel0: no such device")
	check(dataplane.Create, a.peer(b), driver.ErrNotFound, "nothing carries packets on flannel0")
	check(dataplane.Delete, a.peer(b), driver.ErrNotFound, "nothing carries packets on flannel0")
	check(dataplane.Delete, a.link(), driver.ErrNotFound, "")
	a.apply(t, dataplane.Create, a.link())
	check(dataplane.Create, a.link(), driver.ErrExists, "a link of this name, type tun, is there")
	check(dataplane.Delete, a.proxy("auto"), driver.ErrNotFound, "")
	check(dataplane.Create, a.proxy("fast"), driver.ErrInvalid, `option Offload: "fast" is none of auto, gso, off`)

	taken := a.holdPort(t)
	check(dataplane.Create, a.proxy("auto"), driver.ErrBusy,
		"listen on UDP 192.168.64.1:8285: address already in use: another process has the port, perhaps another flanneld; "+
			"stop it, or choose another Port for all nodes")
	taken.Close()
	elsewhere := a.proxy("auto")
	elsewhere.Local = netip.MustParseAddrPort("192.168.64.77:8285")
	check(dataplane.Create, elsewhere, driver.ErrNotFound, "no link has this address")
	nowhere := a.proxy("auto")
	nowhere.Local = netip.AddrPort{}
	check(dataplane.Create, nowhere, driver.ErrUnsupported, "listen on UDP invalid AddrPort")

	a.apply(t, dataplane.Create, a.proxy("auto"), a.peer(b))
	check(dataplane.Create, a.proxy("auto"), driver.ErrExists, "")
	check(dataplane.Create, a.peer(b), driver.ErrExists, "")
	check(dataplane.Delete, a.peer(&node{i: 9}), driver.ErrNotFound, "")

	second := &node{Host: a.Host, ns: a.ns, i: a.i, mtu: a.mtu}
	second.start(t)
	defer second.stop(t)
	err := second.refusal(t, dataplane.Create, a.proxy("auto"))
	if want := "open TUN device flannel0: device or resource busy: another process has the device open"; !errors.Is(err,
		driver.ErrBusy) ||
		!strings.Contains(fmt.Sprint(err), want) {
		t.Errorf("from a second driver: error %v, want %q", err, want)
	}
}

// holdPort takes the port that the proxy needs.
func (n *node) holdPort(t *testing.T) net.PacketConn {
	t.Helper()
	var c net.PacketConn
	err := n.ns.Do(func() (err error) {
		c, err = net.ListenPacket("udp4", n.proxy("").Local.String())
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestDeviceDeleted deletes the device of a running tunnel: the tunnel ends,
// says so, releases the port, and can be made again.
func TestDeviceDeleted(t *testing.T) {
	for _, tier := range tiers {
		t.Run(string(tier), func(t *testing.T) {
			a, b := newPair(t, 1500)
			carry(t, a, b, tier, tier)
			drain(a.d.Hints())
			l, err := a.LinkByName(device)
			if err != nil {
				t.Fatal(err)
			}
			if err := a.LinkDel(l); err != nil {
				t.Fatal(err)
			}
			a.awaitFreePort(t)
			if s := a.observe(t); s.Len() > 0 {
				t.Errorf("objects are left: %s", s.Dump())
			}
			// A new device of that name is not the old tunnel's device.
			a.apply(t, dataplane.Create, a.link())
			if s := a.observe(t); len(s.Proxies) > 0 {
				t.Errorf("the new device runs %v", s.Proxies)
			}
			a.apply(t, dataplane.Replace, a.proxy(tier))
			a.apply(t, dataplane.Create, a.addr(), a.route(), a.peer(b))
			if err := transfer(t, a, b, 1<<20); err != nil {
				t.Error(err)
			}
		})
	}
}

// awaitFreePort waits until the tunnel has released the port, which it does before its
// last hint.
func (n *node) awaitFreePort(t *testing.T) {
	t.Helper()
	const bound = 10 * time.Second // reached only if no hint comes
	deadline := time.NewTimer(bound)
	defer deadline.Stop()
	for {
		err := n.holdPortIfFree()
		if err == nil {
			return
		}
		select {
		case <-n.d.Hints():
		case <-deadline.C:
			t.Fatalf("without a hint for %s, the port is taken: %v", bound, err)
		}
	}
}

func drain(hints <-chan struct{}) {
	select {
	case <-hints:
	default:
	}
}

// holdPortIfFree takes the port for a moment.
func (n *node) holdPortIfFree() error {
	return n.ns.Do(func() error {
		c, err := net.ListenPacket("udp4", n.proxy("").Local.String())
		if err == nil {
			err = c.Close()
		}
		return err
	})
}

// TestRestart ends the driver, as a restart of the daemon does: the device
// keeps its address and route, and connections survive.
func TestRestart(t *testing.T) {
	for _, tier := range tiers {
		t.Run(string(tier), func(t *testing.T) {
			a, b := newPair(t, 1500)
			carry(t, a, b, tier, tier)
			l := b.listen(t)
			conn := a.dial(t, l.Addr())
			far, err := l.Accept()
			if err != nil {
				t.Fatal(err)
			}
			defer far.Close()
			a.stop(t)
			a.start(t)
			s := withoutLinkLocal(a.observe(t))
			want := dataplane.NewState()
			want.AddLink(a.link())
			want.AddAddr(a.addr())
			want.AddRoute(a.route())
			if d := cmp.Diff(want.Dump(), s.Dump()); d != "" {
				t.Errorf("the objects after a restart (-want +got):\n%s", d)
			}
			a.apply(t, dataplane.Create, a.proxy(tier), a.peer(b))
			done := make(chan error, 1)
			go func() { done <- exchange(far, 2, 1, 1<<20) }()
			if err := errors.Join(exchange(conn, 1, 2, 1<<20), <-done); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestDown sets the device down for a while: only the packets of that time are
// lost, and the tunnel stays.
func TestDown(t *testing.T) {
	for _, tier := range tiers {
		t.Run(string(tier), func(t *testing.T) {
			a, b := newPair(t, 1500)
			carry(t, a, b, tier, tier)
			to := a.open(t)
			down := a.link()
			down.Up = false
			a.apply(t, dataplane.Replace, down)
			b.write(t, b.open(t), to.LocalAddr(), "lost")
			a.await(t, "device_refused", 1)
			a.apply(t, dataplane.Replace, a.link())
			a.apply(t, dataplane.Create, a.route())
			if err := transfer(t, a, b, 1<<20); err != nil {
				t.Error(err)
			}
		})
	}
}

func (n *node) write(t testing.TB, from *net.UDPConn, to net.Addr, text string) {
	t.Helper()
	if _, err := from.WriteTo([]byte(text), to); err != nil {
		t.Fatal(err)
	}
}

// await waits until that many packets were dropped for a reason.
func (n *node) await(t testing.TB, reason string, want uint64) {
	t.Helper()
	n.awaitRunning(t, fmt.Sprintf("%d dropped as %s", want, reason),
		func(r dataplane.Running) bool { return r.Drops[reason] == want })
}

// awaitRunning waits until the report on the running packet path meets a
// condition.
func (n *node) awaitRunning(t testing.TB, what string, ok func(dataplane.Running) bool) {
	t.Helper()
	const bound = 10 * time.Second // reached only if the condition never holds
	deadline := time.NewTimer(bound)
	defer deadline.Stop()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		r := n.observe(t).Running[device]
		if ok(r) {
			return
		}
		select {
		case <-tick.C:
		case <-deadline.C:
			t.Fatalf("%s: not true within %s: %+v", what, bound, r)
		}
	}
}

// TestSpoofed sends datagrams from senders that may not send them.
func TestSpoofed(t *testing.T) {
	for _, tier := range tiers {
		t.Run(string(tier), func(t *testing.T) {
			a, b, w := newWired(t, 1500)
			c := &node{i: 3}
			carry(t, a, b, tier, tier)
			to := a.open(t)
			var inner []byte
			got := make(chan struct{})
			w.set(func(from int, p []byte) [][]byte {
				if inner == nil && from == 1 && payload(p) != nil {
					inner = bytes.Clone(p)
					close(got)
				}
				return [][]byte{p}
			})
			from := b.open(t)
			b.write(t, from, to.LocalAddr(), "true")
			<-got
			expect(t, to, "true")
			stranger := slices.Clone(inner)
			copy(stranger[12:], c.underlay().AsSlice())
			foreign := slices.Clone(inner)
			copy(foreign[28+12:], []byte{10, 5, 7, 7})
			fixHeaders(stranger)
			fixHeaders(foreign)
			for range 3 {
				w.put(0, stranger)
			}
			w.put(0, foreign)
			short := slices.Clone(inner[:28+19])
			short[3], short[25] = 28+19, 8+19
			fixHeaders(short)
			w.put(0, short)
			a.await(t, "spoofed", 3)
			a.await(t, "foreign", 1)
			a.await(t, "truncated", 1)
			b.write(t, from, to.LocalAddr(), "also true")
			expect(t, to, "also true")
		})
	}
}

// expect reads one datagram.
func expect(t testing.TB, c *net.UDPConn, want string) {
	t.Helper()
	b := make([]byte, 1<<16)
	n, _, err := c.ReadFrom(b)
	if err != nil || string(b[:n]) != want {
		t.Fatalf("got %q, %v, want %q", b[:n], err, want)
	}
}

// fixHeaders corrects the checksums of an IPv4 header and of the inner packet
// of a tunnel, and clears the checksum of the outer UDP header.
func fixHeaders(packet []byte) {
	packet[26], packet[27] = 0, 0
	sumHeader(packet)
	if inner := packet[28:]; len(inner) >= 20 {
		sumHeader(inner)
	}
}

// TestNarrowPath shrinks the path between the nodes: the tunnel goes on with
// outer packets that the kernel fragments. Single packets discover the path's
// MTU; packets that the kernel cuts from a message may be fragmented on their
// way.
func TestNarrowPath(t *testing.T) {
	const mtu = 1200
	pairs(t, func(t *testing.T, tierA, tierB dataplane.Offload) {
		a, b, w := newWired(t, 1500)
		carry(t, a, b, tierA, tierB)
		told := make(chan struct{}, 1<<16)
		w.set(func(from int, p []byte) [][]byte {
			const dontFragment = 0x40
			if len(p) > mtu && p[6]&dontFragment != 0 {
				w.put(from, tooBig(p, mtu))
				told <- struct{}{}
				return nil
			}
			return [][]byte{p}
		})
		to := b.open(t).LocalAddr()
		a.write(t, a.open(t), to, string(make([]byte, 1400)))
		<-told
		a.writeWhole(t, a.open(t), to, 1400, 10)
		if tierA == dataplane.OffloadGSO {
			a.awaitRunning(t, "single packets to one peer", func(r dataplane.Running) bool {
				return strings.Contains(r.Reason,
					"single packets to 1 of the peers, since the kernel refused messages of several: ")
			})
		}
		if err := transfer(t, a, b, 1<<20); err != nil {
			t.Fatal(err)
		}
	})
}

// writeWhole sends some datagrams of a size, which the kernel keeps as one
// packet as long as it can.
func (n *node) writeWhole(t testing.TB, c *net.UDPConn, to net.Addr, size, count int) {
	t.Helper()
	raw, err := c.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var set error
	err = raw.Control(func(fd uintptr) { set = unix.SetsockoptInt(int(fd), unix.SOL_UDP, unix.UDP_SEGMENT, size) })
	if err := errors.Join(err, set); err != nil {
		t.Fatal(err)
	}
	if _, err := c.WriteTo(noise(3, size*count), to); err != nil {
		t.Fatal(err)
	}
}

// tooBig is a router's error about a packet larger than the next link.
func tooBig(packet []byte, mtu int) []byte {
	b := append(make([]byte, 28), packet[:28]...)
	b[0], b[3] = 0x45, 56
	b[8], b[9] = 64, unix.IPPROTO_ICMP
	copy(b[12:], []byte{192, 168, 64, 253})
	copy(b[16:], packet[12:16])
	sumHeader(b)
	icmp := b[20:]
	icmp[0], icmp[1] = 3, 4
	binary.BigEndian.PutUint16(icmp[6:], uint16(mtu))
	binary.BigEndian.PutUint16(icmp[2:], checksum(icmp))
	return b
}
