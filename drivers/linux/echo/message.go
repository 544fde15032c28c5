package echo

import (
	"encoding/binary"

	"golang.org/x/sys/unix"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/probe"
)

// The types of ICMP messages by family (RFC 792, RFC 4443).
var (
	echoRequest = [2]uint8{cidr.V4: 8, cidr.V6: 128}
	echoReply   = [2]uint8{cidr.V4: 0, cidr.V6: 129}
)

// Sizes in bytes.
const (
	icmpHeader = 8
	maxHeader  = 60 // of IPv4
)

// headers holds the size of the headers before the data of an echo, by family.
var headers = [2]int{cidr.V4: 20 + icmpHeader, cidr.V6: 40 + icmpHeader}

// nonce distinguishes an echo from all others.
type nonce [8]byte

// message is an echo request. Its data is probe.Magic or probe.HostMagic, a nonce by which
// the sender recognises the reply, and zeros.
type message struct {
	nonce nonce
	host  bool // probe.HostMagic
	data  int  // size of the data
}

// magic returns the beginning of the data.
func (m message) magic() string {
	if m.host {
		return probe.HostMagic
	}
	return probe.Magic
}

// newMessage returns a message for an IP packet of that size, or of the smallest one
// that holds magic and nonce.
func newMessage(f cidr.Family, size int) message {
	return message{data: max(size-headers[f], len(probe.Magic)+8)}
}

// bytes returns the message without an IP header. The kernel adds the checksum of
// ICMPv6, which covers that header.
func (m message) bytes(f cidr.Family) []byte {
	b := make([]byte, icmpHeader+m.data)
	b[0] = echoRequest[f]
	copy(b[4:8], m.nonce[:]) // identifier and sequence number
	copy(b[icmpHeader:], m.magic())
	copy(b[icmpHeader+len(probe.Magic):], m.nonce[:])
	if f == cidr.V4 {
		binary.BigEndian.PutUint16(b[2:], checksum(b))
	}
	return b
}

// checksum is the Internet checksum (RFC 1071) of a message whose own field is zero.
func checksum(b []byte) uint16 {
	var sum uint32
	for i := 0; i+1 < len(b); i += 2 {
		sum += uint32(binary.BigEndian.Uint16(b[i:]))
	}
	if len(b)%2 == 1 {
		sum += uint32(b[len(b)-1]) << 8
	}
	for sum>>16 != 0 {
		sum = sum&0xffff + sum>>16
	}
	return ^uint16(sum)
}

// parse reads a packet from a raw socket: for IPv4 with the IP header. It returns false
// unless the packet is an echo of a probe. Any host may have sent it.
func parse(f cidr.Family, b []byte) (kind uint8, m message, ok bool) {
	if f == cidr.V4 {
		if len(b) == 0 || int(b[0]&0xf)*4 > len(b) {
			return 0, m, false
		}
		b = b[int(b[0]&0xf)*4:]
	}
	const magicEnd = icmpHeader + len(probe.Magic)
	if len(b) < magicEnd+len(m.nonce) {
		return 0, m, false
	}
	m.host = string(b[icmpHeader:magicEnd]) == probe.HostMagic
	if string(b[icmpHeader:magicEnd]) != m.magic() {
		return 0, m, false
	}
	m.nonce, m.data = nonce(b[magicEnd:]), len(b)-icmpHeader
	return b[0], m, b[0] == echoRequest[f] || b[0] == echoReply[f]
}

// filter is a program for the kernel that passes ICMP messages of some types whose data
// begins like probe.Magic. Other programs' pings then wake no goroutine.
func filter(f cidr.Family, kinds ...uint8) []unix.SockFilter {
	start := unix.SockFilter{Code: unix.BPF_LDX | unix.BPF_IMM} // IPv6: X = 0
	if f == cidr.V4 {
		start = unix.SockFilter{Code: unix.BPF_LDX | unix.BPF_B | unix.BPF_MSH} // X = size of the IP header
	}
	program := []unix.SockFilter{start, {Code: unix.BPF_LD | unix.BPF_B | unix.BPF_IND}}
	for i, kind := range kinds {
		further := uint8(len(kinds) - 1 - i)
		test := unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: uint32(kind), Jt: further}
		if further == 0 {
			test.Jf = 3
		}
		program = append(program, test)
	}
	magic := binary.BigEndian.Uint32([]byte(probe.Magic))
	return append(program,
		unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_IND, K: icmpHeader},
		unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: magic, Jf: 1},
		unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: 1 << 16},
		unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K},
	)
}
