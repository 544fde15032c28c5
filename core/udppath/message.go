package udppath

import "net/netip"

// The limits of one message with UDP_SEGMENT.
const (
	MaxMessageSegments = 64
	MaxMessageBytes    = 65507 // 65535 without the headers of IPv4 and UDP
)

// Message is the shape of one message with UDP_SEGMENT: packets of one size for
// one node, which the kernel or the device cuts into datagrams again. The zero
// value is an empty one.
type Message struct {
	To    netip.Addr
	Size  int // of each packet but the last, which may be shorter
	Count int
	Bytes int
}

// Add takes a packet into the message and reports whether it fits. If it does
// not, the message is complete, and the packet begins the next one.
func (m *Message) Add(to netip.Addr, size int) bool {
	if m.Count == 0 {
		*m = Message{To: to, Size: size, Count: 1, Bytes: size}
		return true
	}
	ended := m.Bytes < m.Count*m.Size
	if ended || size > m.Size || to != m.To || m.Count == MaxMessageSegments || m.Bytes+size > MaxMessageBytes {
		return false
	}
	m.Count++
	m.Bytes += size
	return true
}
