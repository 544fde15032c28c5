package tunnel_test

import (
	"encoding/binary"
	"net"
	"net/netip"
	"os"
	"testing"

	"github.com/flanneld/flannel/core/dataplane"
)

// upstream stands for upstream's daemon instead of one of our tiers, with all
// the traits that interop 6.1 lists: one packet a call and a datagram, buffers
// no larger than the device's MTU, every sender believed.
const upstream dataplane.Offload = "upstream"

// proxyOfUpstream carries packets between a device and a socket.
type proxyOfUpstream struct {
	device *os.File
	socket *net.UDPConn
	mtu    int
	subnet netip.Prefix // of the one peer
	peer   netip.AddrPort
}

// runUpstream carries a node's packets until the test ends.
func (n *node) runUpstream(t testing.TB, peer *node) {
	t.Helper()
	p := &proxyOfUpstream{
		device: n.openTUN(t, device), mtu: n.link().MTU, subnet: peer.subnet(), peer: netip.AddrPortFrom(peer.underlay(),
			port),
	}
	err := n.ns.Do(func() (err error) {
		p.socket, err = net.ListenUDP("udp4", net.UDPAddrFromAddrPort(n.proxy("").Local))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{}, 2)
	go func() { p.send(); ended <- struct{}{} }()
	go func() { p.receive(); ended <- struct{}{} }()
	t.Cleanup(func() {
		p.device.Close()
		p.socket.Close()
		<-ended
		<-ended
	})
	if err := n.Settle(); err != nil { // let the kernel notice that the device has a carrier
		t.Fatal(err)
	}
}

// send and receive end when their input is closed.
func (p *proxyOfUpstream) send() {
	b := make([]byte, p.mtu)
	for {
		n, err := p.device.Read(b)
		if err != nil {
			return
		}
		if n >= 20 && p.subnet.Contains(netip.AddrFrom4([4]byte(b[16:20]))) && hop(b[:n]) {
			_, _ = p.socket.WriteToUDPAddrPort(b[:n], p.peer) // a refused packet is lost
		}
	}
}

func (p *proxyOfUpstream) receive() {
	b := make([]byte, p.mtu)
	for {
		n, err := p.socket.Read(b)
		if err != nil {
			return
		}
		if n >= 20 && hop(b[:n]) {
			_, _ = p.device.Write(b[:n])
		}
	}
}

// hop lowers the TTL and reports whether any is left.
func hop(ip []byte) bool {
	if ip[8] <= 1 {
		return false
	}
	ip[8]--
	sum := uint32(binary.BigEndian.Uint16(ip[10:])) + 0x100
	binary.BigEndian.PutUint16(ip[10:], uint16(sum+sum>>16))
	return true
}
