package lang

import (
	"encoding/binary"
	"fmt"
	"net/netip"

	"github.com/cockroachdb/datadriven"

	"github.com/flanneld/flannel/core/backend/udp"
	"github.com/flanneld/flannel/core/cidr"
)

// spoof performs "spoof n3 n1 n2": n3 sends n1 a packet of the udp backend that
// claims to come from n2's subnet.
func (s *Session) spoof(d *datadriven.TestData) (string, error) {
	a := newArgs(d)
	from := a.word("sender")
	to := a.word("victim")
	as := a.word("node that it claims to be")
	if err := a.done(); err != nil {
		return "", err
	}
	n, err := s.world.Node(from)
	if err != nil {
		return "", err
	}
	index, _, err := s.indexes(to, from)
	if err != nil {
		return "", err
	}
	victim, err := s.recordOf(to)
	if err != nil {
		return "", err
	}
	claimed, err := s.recordOf(as)
	if err != nil {
		return "", err
	}
	v, _ := victim.lease()
	c, _ := claimed.lease()
	ports, err := able[PortUser](s, n)
	if err != nil {
		return "", err
	}
	at := netip.AddrPortFrom(s.address(index, cidr.V4), udp.DefaultPort)
	return "", ports.SendUDP(at, bareIPv4(c.Key.V4.Addr().Next().Next(), v.Key.V4.Addr().Next().Next()))
}

// bareIPv4 returns a packet without a payload.
func bareIPv4(src, dst netip.Addr) []byte {
	b := make([]byte, 20)
	b[0] = 0x45
	b[3] = 20
	b[8] = 64
	b[9] = 253
	copy(b[12:], src.AsSlice())
	copy(b[16:], dst.AsSlice())
	sumIPv4(b)
	return b
}

// sumIPv4 sets the checksum of a header.
func sumIPv4(b []byte) {
	b[10], b[11] = 0, 0
	sum := uint32(0)
	for i := 0; i < 20; i += 2 {
		sum += uint32(binary.BigEndian.Uint16(b[i:]))
	}
	binary.BigEndian.PutUint16(b[10:], ^uint16(sum+sum>>16))
}

// drops performs "drops n1 spoofed". It prints how many packets n1's packet path
// dropped for that reason, by the daemon's last reading.
func (s *Session) drops(d *datadriven.TestData) (string, error) {
	a := newArgs(d)
	name, reason := a.word("node"), a.word("reason")
	if err := a.done(); err != nil {
		return "", err
	}
	n, err := s.world.Node(name)
	if err != nil {
		return "", err
	}
	status, err := n.Status()
	if err != nil {
		return "", err
	}
	if len(status.PacketPaths) == 0 {
		return "", fmt.Errorf("%s carries no packets itself", name)
	}
	return fmt.Sprint(status.PacketPaths[0].Drops[reason]), nil
}
