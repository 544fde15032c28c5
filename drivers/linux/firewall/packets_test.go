package firewall

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/dataplane"
	rules "github.com/flanneld/flannel/core/firewall"
	"github.com/flanneld/flannel/drivers/linux/internal/namespace"
	"github.com/flanneld/flannel/drivers/linux/linuxtest"
	"github.com/flanneld/flannel/internal/wholedump"
)

// scene is a node with a pod, another node's pod behind a device that stands
// for the overlay, and a host outside.
type scene struct {
	*world
	places map[string]namespace.Namespace
}

// The addresses of a family; see [scene].
var addresses = [2]map[string]netip.Addr{
	{
		"pod": ip("10.5.1.2"), "gateway": ip("10.5.1.1"), "second": ip("10.5.1.77"), "overlay": ip("10.5.1.0"),
		"remote": ip("10.5.2.2"), "remote-overlay": ip("10.5.2.0"),
		"node": ip("192.168.64.3"), "outside": ip("192.168.64.9"), "group": ip("224.0.0.5"),
	},
	{
		"pod": ip("fd00:5:0:1::2"), "gateway": ip("fd00:5:0:1::1"), "second": ip("fd00:5:0:1::77"),
		"overlay": ip("fd00:5:0:1::"),
		"remote":  ip("fd00:5:0:2::2"), "remote-overlay": ip("fd00:5:0:2::"),
		"node": ip("fd00:a::3"), "outside": ip("fd00:a::9"), "group": ip("ff05::5"),
	},
}

func ip(s string) netip.Addr { return netip.MustParseAddr(s) }

func newScene(t testing.TB, v variant) *scene {
	t.Helper()
	s := &scene{world: newWorld(t, v), places: map[string]namespace.Namespace{}}
	for _, place := range []string{"node", "second"} {
		s.places[place] = s.ns
	}
	set(t, s.ns, "ipv4/ip_forward", "1")
	set(t, s.ns, "ipv6/conf/all/forwarding", "1")
	set(t, s.ns, "ipv4/conf/all/rp_filter", "0")
	set(t, s.ns, "ipv4/conf/default/rp_filter", "0")
	set(t, s.ns, "ipv6/conf/default/accept_dad", "0")
	pod := s.join(t, "cni0", "pod")
	remote := s.join(t, "flannel.1", "remote")
	outside := s.join(t, "eth0", "outside")
	for _, f := range cidr.Families {
		a := addresses[f]
		bits := [...]int{24, 64}[f]
		whole := [...]int{32, 128}[f]
		own, far := netip.PrefixFrom(a["overlay"], bits), netip.PrefixFrom(a["remote-overlay"], bits)
		network := netip.MustParsePrefix(fill("{net}", f))
		add(t, s.Handle, "cni0", a["gateway"], bits)
		add(t, s.Handle, "cni0", a["second"], bits)
		add(t, s.Handle, "flannel.1", a["overlay"], whole)
		add(t, s.Handle, "eth0", a["node"], bits)
		route(t, s.Handle, "flannel.1", far, a["remote-overlay"])
		route(t, s.Handle, "cni0", multicast(f), netip.Addr{})
		add(t, pod, "eth0", a["pod"], bits)
		route(t, pod, "eth0", netip.PrefixFrom(a["pod"], 0).Masked(), a["gateway"])
		add(t, remote, "eth0", a["remote-overlay"], whole)
		add(t, remote, "eth0", a["remote"], bits)
		route(t, remote, "eth0", own, a["overlay"])
		route(t, remote, "eth0", netip.PrefixFrom(a["pod"], 0).Masked(), a["overlay"])
		add(t, outside, "eth0", a["outside"], bits)
		route(t, outside, "eth0", network, a["node"])
	}
	return s
}

// set changes a setting below /proc/sys/net.
func set(t testing.TB, ns namespace.Namespace, path, value string) {
	t.Helper()
	if err := ns.Do(func() error { return os.WriteFile("/proc/sys/net/"+path, []byte(value), 0) }); err != nil {
		t.Fatal(err)
	}
}

// join makes a place at the other end of one of the node's links.
func (s *scene) join(t testing.TB, link, place string) *wholedump.Handle {
	t.Helper()
	h := linuxtest.HostOf(t)
	ns := h.Keep(t)
	s.places[place] = ns
	set(t, ns, "ipv6/conf/default/accept_dad", "0") // otherwise duplicate address detection would delay packets
	attrs := netlink.NewLinkAttrs()
	attrs.Name = link
	if err := s.LinkAdd(&netlink.Veth{LinkAttrs: attrs, PeerName: "eth0", PeerNamespace: netlink.NsFd(h.NS)}); err != nil {
		t.Fatal(err)
	}
	for handle, name := range map[*wholedump.Handle]string{s.Handle: link, h.Handle: "eth0"} {
		l, err := handle.LinkByName(name)
		if err == nil {
			err = handle.LinkSetUp(l)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return h.Handle
}

func add(t testing.TB, h *wholedump.Handle, link string, a netip.Addr, bits int) {
	t.Helper()
	l, err := h.LinkByName(link)
	addr := &netlink.Addr{IPNet: linuxtest.IPNet(netip.PrefixFrom(a, bits))}
	if a.Is6() {
		addr.Flags = unix.IFA_F_NODAD
	}
	if err == nil {
		err = h.AddrAdd(l, addr)
	}
	if err != nil {
		t.Fatalf("add %s to %s: %v", a, link, err)
	}
}

func route(t testing.TB, h *wholedump.Handle, link string, dst netip.Prefix, via netip.Addr) {
	t.Helper()
	l, err := h.LinkByName(link)
	if err == nil {
		r := &netlink.Route{LinkIndex: l.Attrs().Index, Dst: linuxtest.IPNet(dst), Gw: via.AsSlice()}
		if via.IsValid() {
			r.Flags = int(netlink.FLAG_ONLINK)
		}
		err = h.RouteAdd(r)
	}
	if err != nil {
		t.Fatalf("add route to %s: %v", dst, err)
	}
}

// listen receives at an address of a place.
func (s *scene) listen(t testing.TB, place string, at netip.AddrPort) *net.UDPConn {
	t.Helper()
	var c *net.UDPConn
	err := s.places[place].Do(func() (err error) {
		if at.Addr().IsMulticast() {
			var eth0 *net.Interface
			eth0, err = net.InterfaceByName("eth0")
			if err != nil {
				return err
			}
			c, err = net.ListenMulticastUDP("udp", eth0, net.UDPAddrFromAddrPort(at))
			return err
		}
		c, err = net.ListenUDP("udp", net.UDPAddrFromAddrPort(at))
		return err
	})
	if err != nil {
		t.Fatalf("listen at %s: %v", at, err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// dial makes a socket at an address of a place whose packets carry a mark.
func (s *scene) dial(place string, from netip.Addr, to netip.AddrPort, mark int) (net.Conn, error) {
	d := net.Dialer{
		LocalAddr: net.UDPAddrFromAddrPort(netip.AddrPortFrom(from, 0)),
		Control: func(_, _ string, c syscall.RawConn) error {
			var err error
			return errors.Join(c.Control(func(fd uintptr) {
				if mark != 0 {
					err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_MARK, mark)
				}
				if to.Addr().IsMulticast() { // the order of the links' routes is random
					err = errors.Join(err, unix.BindToDevice(int(fd), "cni0"))
				}
			}), err)
		},
	}
	var c net.Conn
	err := s.places[place].Do(func() (err error) {
		c, err = d.DialContext(context.Background(), "udp", to.String())
		return err
	})
	return c, err
}

// sourceSeen sends a packet and returns the source that the receiver sees.
func (s *scene) sourceSeen(t testing.TB, f cidr.Family, from, to string, mark int) netip.Addr {
	t.Helper()
	at := to
	if to == "group" {
		at = "pod"
	}
	target := netip.AddrPortFrom(addresses[f][to], 5000)
	in := s.listen(t, at, target)
	out, err := s.dial(from, addresses[f][from], target, mark)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	if _, err := out.Write([]byte("who am I")); err != nil {
		t.Fatal(err)
	}
	if err := in.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	_, seen, err := in.ReadFromUDPAddrPort(make([]byte, 100))
	if err != nil {
		t.Errorf("%s to %s: %v", from, to, err)
	}
	in.Close()
	return seen.Addr().Unmap()
}

// TestPackets sends real packets with either tool: the sources must be those
// that the core predicts. The simulator uses the core's prediction.
func TestPackets(t *testing.T) {
	cases := []struct {
		from, to string
		mark     int
		seen     string
	}{
		{from: "pod", to: "remote", seen: "pod"},
		{from: "remote", to: "pod", seen: "remote"},
		{from: "pod", to: "outside", seen: "node"},
		{from: "remote", to: "outside", seen: "node"},
		{from: "node", to: "remote", seen: "overlay"},
		{from: "node", to: "pod", seen: "node"},
		{from: "outside", to: "pod", seen: "outside"},
		{from: "outside", to: "remote", seen: "overlay"},
		{from: "node", to: "outside", seen: "node"},
		{from: "node", to: "remote", mark: 0x4000, seen: "node"}, // kube-proxy's work
		{from: "node", to: "remote", mark: 0xc001, seen: "node"},
		{from: "node", to: "remote", mark: 0x8001, seen: "overlay"},
		{from: "second", to: "group", seen: "second"},
	}
	for _, m := range makings {
		t.Run(m.String(), func(t *testing.T) {
			s := newScene(t, m.variant)
			for _, f := range cidr.Families {
				if m.flavour == dataplane.IPTables { // only there can our chain override it
					s.sh(t, fill("{iptables} -P FORWARD DROP", f))
				}
				chains := wanted(t, m.flavour, f)
				s.apply(t, ops(dataplane.Create, chains)...)
				masquerade, err := chains[1].Rules.List()
				if err != nil {
					t.Fatal(err)
				}
				for _, c := range cases {
					p := dataplane.Packet{Src: addresses[f][c.from], Dst: addresses[f][c.to], Mark: uint32(c.mark)}
					if v := rules.Decide(masquerade, p); (v == dataplane.MasqueradeRandom) != (c.from != c.seen) {
						t.Errorf("%s: %s to %s, mark %#x: the core says %s", f, c.from, c.to, c.mark, v)
					}
					if got, want := s.sourceSeen(t, f, c.from, c.to, c.mark), addresses[f][c.seen]; got != want {
						t.Errorf("%s: %s to %s, mark %#x: seen %s, want %s", f, c.from, c.to, c.mark, got, want)
					}
				}
			}
		})
	}
}

// TestNoMomentWithoutRules replaces chains and switches flavours while new
// connections leave all the time: each is masqueraded, and none is lost
// (interop F3: no window without rules).
func TestNoMomentWithoutRules(t *testing.T) {
	s := newScene(t, variantNFT)
	f := cidr.V4
	for _, v := range []variant{variantNFT, variantLegacy} { // no foreign policy stands in the way
		s.sh(t, fmt.Sprintf("iptables-%s -P FORWARD ACCEPT", v))
	}
	nft, ipt := wanted(t, dataplane.NFTables, f), wanted(t, dataplane.IPTables, f)
	s.apply(t, ops(dataplane.Create, nft)...)

	stop, ended := make(chan struct{}), make(chan error, 1)
	connections := 0
	go func() {
		ended <- s.connect(t, f, stop, &connections)
	}()
	for range 3 {
		s.apply(t, ops(dataplane.Replace, nft)...)
		s.apply(t, append(ops(dataplane.Create, ipt), ops(dataplane.Delete, nft)...)...)
		s.sh(t, "iptables -t nat -D FLANNEL-POSTRTG 1")
		s.apply(t, ops(dataplane.Replace, ipt)...)
		s.apply(t, append(ops(dataplane.Create, nft), ops(dataplane.Delete, ipt)...)...)
	}
	close(stop)
	if err := <-ended; err != nil {
		t.Error(err)
	}
	s.expect(t, nft...)
	t.Logf("%d connections", connections)
}

// connect makes one connection after the other from the pod to the host
// outside. Each must arrive with the node's address.
func (s *scene) connect(t *testing.T, f cidr.Family, stop chan struct{}, count *int) error {
	target := netip.AddrPortFrom(addresses[f]["outside"], 5000)
	in := s.listen(t, "outside", target)
	for {
		select {
		case <-stop:
			return nil
		default:
		}
		out, err := s.dial("pod", addresses[f]["pod"], target, 0)
		if err != nil {
			return err
		}
		_, err = out.Write([]byte("x"))
		err = errors.Join(err, out.Close(), in.SetReadDeadline(time.Now().Add(10*time.Second)))
		if err != nil {
			return err
		}
		_, seen, err := in.ReadFromUDPAddrPort(make([]byte, 100))
		if err != nil {
			return fmt.Errorf("connection %d: lost: %w", *count, err)
		}
		if seen.Addr().Unmap() != addresses[f]["node"] {
			return fmt.Errorf("connection %d left without masquerading, as %s", *count, seen)
		}
		*count++
	}
}
