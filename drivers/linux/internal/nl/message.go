package nl

import (
	"encoding/binary"
	"iter"
	"net/netip"

	"golang.org/x/sys/unix"

	"github.com/flanneld/flannel/core/cidr"
)

// Native is the byte order of the kernel's numbers, except those of nfnetlink.
var Native = binary.NativeEndian

const (
	headerLen = unix.NLMSG_HDRLEN
	attrLen   = unix.SizeofNlAttr
	typeMask  = ^uint16(unix.NLA_F_NESTED | unix.NLA_F_NET_BYTEORDER)
)

// Encoder writes netlink messages one after the other.
type Encoder struct {
	buf   []byte
	start int // of the message being written
}

// Bytes returns the messages. They are valid until the next one is begun.
func (e *Encoder) Bytes() []byte { return e.buf }

// Begin starts a message with that number. End fills in its length.
func (e *Encoder) Begin(kind, flags uint16, seq uint32) {
	e.start = len(e.buf)
	e.U32(0)
	e.U16(kind)
	e.U16(flags | unix.NLM_F_REQUEST)
	e.U32(seq)
	e.U32(0)
}

// End finishes the message that was begun last.
func (e *Encoder) End() {
	Native.PutUint32(e.buf[e.start:], uint32(len(e.buf)-e.start))
}

// U8 appends bytes to the message.
func (e *Encoder) U8(v ...byte) { e.buf = append(e.buf, v...) }

// U16 appends a number in the host's byte order.
func (e *Encoder) U16(v uint16) { e.buf = Native.AppendUint16(e.buf, v) }

// U32 appends a number in the host's byte order.
func (e *Encoder) U32(v uint32) { e.buf = Native.AppendUint32(e.buf, v) }

func (e *Encoder) reset() { e.buf = e.buf[:0] }

// wantAck asks for an acknowledgement of the message that was begun last.
func (e *Encoder) wantAck() {
	flags := e.buf[e.start+6:]
	Native.PutUint16(flags, Native.Uint16(flags)|unix.NLM_F_ACK)
}

// Attr adds an attribute, padded to four bytes.
func (e *Encoder) Attr(kind uint16, value []byte) {
	e.U16(uint16(attrLen + len(value)))
	e.U16(kind)
	e.buf = append(e.buf, value...)
	for len(e.buf)%4 != 0 {
		e.buf = append(e.buf, 0)
	}
}

// AttrU32 adds an attribute with a number in the host's byte order.
func (e *Encoder) AttrU32(kind uint16, v uint32) {
	e.U16(attrLen + 4)
	e.U16(kind)
	e.U32(v)
}

// AttrFlag adds an attribute with the byte 1 or 0.
func (e *Encoder) AttrFlag(kind uint16, on bool) {
	var v [1]byte
	if on {
		v[0] = 1
	}
	e.Attr(kind, v[:])
}

// AttrString adds an attribute with a string and its terminator.
func (e *Encoder) AttrString(kind uint16, s string) { e.Attr(kind, append([]byte(s), 0)) }

// AttrAddr adds an attribute with an IP address.
func (e *Encoder) AttrAddr(kind uint16, a netip.Addr) {
	if a.Is4() {
		b := a.As4()
		e.Attr(kind, b[:])
		return
	}
	b := a.As16()
	e.Attr(kind, b[:])
}

// Nest opens an attribute that holds others. Unnest closes it, given the
// returned offset.
func (e *Encoder) Nest(kind uint16) int {
	at := len(e.buf)
	e.U16(0)
	e.U16(kind | unix.NLA_F_NESTED)
	return at
}

// Unnest closes the attribute that Nest opened at that offset.
func (e *Encoder) Unnest(at int) {
	Native.PutUint16(e.buf[at:], uint16(len(e.buf)-at))
}

// Message is one received netlink message.
type Message struct {
	Kind  uint16
	Body  []byte
	flags uint16
	seq   uint32
}

// Messages yields the messages in what one or more receives left in a buffer.
// It stops before the first incomplete one.
func Messages(b []byte) iter.Seq[Message] {
	return func(yield func(Message) bool) {
		for len(b) >= headerLen {
			n := int(Native.Uint32(b))
			if n < headerLen || n > len(b) {
				return
			}
			m := Message{
				Kind: Native.Uint16(b[4:]), flags: Native.Uint16(b[6:]),
				seq: Native.Uint32(b[8:]), Body: b[headerLen:n],
			}
			if !yield(m) {
				return
			}
			b = b[min(Align(n), len(b)):]
		}
	}
}

// Answers yields the bodies of a dump's messages of one type and address
// family. A kernel without IPv6 answers a question about it with all families.
func Answers(b []byte, kind uint16, family byte) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		for m := range Messages(b) {
			if m.Kind == kind && len(m.Body) > 0 && m.Body[0] == family && !yield(m.Body) {
				return
			}
		}
	}
}

// Attrs yields kind and value of the attributes behind a message's fixed
// header. It stops before the first incomplete one.
func Attrs(b []byte) iter.Seq2[uint16, []byte] {
	return func(yield func(uint16, []byte) bool) {
		for len(b) >= attrLen {
			n := int(Native.Uint16(b))
			if n < attrLen || n > len(b) {
				return
			}
			if !yield(Native.Uint16(b[2:])&typeMask, b[attrLen:n]) {
				return
			}
			b = b[min(Align(n), len(b)):]
		}
	}
}

// Align rounds up to the next multiple of four, where the next part begins.
func Align(n int) int { return (n + 3) &^ 3 }

// U32 returns an attribute's number in the host's byte order, 0 if it is too
// short for one.
func U32(b []byte) uint32 {
	if len(b) < 4 {
		return 0
	}
	return Native.Uint32(b)
}

// BE32 returns an attribute's number in network byte order, 0 if it is too
// short for one.
func BE32(b []byte) uint32 {
	if len(b) < 4 {
		return 0
	}
	return binary.BigEndian.Uint32(b)
}

// Text returns a string attribute without its terminator.
func Text(b []byte) string { return unix.ByteSliceToString(b) }

// Addr returns an address of either family, the zero Addr if it is neither.
func Addr(b []byte) netip.Addr {
	a, _ := netip.AddrFromSlice(b)
	return a
}

// AF returns the kernel's number of a family.
func AF(f cidr.Family) byte { return [...]byte{unix.AF_INET, unix.AF_INET6}[f] }
