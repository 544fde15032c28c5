package firewall

import (
	"bytes"
	"encoding/binary"
	"iter"
	"math/bits"
	"net/netip"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/drivers/linux/internal/nl"
)

// The verdicts of an immediate expression (NF_DROP, NF_ACCEPT, NFT_JUMP and so on).
const (
	verdictDrop   = 0
	verdictAccept = 1
	verdictJump   = ^uint32(2) // -3
	verdictGoto   = ^uint32(3) // -4
	verdictReturn = ^uint32(4) // -5
)

// randomFully is NF_NAT_RANGE_PROTO_RANDOM_FULLY.
const randomFully = 1 << 4

// bitwiseOp is NFTA_BITWISE_OP, whose value 0 is "and mask, xor".
const bitwiseOp = 6

// field is a part of a packet.
type field uint8

const (
	none field = iota
	source
	destination
	packetMark
	incoming // name of the link by which the packet came
	protocol
	port // the destination
	fields
)

// loaded is the content of a register: the bits of a field under a mask.
type loaded struct {
	of   field
	mask []byte
}

// decoder reads the expressions of one rule.
type decoder struct {
	family    cidr.Family
	registers map[uint32]loaded
	rule      dataplane.Rule
	set       string // whose elements are the sources
	seen      [fields]bool
}

// decodeRule reads the expressions of a rule. It returns false unless it
// understands every bit of them. If the rule has a set of sources, decodeRule returns its name.
func decodeRule(f cidr.Family, exprs []byte) (rule dataplane.Rule, set string, ok bool) {
	d := decoder{family: f, registers: map[uint32]loaded{}}
	for name, data := range expressions(exprs) {
		if d.rule.Verdict != "" || !d.expression(name, data) {
			return dataplane.Rule{}, "", false
		}
	}
	// A port means one thing with UDP and another with TCP.
	udp := d.rule.Proto == dataplane.ProtoUDP
	known := udp && d.seen[port] || !d.seen[port] && (!d.seen[protocol] || d.rule.Proto == dataplane.ProtoIPIP)
	return d.rule, d.set, d.rule.Verdict != "" && known
}

// expressions yields the expressions of a rule, except counters.
func expressions(b []byte) iter.Seq2[string, []byte] {
	return func(yield func(string, []byte) bool) {
		for _, element := range nl.Attrs(b) {
			var name string
			var data []byte
			for kind, value := range nl.Attrs(element) {
				switch kind {
				case unix.NFTA_EXPR_NAME:
					name = nl.Text(value)
				case unix.NFTA_EXPR_DATA:
					data = value
				}
			}
			if name != "counter" && !yield(name, data) {
				return
			}
		}
	}
}

func (d *decoder) expression(name string, data []byte) bool {
	a := numbered(data)
	switch name {
	case "payload":
		return d.payload(a)
	case "meta":
		return d.meta(a)
	case "bitwise":
		return d.bitwise(a)
	case "cmp":
		return d.compare(a)
	case "lookup":
		return d.lookup(a)
	case "immediate":
		return d.immediate(a)
	case "masq":
		return d.masquerade(a)
	}
	return false
}

// numbered returns attributes by their kind.
func numbered(b []byte) map[uint16][]byte {
	m := map[uint16][]byte{}
	for kind, value := range nl.Attrs(b) {
		m[kind] = value
	}
	return m
}

func (d *decoder) meta(a map[uint16][]byte) bool {
	to, ok := a[unix.NFTA_META_DREG]
	whole := func(of field, size int) {
		d.registers[nl.BE32(to)] = loaded{of, bytes.Repeat([]byte{255}, size)}
	}
	switch nl.BE32(a[unix.NFTA_META_KEY]) {
	case unix.NFT_META_MARK:
		whole(packetMark, 4)
	case unix.NFT_META_IIFNAME:
		whole(incoming, unix.IFNAMSIZ)
	case unix.NFT_META_L4PROTO:
		whole(protocol, 1)
	default:
		return false
	}
	return ok
}

// payload loads the first bytes of an address in the IP header, or the destination port.
func (d *decoder) payload(a map[uint16][]byte) bool {
	if nl.BE32(a[unix.NFTA_PAYLOAD_BASE]) == unix.NFT_PAYLOAD_TRANSPORT_HEADER {
		to, ok := a[unix.NFTA_PAYLOAD_DREG]
		d.registers[nl.BE32(to)] = loaded{port, []byte{255, 255}}
		return ok && nl.BE32(a[unix.NFTA_PAYLOAD_OFFSET]) == 2 && nl.BE32(a[unix.NFTA_PAYLOAD_LEN]) == 2
	}
	size := uint32(d.family.Bits() / 8)
	from := [...]uint32{12, 8}[d.family] // offset of the source; the destination follows
	offset, length := nl.BE32(a[unix.NFTA_PAYLOAD_OFFSET]), nl.BE32(a[unix.NFTA_PAYLOAD_LEN])
	to, ok := a[unix.NFTA_PAYLOAD_DREG]
	if !ok || nl.BE32(a[unix.NFTA_PAYLOAD_BASE]) != unix.NFT_PAYLOAD_NETWORK_HEADER || length == 0 || length > size {
		return false
	}
	l := loaded{mask: make([]byte, length)}
	for i := range l.mask {
		l.mask[i] = 255
	}
	switch offset {
	case from:
		l.of = source
	case from + size:
		l.of = destination
	default:
		return false
	}
	d.registers[nl.BE32(to)] = l
	return true
}

func (d *decoder) bitwise(a map[uint16][]byte) bool {
	l := d.registers[nl.BE32(a[unix.NFTA_BITWISE_SREG])]
	mask, xor := dataValue(a[unix.NFTA_BITWISE_MASK]), dataValue(a[unix.NFTA_BITWISE_XOR])
	if l.of == none || nl.BE32(a[bitwiseOp]) != 0 || len(mask) != len(l.mask) || len(xor) != len(mask) {
		return false
	}
	out := loaded{l.of, make([]byte, len(mask))}
	for i := range mask {
		if xor[i] != 0 {
			return false
		}
		out.mask[i] = l.mask[i] & mask[i]
	}
	d.registers[nl.BE32(a[unix.NFTA_BITWISE_DREG])] = out
	return true
}

func (d *decoder) compare(a map[uint16][]byte) bool {
	l := d.registers[nl.BE32(a[unix.NFTA_CMP_SREG])]
	value, op := dataValue(a[unix.NFTA_CMP_DATA]), nl.BE32(a[unix.NFTA_CMP_OP])
	if l.of == none || d.seen[l.of] || len(value) != len(l.mask) || op > unix.NFT_CMP_NEQ {
		return false
	}
	d.seen[l.of] = true
	whole := op == unix.NFT_CMP_EQ && !slices.ContainsFunc(l.mask, func(b byte) bool { return b != 255 })
	switch l.of {
	case packetMark:
		d.rule.Mark = dataplane.Mark{Value: binary.NativeEndian.Uint32(value), Mask: binary.NativeEndian.Uint32(l.mask)}
		return op == unix.NFT_CMP_EQ && d.rule.Mark.Mask != 0
	case incoming:
		d.rule.In = nl.Text(value)
		return whole
	case protocol:
		d.rule.Proto = value[0]
		return whole
	case port:
		d.rule.Port = binary.BigEndian.Uint16(value)
		return whole
	}
	prefix, ok := d.prefix(value, l.mask)
	m := dataplane.Match{Not: op == unix.NFT_CMP_NEQ, Prefix: prefix}
	if l.of == source {
		d.rule.From = m
	} else {
		d.rule.To = m
	}
	return ok
}

// lookup reads the name of the set that holds the source.
func (d *decoder) lookup(a map[uint16][]byte) bool {
	l := d.registers[nl.BE32(a[unix.NFTA_LOOKUP_SREG])]
	_, maps := a[unix.NFTA_LOOKUP_DREG]
	whole := len(l.mask) == d.family.Bits()/8 && !slices.ContainsFunc(l.mask, func(b byte) bool { return b != 255 })
	if l.of != source || d.seen[source] || maps || nl.BE32(a[unix.NFTA_LOOKUP_FLAGS]) != 0 || !whole {
		return false
	}
	d.seen[source] = true
	d.set = nl.Text(a[unix.NFTA_LOOKUP_SET])
	return d.set != ""
}

// prefix returns the prefix with these first bytes and this mask.
func (d *decoder) prefix(value, mask []byte) (netip.Prefix, bool) {
	whole := make([]byte, d.family.Bits()/8)
	copy(whole, value)
	addr, _ := netip.AddrFromSlice(whole)
	n := 0
	for _, b := range mask {
		n += bits.LeadingZeros8(^b)
		if b != 255 {
			break
		}
	}
	prefix := netip.PrefixFrom(addr, n)
	ones := 0
	for _, b := range mask {
		ones += bits.OnesCount8(b)
	}
	return prefix, ones == n && prefix.Masked() == prefix
}

func (d *decoder) immediate(a map[uint16][]byte) bool {
	code, ok := verdictCode(a)
	switch {
	case !ok:
		return false
	case code == verdictAccept:
		d.rule.Verdict = dataplane.Accept
	case code == verdictDrop:
		d.rule.Verdict = dataplane.Drop
	case code == verdictReturn:
		d.rule.Verdict = dataplane.Return
	}
	return d.rule.Verdict != ""
}

// isVerdict reports whether an immediate expression decides about the packet.
func isVerdict(a map[uint16][]byte) bool {
	_, ok := verdictCode(a)
	return ok
}

// verdictCode returns the verdict of an immediate expression, if it has one.
func verdictCode(a map[uint16][]byte) (uint32, bool) {
	if register, ok := a[unix.NFTA_IMMEDIATE_DREG]; !ok || nl.BE32(register) != unix.NFT_REG_VERDICT {
		return 0, false
	}
	code, ok := numbered(numbered(a[unix.NFTA_IMMEDIATE_DATA])[unix.NFTA_DATA_VERDICT])[unix.NFTA_VERDICT_CODE]
	return nl.BE32(code), ok
}

// jumpTarget returns the chain that an immediate expression leads to.
func jumpTarget(a map[uint16][]byte) string {
	verdict := numbered(numbered(a[unix.NFTA_IMMEDIATE_DATA])[unix.NFTA_DATA_VERDICT])
	return nl.Text(verdict[unix.NFTA_VERDICT_CHAIN])
}

func (d *decoder) masquerade(a map[uint16][]byte) bool {
	_, ports := a[unix.NFTA_MASQ_REG_PROTO_MIN]
	switch nl.BE32(a[unix.NFTA_MASQ_FLAGS]) {
	case 0:
		d.rule.Verdict = dataplane.Masquerade
	case randomFully:
		d.rule.Verdict = dataplane.MasqueradeRandom
	default:
		return false
	}
	return !ports
}

func dataValue(b []byte) []byte { return numbered(b)[unix.NFTA_DATA_VALUE] }

// targetName returns the name of an iptables extension (NFTA_TARGET_NAME, NFTA_MATCH_NAME).
func targetName(b []byte) string { return nl.Text(numbered(b)[1]) }
