package harness

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// Sighting is an echo, or the answer to it, on a device.
type Sighting struct {
	At     time.Time
	Host   string
	Device string
	Out    bool   // sent, not received
	Other  bool   // received, with another host's MAC
	Answer string // "": the request itself; "reply", or "error" that quotes the request
	Frame  string // source and destination, from the outermost header inwards

	packet packet
}

// tap sees every frame on every device of the lab, from its creation on.
type tap struct {
	hosts  []*Host
	fds    []int // of each host
	stamps []int // as long as they are open, the kernel notes times
	seen   []Sighting
	key    []byte // the first bytes of the packet's data
}

// newTap listens for the echo with that key. The caller closes it.
func (l *Lab) newTap(key echoKey) (*tap, error) {
	t := &tap{key: key.sign(make([]byte, keyLength))}
	if err := l.Router.Do(t.awaitStamps); err != nil {
		return nil, errors.Join(err, t.close())
	}
	for _, h := range l.hosts {
		if l.Store != nil && h == l.Store.Host {
			continue
		}
		err := h.Do(func() error {
			fd, err := stampedSocket(unix.AF_PACKET, unix.SOCK_RAW, int(bigEndian(unix.ETH_P_ALL)))
			if err == nil {
				t.hosts, t.fds = append(t.hosts, h), append(t.fds, fd)
			}
			return err
		})
		if err != nil {
			return nil, errors.Join(fmt.Errorf("listen on all devices of %s: %w", h.Name, err), t.close())
		}
	}
	return t, nil
}

// stampedSocket returns a socket that reports when the kernel saw a packet.
func stampedSocket(domain, kind, protocol int) (int, error) {
	fd, err := unix.Socket(domain, kind|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, protocol)
	if err != nil {
		return 0, fmt.Errorf("open a socket: %w", err)
	}
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TIMESTAMPNS, 1); err != nil {
		return 0, errors.Join(fmt.Errorf("ask for times: %w", err), unix.Close(fd))
	}
	return fd, nil
}

// stampsWithin bounds the time until the kernel notes times. A worker of its own switches that on, which
// waits for the CPU as others do.
const stampsWithin = time.Minute

// awaitStamps returns once the kernel notes the time of every packet. It begins
// to do so a while after a socket has asked for it; until then a packet gets
// the time at which it is read, which says nothing about the order.
func (t *tap) awaitStamps() error {
	fd, err := stampedSocket(unix.AF_INET, unix.SOCK_DGRAM, 0)
	if err != nil {
		return err
	}
	t.stamps = append(t.stamps, fd)
	if err := unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		return fmt.Errorf("listen on the loopback device: %w", err)
	}
	self, err := unix.Getsockname(fd)
	if err != nil {
		return fmt.Errorf("listen on the loopback device: %w", err)
	}
	control := make([]byte, 128)
	for end := time.Now().Add(stampsWithin); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if err := unix.Sendto(fd, []byte{0}, 0, self); err != nil {
			return fmt.Errorf("send on the loopback device: %w", err)
		}
		sent := time.Now()
		_, n, _, _, err := unix.Recvmsg(fd, make([]byte, 1), control, 0)
		if err == nil && stamp(control[:n]).Before(sent) {
			return nil
		}
	}
	return errors.New("the kernel does not report when it saw a packet")
}

func bigEndian(v uint16) uint16 {
	return binary.NativeEndian.Uint16(binary.BigEndian.AppendUint16(nil, v))
}

func (t *tap) close() error {
	var errs []error
	for _, fd := range slices.Concat(t.fds, t.stamps) {
		errs = append(errs, unix.Close(fd))
	}
	return errors.Join(errs...)
}

// sightings returns the sightings so far, in the order of time.
func (t *tap) sightings() []Sighting {
	for i, fd := range t.fds {
		t.drain(t.hosts[i], fd)
	}
	slices.SortStableFunc(t.seen, func(a, b Sighting) int { return a.At.Compare(b.At) })
	return slices.Clone(t.seen)
}

// drain reads the packets waiting in a host's socket.
func (t *tap) drain(h *Host, fd int) {
	frame, control := make([]byte, 1<<16), make([]byte, 128)
	names := map[int]string{}
	for {
		n, cn, _, from, err := unix.Recvmsg(fd, frame, control, 0)
		ll, ok := from.(*unix.SockaddrLinklayer)
		if err != nil || !ok {
			return // all is read, or the lab is ending
		}
		at := bytes.Index(frame[:n], t.key)
		if at < 0 || ll.Hatype == unix.ARPHRD_LOOPBACK {
			continue
		}
		name, ok := names[ll.Ifindex]
		if !ok {
			name = h.deviceName(ll.Ifindex)
			names[ll.Ifindex] = name
		}
		if name == "" {
			continue
		}
		p := readPacket(frame[:n], ll.Hatype == unix.ARPHRD_ETHER, at)
		t.seen = append(t.seen, Sighting{At: stamp(control[:cn]), Host: h.Name, Device: name,
			Out: ll.Pkttype == unix.PACKET_OUTGOING, Other: ll.Pkttype == unix.PACKET_OTHERHOST && !h.switches(),
			Answer: p.answer, Frame: p.String(), packet: p})
	}
}

// deviceName is empty for a port of a node's bridge: the bridge sees the same
// packets.
func (h *Host) deviceName(index int) string {
	l, err := h.nl.LinkByIndex(index)
	switch {
	case err != nil:
		return fmt.Sprintf("device %d, which is gone", index)
	case l.Attrs().MasterIndex != 0 && !h.switches(), l.Type() == "bridge" && h.switches():
		return ""
	}
	return l.Attrs().Name
}

// switches reports whether a host is a segment, which has a port for each host.
func (h *Host) switches() bool {
	return slices.ContainsFunc(h.lab.segments, func(s *segment) bool { return s.sw == h })
}

// stamp returns the time at which the kernel saw the packet.
func stamp(control []byte) time.Time {
	messages, err := unix.ParseSocketControlMessage(control)
	if err != nil {
		return time.Time{}
	}
	for _, m := range messages {
		if m.Header.Level == unix.SOL_SOCKET && m.Header.Type == unix.SCM_TIMESTAMPNS && len(m.Data) >= 16 {
			return time.Unix(int64(binary.NativeEndian.Uint64(m.Data)), int64(binary.NativeEndian.Uint64(m.Data[8:])))
		}
	}
	return time.Time{}
}

// packet describes an echo on a device.
type packet struct {
	to       net.HardwareAddr // on devices that have MACs
	inner    net.HardwareAddr // of the frame inside a tunnel packet
	src, dst netip.Addr       // as seen on the device
	port     uint16           // UDP destination port; 0: not inside UDP
	vni      uint32
	size     int // of the IP packet
	answer   string
}

func (p packet) String() string {
	s := fmt.Sprintf("%s to %s", p.src, p.dst)
	if p.port != 0 {
		s = fmt.Sprintf("within UDP from %s to %s port %d", p.src, p.dst, p.port)
	}
	if p.to != nil {
		s += ", MAC " + p.to.String()
	}
	return fmt.Sprintf("%s, %d bytes", s, p.size)
}

const (
	etherLength = 14
	udpLength   = 8
	vxlanLength = 8
)

// readPacket reads a frame whose echo has its data at that offset.
func readPacket(frame []byte, ether bool, data int) packet {
	var p packet
	ip := frame
	if ether && len(frame) > etherLength {
		p.to, ip = slices.Clone(frame[:6]), frame[etherLength:]
	}
	header, protocol := 20, byte(0)
	switch {
	case len(ip) > 20 && ip[0]>>4 == 4:
		p.src, _ = netip.AddrFromSlice(ip[12:16])
		p.dst, _ = netip.AddrFromSlice(ip[16:20])
		header = int(ip[0]&15) * 4
		protocol = ip[9]
		p.size = int(binary.BigEndian.Uint16(ip[2:]))
	case len(ip) > 40 && ip[0]>>4 == 6:
		p.src, _ = netip.AddrFromSlice(ip[8:24])
		p.dst, _ = netip.AddrFromSlice(ip[24:40])
		header = 40
		protocol = ip[6]
		p.size = 40 + int(binary.BigEndian.Uint16(ip[4:]))
	}
	p.answer = answerOf(protocol, ip[min(header, len(ip)):], frame, data)
	if udp := ip[min(header, len(ip)):]; protocol == unix.IPPROTO_UDP && len(udp) > udpLength+vxlanLength+etherLength {
		p.port = binary.BigEndian.Uint16(udp[2:])
		p.vni = binary.BigEndian.Uint32(udp[udpLength+4:]) >> 8
		p.inner = slices.Clone(udp[udpLength+vxlanLength : udpLength+vxlanLength+6])
		if inner := udp[udpLength+vxlanLength+etherLength:]; len(inner) > 40+echoHeader && p.answer == "" {
			length := map[byte]int{4: 20, 6: 40}[inner[0]>>4]
			p.answer = answerOf(map[byte]byte{4: inner[9], 6: inner[6]}[inner[0]>>4], inner[length:], frame, data)
		}
	}
	return p
}

// answerOf distinguishes a request from the answers to it: an error quotes the
// whole packet, as it was on the device that could not send it on.
func answerOf(protocol byte, message, frame []byte, data int) string {
	if len(message) >= echoHeader {
		unreachable := protocol == unix.IPPROTO_ICMP && (message[0] == 3 || message[0] == 11)
		if unreachable || protocol == unix.IPPROTO_ICMPV6 && message[0] < 128 {
			return "error"
		}
	}
	if kind := frame[max(data-echoHeader, 0)]; kind == 0 || kind == 129 {
		return "reply"
	}
	return ""
}
