package tunnel_test

import (
	"net"
	"net/netip"
	"testing"

	"github.com/vishvananda/netlink"

	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/drivers/linux"
	"github.com/flanneld/flannel/drivers/linux/internal/namespace"
	"github.com/flanneld/flannel/drivers/linux/linuxtest"
)

const device, port = "flannel0", 8285

var (
	network = netip.MustParsePrefix("10.5.0.0/16")
	tiers   = []dataplane.Offload{dataplane.OffloadOff, dataplane.OffloadGSO}
)

// node is a host with the udp backend's objects on it.
type node struct {
	*linuxtest.Host
	ns  namespace.Namespace
	d   *linux.Driver
	i   int
	mtu int // of the underlay

	foreign bool // a stand-in of upstream carries its packets
}

func (n *node) underlay() netip.Addr { return netip.AddrFrom4([4]byte{192, 168, 64, byte(n.i)}) }
func (n *node) subnet() netip.Prefix {
	return netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 5, byte(n.i), 0}), 24)
}

// inner is the node's address in the tunnel.
func (n *node) inner() netip.Addr { return n.subnet().Addr() }

// needTUN skips a test where it may not make TUN devices.
func needTUN(t testing.TB) {
	t.Helper()
	if err := linuxtest.TryTUN(); err != nil {
		t.Skipf("this user cannot make TUN devices here: %v", err)
	}
}

func newNode(t testing.TB, i, mtu int) *node {
	t.Helper()
	needTUN(t)
	h := linuxtest.HostOf(t)
	n := &node{Host: h, ns: h.Keep(t), i: i, mtu: mtu}
	n.start(t)
	t.Cleanup(func() { n.stop(t) })
	return n
}

// start opens a driver, as a starting daemon does, and stop closes it.
func (n *node) start(t testing.TB) {
	t.Helper()
	d, err := linux.Open(t.Context(), n.NS, nil)
	if err != nil {
		t.Fatal(err)
	}
	n.d = d
}

func (n *node) stop(t testing.TB) {
	t.Helper()
	if n.d == nil {
		return
	}
	if err := n.d.Close(); err != nil {
		t.Errorf("close driver: %v", err)
	}
	n.d = nil
}

// uplink gives the node's end of the wire its address.
func (n *node) uplink(t testing.TB) {
	t.Helper()
	l, err := n.LinkByName("eth0")
	if err != nil {
		t.Fatal(err)
	}
	if err := n.AddrAdd(l, &netlink.Addr{IPNet: linuxtest.IPNet(netip.PrefixFrom(n.underlay(), 24))}); err != nil {
		t.Fatal(err)
	}
	if err := n.LinkSetUp(l); err != nil {
		t.Fatal(err)
	}
}

func (n *node) link() dataplane.Link {
	return dataplane.Link{Name: device, MTU: n.mtu - 28, Up: true, Params: dataplane.TUN{}}
}

func (n *node) proxy(o dataplane.Offload) dataplane.Proxy {
	return dataplane.Proxy{
		Link: device, Local: netip.AddrPortFrom(n.underlay(), port), Subnet: n.subnet(), MTU: n.mtu - 28, Offload: o,
	}
}

func (n *node) peer(of *node) dataplane.Peer {
	return dataplane.Peer{PeerKey: dataplane.PeerKey{Link: device, Subnet: of.subnet()}, To: of.underlay()}
}

func (n *node) addr() dataplane.Addr {
	return dataplane.Addr{Link: device, Prefix: netip.PrefixFrom(n.inner(), 32)}
}

func (n *node) route() dataplane.Route {
	return dataplane.Route{RouteKey: dataplane.RouteKey{Dst: network}, Link: device, Protocol: dataplane.Protocol}
}

// apply does one op on each of the objects.
func (n *node) apply(t testing.TB, verb dataplane.Verb, objects ...dataplane.Object) {
	t.Helper()
	var ops []dataplane.Op
	for _, o := range objects {
		ops = append(ops, dataplane.Op{Verb: verb, Object: o})
	}
	for _, err := range n.d.Apply(t.Context(), ops) {
		if err != nil {
			t.Fatal(err)
		}
	}
}

// refusal returns the error of one op.
func (n *node) refusal(t testing.TB, verb dataplane.Verb, o dataplane.Object) error {
	t.Helper()
	return n.d.Apply(t.Context(), []dataplane.Op{{Verb: verb, Object: o}})[0]
}

func (n *node) observe(t testing.TB) *dataplane.State {
	t.Helper()
	seen, err := n.d.Look(t.Context(), dataplane.Extent{Links: []string{device}})
	if err != nil {
		t.Fatal(err)
	}
	return seen.State
}

// carry applies the backend's objects on two nodes.
func carry(t testing.TB, a, b *node, tierA, tierB dataplane.Offload) {
	t.Helper()
	a.carry(t, tierA, b)
	b.carry(t, tierB, a)
}

func (n *node) carry(t testing.TB, tier dataplane.Offload, peer *node) {
	t.Helper()
	n.apply(t, dataplane.Create, n.link(), n.addr(), n.route())
	n.foreign = tier == upstream
	if n.foreign {
		n.runUpstream(t, peer)
		return
	}
	n.apply(t, dataplane.Create, n.proxy(tier), n.peer(peer))
}

// newPair makes two nodes with a veth wire, which carries packets that stand
// for dozens.
func newPair(t testing.TB, mtu int) (a, b *node) {
	t.Helper()
	a, b = newNode(t, 1, mtu), newNode(t, 2, mtu)
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.MTU = "eth0", mtu
	veth := &netlink.Veth{LinkAttrs: attrs, PeerName: "eth0", PeerMTU: uint32(mtu), PeerNamespace: netlink.NsFd(b.NS)}
	if err := a.LinkAdd(veth); err != nil {
		t.Fatal(err)
	}
	a.uplink(t)
	b.uplink(t)
	return a, b
}

// listen opens a TCP listener on the node's address in the tunnel.
func (n *node) listen(t testing.TB) *net.TCPListener {
	t.Helper()
	var l *net.TCPListener
	err := n.ns.Do(func() (err error) {
		l, err = net.ListenTCP("tcp4", net.TCPAddrFromAddrPort(netip.AddrPortFrom(n.inner(), 0)))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

// dial connects from the node.
func (n *node) dial(t testing.TB, to net.Addr) net.Conn {
	t.Helper()
	var c net.Conn
	err := n.ns.Do(func() (err error) {
		c, err = net.Dial(to.Network(), to.String())
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// open opens a UDP socket on the node's address in the tunnel.
func (n *node) open(t testing.TB) *net.UDPConn { t.Helper(); return n.openAt(t, 0) }

func (n *node) openAt(t testing.TB, port uint16) *net.UDPConn {
	t.Helper()
	var c *net.UDPConn
	err := n.ns.Do(func() (err error) {
		c, err = net.ListenUDP("udp4", net.UDPAddrFromAddrPort(netip.AddrPortFrom(n.inner(), port)))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}
