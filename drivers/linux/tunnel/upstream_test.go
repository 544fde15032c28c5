package tunnel_test

import (
	"net"
	"net/netip"
	"testing"

	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/drivers/linux/linuxtest"
)

// upstream stands for upstream's daemon instead of one of our tiers.
const upstream dataplane.Offload = "upstream"

// runUpstream carries a node's packets until the test ends.
func (n *node) runUpstream(t testing.TB, peer *node) {
	t.Helper()
	u := &linuxtest.Upstream{
		Device: n.openTUN(t, device), MTU: n.link().MTU,
		Peers: map[netip.Prefix]netip.AddrPort{peer.subnet(): netip.AddrPortFrom(peer.underlay(), port)},
	}
	err := n.ns.Do(func() (err error) {
		u.Socket, err = net.ListenUDP("udp4", net.UDPAddrFromAddrPort(n.proxy("").Local))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	u.Start()
	t.Cleanup(func() { u.Close() })
	if err := n.Settle(); err != nil { // let the kernel notice that the device has a carrier
		t.Fatal(err)
	}
}
