package harness

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// Sniffed counts the packets that nodes sent over their uplinks.
type Sniffed struct {
	Clear int // from and to addresses within the network, without encryption: in no tunnel, VXLAN, udp or IPIP
	ESP   int // also in UDP
}

// sniffWait is the longest time that a socket waits for a packet, and so the longest
// delay of stop.
const sniffWait = 100 * time.Millisecond

// Sniff counts the packets that nodes send over their uplinks until stop is called.
func (l *Lab) Sniff(network netip.Prefix) (stop func() (Sniffed, error), err error) {
	s := &sniffer{network: network}
	for _, n := range l.Nodes {
		fd, err := n.openSniffer()
		if err != nil {
			_, closing := s.stop()
			return nil, errors.Join(fmt.Errorf("node %s: watch eth0: %w", n.Name, err), closing)
		}
		s.fds = append(s.fds, fd)
		s.readers.Add(1)
		go s.read(fd)
	}
	return s.stop, nil
}

// openSniffer returns a socket that sees all packets of the node's uplink.
func (n *Node) openSniffer() (fd int, err error) {
	link, err := n.nl.LinkByName("eth0")
	if err != nil {
		return -1, err
	}
	err = n.Do(func() error {
		all := bigEndian(unix.ETH_P_ALL)
		fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, int(all))
		if err != nil {
			return err
		}
		wait := unix.NsecToTimeval(int64(sniffWait))
		return errors.Join(
			unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &wait),
			unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: all, Ifindex: link.Attrs().Index}),
		)
	})
	return fd, err
}

// sniffer is a running Sniff.
type sniffer struct {
	network    netip.Prefix
	fds        []int
	readers    sync.WaitGroup
	done       atomic.Bool
	clear, esp atomic.Int64
}

func (s *sniffer) stop() (Sniffed, error) {
	s.done.Store(true)
	s.readers.Wait()
	var errs []error
	for _, fd := range s.fds {
		errs = append(errs, unix.Close(fd))
	}
	return Sniffed{Clear: int(s.clear.Load()), ESP: int(s.esp.Load())}, errors.Join(errs...)
}

// read counts the packets of a socket until the sniffer stops.
func (s *sniffer) read(fd int) {
	defer s.readers.Done()
	packet := make([]byte, 1<<16)
	for !s.done.Load() {
		size, from, err := unix.Recvfrom(fd, packet, 0)
		ll, ok := from.(*unix.SockaddrLinklayer)
		if err == nil && ok && ll.Pkttype == unix.PACKET_OUTGOING {
			s.count(packet[:size])
		}
	}
}

// espPort carries packets of ESP (RFC 4303, RFC 3948): IKE over the same port begins with four zero bytes.
const espPort = 4500

func (s *sniffer) count(ip []byte) {
	if len(ip) < 20 || ip[0]>>4 != 4 {
		return
	}
	src, dst := netip.AddrFrom4([4]byte(ip[12:16])), netip.AddrFrom4([4]byte(ip[16:20]))
	payload := ip[min(int(ip[0]&15)*4, len(ip)):]
	inUDP := ip[9] == unix.IPPROTO_UDP && len(payload) >= udpLength+4 &&
		binary.BigEndian.Uint16(payload[2:]) == espPort && binary.BigEndian.Uint32(payload[udpLength:]) != 0
	switch {
	case ip[9] == unix.IPPROTO_ESP || inUDP:
		s.esp.Add(1)
	case s.network.Contains(src) && s.network.Contains(dst), s.readable(ip[9], payload):
		s.clear.Add(1)
	}
}

// vxlanAndEthernet is the length of the headers between those of UDP and of the packet in VXLAN, in bytes.
const vxlanAndEthernet = 8 + 14

// readable reports whether the payload of a packet is another one between addresses of the network, in VXLAN, in a
// datagram of the udp backend or in IPIP.
func (s *sniffer) readable(proto byte, payload []byte) bool {
	if proto == unix.IPPROTO_IPIP {
		return s.isInner(payload)
	}
	if proto != unix.IPPROTO_UDP || len(payload) < udpLength {
		return false
	}
	body := payload[udpLength:]
	vxlan := len(body) > vxlanAndEthernet && body[0] == 0x08 && s.isInner(body[vxlanAndEthernet:])
	return vxlan || s.isInner(body)
}

// isInner reports whether a text is an IPv4 packet between two addresses of the network.
func (s *sniffer) isInner(ip []byte) bool {
	if len(ip) < 20 || ip[0] != 0x45 {
		return false
	}
	src, dst := netip.AddrFrom4([4]byte(ip[12:16])), netip.AddrFrom4([4]byte(ip[16:20]))
	return s.network.Contains(src) && s.network.Contains(dst)
}
