package lang

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"strconv"

	"github.com/cockroachdb/datadriven"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/dataplane"
)

// forgedDevice is the device to which forge sends.
const forgedDevice = "flannel.1"

// forge performs "forge n4 n1 n2 port=7000": n4 sends n1 a VXLAN packet that claims to come from a pod of n2. Inside is
// a datagram to that port of n1's device.
func (s *Session) forge(d *datadriven.TestData) (string, error) {
	a := newArgs(d)
	from := a.word("sender")
	to := a.word("victim")
	as := a.word("node that it claims to be")
	port := 0
	a.integer("port", &port)
	if err := a.done(); err != nil {
		return "", err
	}
	sender, err := s.world.Node(from)
	if err != nil {
		return "", err
	}
	victim, err := s.world.Node(to)
	if err != nil {
		return "", err
	}
	index, _, err := s.indexes(to, from)
	if err != nil {
		return "", err
	}
	claimed, err := s.recordOf(as)
	if err != nil {
		return "", err
	}
	c, _ := claimed.lease()
	ports, err := able[PortUser](s, sender)
	if err != nil {
		return "", err
	}
	k, err := able[Kernel](s, victim)
	if err != nil {
		return "", err
	}
	extent, err := s.extent()
	if err != nil {
		return "", err
	}
	extent.Links = append(extent.Links, forgedDevice)
	state, err := k.State(extent)
	if err != nil {
		return "", err
	}
	packet, err := forgedPacket(state, c.Key.V4.Addr().Next().Next(), uint16(port))
	if err != nil {
		return "", fmt.Errorf("%s: %w", to, err)
	}
	return "", ports.SendUDP(netip.AddrPortFrom(s.address(index, cidr.V4), packet.port), packet.body)
}

// vxlanPacket is a VXLAN packet, and the port to which it goes.
type vxlanPacket struct {
	port uint16
	body []byte
}

// forgedPacket returns one for the device of a host, with a source address inside.
func forgedPacket(state *dataplane.State, src netip.Addr, port uint16) (vxlanPacket, error) {
	device := state.Links[forgedDevice]
	params, ok := device.Params.(dataplane.VXLAN)
	if !ok {
		return vxlanPacket{}, fmt.Errorf("there is no vxlan device %s", forgedDevice)
	}
	var dst netip.Addr
	for key := range state.Addrs {
		if key.Link == forgedDevice && key.Prefix.Addr().Is4() {
			dst = key.Prefix.Addr()
		}
	}
	if !dst.IsValid() {
		return vxlanPacket{}, fmt.Errorf("%s has no IPv4 address", forgedDevice)
	}
	frame := append([]byte{}, device.MAC[:]...)
	frame = append(frame, 2, 0, 0, 0, 0, 9, 8, 0)
	datagram := bareUDP(port)
	packet := bareIPv4(src, dst)
	binary.BigEndian.PutUint16(packet[2:], uint16(len(packet)+len(datagram)))
	packet[9] = dataplane.ProtoUDP
	sumIPv4(packet)
	body := binary.BigEndian.AppendUint32([]byte{8, 0, 0, 0}, params.VNI<<8)
	return vxlanPacket{params.Port, append(append(append(body, frame...), packet...), datagram...)}, nil
}

// bareUDP returns a datagram without a payload and without a checksum.
func bareUDP(port uint16) []byte {
	b := binary.BigEndian.AppendUint16(nil, 4000)
	return append(binary.BigEndian.AppendUint16(b, port), 0, 8, 0, 0)
}

// received performs "received n1 7000". It prints how many datagrams came to a port that another program holds.
func (s *Session) received(d *datadriven.TestData) (string, error) {
	a := newArgs(d)
	name, text := a.word("node"), a.word("port")
	if err := a.done(); err != nil {
		return "", err
	}
	port, err := strconv.ParseUint(text, 10, 16)
	if err != nil {
		return "", fmt.Errorf("received %s: want a number from 1 to 65535", text)
	}
	n, err := s.world.Node(name)
	if err != nil {
		return "", err
	}
	ports, err := able[PortUser](s, n)
	if err != nil {
		return "", err
	}
	count, err := ports.Received(uint16(port))
	return fmt.Sprint(count), err
}
