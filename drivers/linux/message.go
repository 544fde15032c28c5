package linux

import (
	"encoding/binary"
	"iter"
	"net/netip"

	"golang.org/x/sys/unix"
)

var native = binary.NativeEndian

const (
	headerLen = unix.NLMSG_HDRLEN
	attrLen   = unix.SizeofNlAttr
	typeMask  = ^uint16(unix.NLA_F_NESTED | unix.NLA_F_NET_BYTEORDER)
)

// encoder writes netlink messages one behind the other.
type encoder struct {
	buf   []byte
	start int // of the message being written
}

// begin starts a message. Its length is filled in by end.
func (e *encoder) begin(kind, flags uint16, seq uint32) {
	e.start = len(e.buf)
	e.u32(0)
	e.u16(kind)
	e.u16(flags | unix.NLM_F_REQUEST)
	e.u32(seq)
	e.u32(0)
}

// end finishes the message that begin started.
func (e *encoder) end() {
	native.PutUint32(e.buf[e.start:], uint32(len(e.buf)-e.start))
}

func (e *encoder) u8(v ...byte)   { e.buf = append(e.buf, v...) }
func (e *encoder) u16(v uint16)   { e.buf = native.AppendUint16(e.buf, v) }
func (e *encoder) u32(v uint32)   { e.buf = native.AppendUint32(e.buf, v) }
func (e *encoder) reset()         { e.buf = e.buf[:0] }
func (e *encoder) lastFlags() int { return e.start + 6 }

// attr adds an attribute. Every attribute is padded to four bytes.
func (e *encoder) attr(kind uint16, value []byte) {
	e.u16(uint16(attrLen + len(value)))
	e.u16(kind)
	e.buf = append(e.buf, value...)
	for len(e.buf)%4 != 0 {
		e.buf = append(e.buf, 0)
	}
}

func (e *encoder) attrU32(kind uint16, v uint32) {
	e.u16(attrLen + 4)
	e.u16(kind)
	e.u32(v)
}

func (e *encoder) attrFlag(kind uint16, on bool) {
	var v [1]byte
	if on {
		v[0] = 1
	}
	e.attr(kind, v[:])
}

func (e *encoder) attrString(kind uint16, s string) { e.attr(kind, append([]byte(s), 0)) }

func (e *encoder) attrAddr(kind uint16, a netip.Addr) {
	if a.Is4() {
		b := a.As4()
		e.attr(kind, b[:])
		return
	}
	b := a.As16()
	e.attr(kind, b[:])
}

// nest opens an attribute that holds others; close it with the returned offset.
func (e *encoder) nest(kind uint16) int {
	at := len(e.buf)
	e.u16(0)
	e.u16(kind | unix.NLA_F_NESTED)
	return at
}

func (e *encoder) unnest(at int) {
	native.PutUint16(e.buf[at:], uint16(len(e.buf)-at))
}

// message is one received netlink message.
type message struct {
	kind  uint16
	flags uint16
	seq   uint32
	body  []byte
}

// messages walks over what one or more receives left in a buffer and stops at
// the first thing that is not a whole message.
func messages(b []byte) iter.Seq[message] {
	return func(yield func(message) bool) {
		for len(b) >= headerLen {
			n := int(native.Uint32(b))
			if n < headerLen || n > len(b) {
				return
			}
			m := message{
				kind: native.Uint16(b[4:]), flags: native.Uint16(b[6:]),
				seq: native.Uint32(b[8:]), body: b[headerLen:n],
			}
			if !yield(m) {
				return
			}
			b = b[min(align4(n), len(b)):]
		}
	}
}

// answers walks over the bodies of a dump's messages of one type and address
// family. A kernel without IPv6 answers a question about it with all families.
func answers(b []byte, kind uint16, family byte) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		for m := range messages(b) {
			if m.kind == kind && len(m.body) > 0 && m.body[0] == family && !yield(m.body) {
				return
			}
		}
	}
}

// attrs walks over the attributes behind a message's fixed header.
func attrs(b []byte) iter.Seq2[uint16, []byte] {
	return func(yield func(uint16, []byte) bool) {
		for len(b) >= attrLen {
			n := int(native.Uint16(b))
			if n < attrLen || n > len(b) {
				return
			}
			if !yield(native.Uint16(b[2:])&typeMask, b[attrLen:n]) {
				return
			}
			b = b[min(align4(n), len(b)):]
		}
	}
}

func align4(n int) int { return (n + 3) &^ 3 }

// u32 reads an attribute's value, 0 if it is too short for one.
func u32(b []byte) uint32 {
	if len(b) < 4 {
		return 0
	}
	return native.Uint32(b)
}

// text reads a string attribute without its terminator.
func text(b []byte) string {
	for i, c := range b {
		if c == 0 {
			return string(b[:i])
		}
	}
	return string(b)
}

// addr reads an address of either family, the zero Addr if it is neither.
func addr(b []byte) netip.Addr {
	a, _ := netip.AddrFromSlice(b)
	return a
}
