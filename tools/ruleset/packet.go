package ruleset

import (
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// Packet is the first packet of a flow, as a chain sees it.
type Packet struct {
	Src, Dst netip.Addr
	In, Out  string // devices; "" for none
	Proto    string // "tcp", "udp", "icmp", or another protocol by name; "": not known
	Port     uint16 // of the destination; 0: not known, or none
	// SrcType and DstType say whose the addresses are: "local" for this host's, "unicast" for others; "": not known.
	SrcType, DstType string
	Mark             uint32
	MarkKnown        bool
	// Untracked says that a rule keeps the packet from connection tracking.
	Untracked bool
	// Established says that the packet belongs to a connection that both sides have seen packets of.
	Established bool
}

// answer is a truth value, or that it is not known.
type answer uint8

const (
	no answer = iota
	yes
	maybe
)

func answerOf(is bool) answer {
	if is {
		return yes
	}
	return no
}

func (a answer) not() answer {
	switch a {
	case no:
		return yes
	case yes:
		return no
	}
	return maybe
}

// condition says whether a rule selects a packet.
type condition func(Packet) answer

// not returns the opposite of a condition.
func (c condition) not() condition { return func(p Packet) answer { return c(p).not() } }

// of returns the condition that does not depend on the packet: it gives the answer for p.
func (c condition) of(p Packet) condition { return answerIs(c(p) == yes) }

// unknownCondition is one that this package does not know.
func unknownCondition(Packet) answer { return maybe }

// always and never are conditions of every first packet that is routed, or of none.
func always(Packet) answer { return yes }
func never(Packet) answer  { return no }

// within returns the condition that an address lies in one of some prefixes or ranges.
func within(of func(Packet) netip.Addr, among []addrRange) condition {
	return func(p Packet) answer {
		a := of(p)
		return answerOf(slices.ContainsFunc(among, func(r addrRange) bool {
			return a.BitLen() == r.first.BitLen() && r.first.Compare(a) <= 0 && a.Compare(r.last) <= 0
		}))
	}
}

// addrRange holds the addresses from the first to the last.
type addrRange struct{ first, last netip.Addr }

// rangeOf reads an address, a prefix, or a range.
func rangeOf(text string) (addrRange, bool) {
	if from, to, is := strings.Cut(text, "-"); is {
		first, err := netip.ParseAddr(from)
		last, failed := netip.ParseAddr(to)
		return addrRange{first, last}, err == nil && failed == nil
	}
	if prefix, err := netip.ParsePrefix(text); err == nil {
		return addrRange{prefix.Masked().Addr(), lastOf(prefix)}, true
	}
	addr, err := netip.ParseAddr(text)
	return addrRange{addr, addr}, err == nil
}

// lastOf returns the last address of a prefix.
func lastOf(p netip.Prefix) netip.Addr {
	bytes := p.Addr().AsSlice()
	for bit := p.Bits(); bit < len(bytes)*8; bit++ {
		bytes[bit/8] |= 1 << (7 - bit%8)
	}
	last, _ := netip.AddrFromSlice(bytes)
	return last
}

func srcOf(p Packet) netip.Addr { return p.Src }
func dstOf(p Packet) netip.Addr { return p.Dst }

// device returns the condition that a packet comes or goes by a device, whose name may end
// with a wildcard.
func device(of func(Packet) string, name, wildcard string) condition {
	return func(p Packet) answer {
		if start, open := strings.CutSuffix(name, wildcard); open {
			return answerOf(strings.HasPrefix(of(p), start))
		}
		return answerOf(of(p) == name)
	}
}

func inOf(p Packet) string  { return p.In }
func outOf(p Packet) string { return p.Out }

// protocol returns the condition that a packet is of one of some protocols.
func protocol(names ...string) condition {
	return func(p Packet) answer {
		if p.Proto == "" {
			return maybe
		}
		return answerOf(slices.ContainsFunc(names, func(n string) bool {
			return protocolName(n) == p.Proto || n == "all" || n == "0"
		}))
	}
}

// protocolName returns the one name of a protocol that rules name in several ways.
func protocolName(name string) string {
	switch name {
	case "ipv6-icmp", "icmpv6", "58", "1":
		return "icmp"
	case "6":
		return "tcp"
	case "17":
		return "udp"
	case "4", "ipip":
		return "ipencap"
	case "50":
		return "esp"
	}
	return name
}

// ports returns the condition that a packet goes to a port between two.
func ports(ranges ...[2]uint16) condition {
	return func(p Packet) answer {
		if p.Port == 0 {
			return maybe
		}
		return answerOf(slices.ContainsFunc(ranges, func(r [2]uint16) bool { return r[0] <= p.Port && p.Port <= r[1] }))
	}
}

// inState returns the condition that the first packet of a flow has one of some states of connection tracking.
func inState(states []string) condition {
	has := func(state string) bool {
		return slices.ContainsFunc(states, func(s string) bool { return strings.EqualFold(s, state) })
	}
	return func(p Packet) answer {
		switch {
		case p.Untracked:
			return answerOf(has("untracked"))
		case p.Established:
			return answerOf(has("established"))
		}
		return answerOf(has("new"))
	}
}

// ofFirst returns the condition with an answer for the first packet of a connection. For later ones it is not known.
func ofFirst(is bool) condition {
	return func(p Packet) answer {
		if p.Established {
			return maybe
		}
		return answerOf(is)
	}
}

// ofType returns the condition that an address is of one of some types.
func ofType(of func(Packet) string, types []string) condition {
	return func(p Packet) answer {
		if of(p) == "" {
			return maybe
		}
		return answerOf(slices.ContainsFunc(types, func(t string) bool { return strings.EqualFold(t, of(p)) }))
	}
}

func srcType(p Packet) string { return p.SrcType }
func dstType(p Packet) string { return p.DstType }

// marked returns the condition that the bits of a mask have a value. Text is a value, or one with a mask.
func marked(text string) condition {
	value, mask, ok := maskedValue(text)
	if !ok {
		return unknownCondition
	}
	return func(p Packet) answer {
		if !p.MarkKnown {
			return maybe
		}
		return answerOf(p.Mark&mask == value)
	}
}

// maskedValue reads VALUE or VALUE/MASK.
func maskedValue(text string) (value, mask uint32, ok bool) {
	first, second, has := strings.Cut(text, "/")
	v, err := strconv.ParseUint(first, 0, 32)
	m, failed := uint64(1<<32-1), error(nil)
	if has {
		m, failed = strconv.ParseUint(second, 0, 32)
	}
	return uint32(v), uint32(m), err == nil && failed == nil
}

// portRanges reads numbers and ranges of ports, separated by commas.
func portRanges(text, between string) ([][2]uint16, bool) {
	var ranges [][2]uint16
	for _, one := range strings.Split(text, ",") {
		first, last, is := strings.Cut(one, between)
		if !is {
			last = first
		}
		from, err := strconv.ParseUint(first, 10, 16)
		to, failed := strconv.ParseUint(last, 10, 16)
		if err != nil || failed != nil {
			return nil, false
		}
		ranges = append(ranges, [2]uint16{uint16(from), uint16(to)})
	}
	return ranges, true
}
