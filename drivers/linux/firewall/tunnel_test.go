package firewall

import (
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/config"
	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/driver"
	rules "github.com/flanneld/flannel/core/firewall"
	"github.com/flanneld/flannel/core/lease"
	"github.com/flanneld/flannel/drivers/linux/linuxtest"
)

// inside is the address of the vxlan device, to which the frames of a forger go.
const inside = "10.5.77.0"

// tunnel gives the node a vxlan device for packets of a family, and returns its MAC.
func (s *scene) tunnel(t *testing.T, f cidr.Family) net.HardwareAddr {
	t.Helper()
	attrs := netlink.NewLinkAttrs()
	attrs.Name = "vxlan0"
	device := &netlink.Vxlan{LinkAttrs: attrs, VxlanId: 1, Port: 8472, SrcAddr: addresses[f]["node"].AsSlice()}
	if err := s.LinkAdd(device); err != nil {
		t.Fatal(err)
	}
	l, err := s.LinkByName(attrs.Name)
	if err == nil {
		err = s.LinkSetUp(l)
	}
	if err == nil {
		err = s.AddrAdd(l, &netlink.Addr{IPNet: linuxtest.IPNet(netip.PrefixFrom(ip(inside), 32))})
	}
	if err != nil {
		t.Fatal(err)
	}
	return l.Attrs().HardwareAddr
}

// forged returns a VXLAN packet whose frame claims to be from a pod of another node.
func forged(mac net.HardwareAddr, port uint16, text string) []byte {
	datagram := binary.BigEndian.AppendUint16(nil, 4000)
	datagram = binary.BigEndian.AppendUint16(datagram, port)
	datagram = binary.BigEndian.AppendUint16(datagram, uint16(8+len(text)))
	datagram = append(append(datagram, 0, 0), text...) // IPv4 allows UDP without a checksum
	packet := []byte{0x45, 0, 0, byte(20 + len(datagram)), 0, 0, 0, 0, 64, dataplane.ProtoUDP, 0, 0}
	packet = append(append(packet, 10, 5, 2, 2), ip(inside).AsSlice()...)
	sum := uint32(0)
	for i := 0; i < len(packet); i += 2 {
		sum += uint32(binary.BigEndian.Uint16(packet[i:]))
	}
	binary.BigEndian.PutUint16(packet[10:], ^uint16(sum+sum>>16))
	frame := append(append([]byte{}, mac...), 2, 0, 0, 0, 0, 9, 8, 0)
	return append(append(append([]byte{8, 0, 0, 0, 0, 0, 1, 0}, frame...), packet...), datagram...)
}

// TestForgedFrames: a host that a guard does not admit sends frames to the node's vxlan device, with the address of
// a pod inside. Without the guard they arrive; with it none does, while those of an admitted host still do.
func TestForgedFrames(t *testing.T) {
	eachScene(t, func(t *testing.T, s *scene, m making, f cidr.Family) {
		mac := s.tunnel(t, f)
		const port = 7000
		in := s.listen(t, "node", netip.AddrPortFrom(ip(inside), port))
		send := func(text string) {
			t.Helper()
			to := netip.AddrPortFrom(addresses[f]["node"], 8472)
			out, err := s.dial("outside", addresses[f]["outside"], to, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer out.Close()
			if _, err := out.Write(forged(mac, port, text)); err != nil {
				t.Fatal(err)
			}
		}
		wantNext := func(want string) {
			t.Helper()
			if err := in.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
				t.Fatal(err)
			}
			b := make([]byte, 100)
			n, from, err := in.ReadFromUDPAddrPort(b)
			if err != nil || string(b[:n]) != want || from.Addr().Unmap() != ip("10.5.2.2") {
				t.Errorf("received %q from %s, error %v; want %q", b[:n], from, err, want)
			}
		}
		guard := func(from netip.Addr) {
			s.apply(t, dataplane.Op{Verb: dataplane.Replace, Object: guardChain(m.flavour, f, from)})
		}
		send("without a guard")
		wantNext("without a guard")
		guard(addresses[f]["remote"])
		send("with a guard")
		guard(addresses[f]["outside"])
		send("admitted")
		wantNext("admitted") // and not the one before
	})
}

// guardChain returns the chain that admits VXLAN packets of some hosts.
func guardChain(flavour dataplane.Flavour, f cidr.Family, from ...netip.Addr) dataplane.Chain {
	tool := driver.Tools{IPTables: driver.Tool{Usable: true}, NFTables: driver.Tool{Usable: true}}
	network := netip.MustParsePrefix(fill("{net}", f))
	options := rules.Options{}
	options.Guards[f] = []rules.Guard{{Proto: dataplane.ProtoUDP, Port: 8472, From: from}}
	w := rules.Render(options, config.Network{
		V4: config.Range{Network: network}, V6: config.Range{Network: network}, EnableNFTables: flavour == dataplane.NFTables,
	}, lease.Key{V4: network, V6: network}, driver.FirewallFacts{Tools: [2]driver.Tools{tool, tool}})
	return w.Chains.Chains[dataplane.ChainKey{Flavour: flavour, Family: f, Hook: dataplane.Input}]
}

// eachScene runs a test in a fresh scene for each way and family.
func eachScene(t *testing.T, test func(t *testing.T, s *scene, m making, f cidr.Family)) {
	for _, m := range makings {
		for _, f := range cidr.Families {
			t.Run(fmt.Sprintf("%s/%s", m, f), func(t *testing.T) { test(t, newScene(t, m.variant), m, f) })
		}
	}
}
