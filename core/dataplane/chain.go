package dataplane

import (
	"net/netip"

	"github.com/flanneld/flannel/core/cidr"
)

// Flavour is the interface of the kernel's packet filter in which a chain is made.
type Flavour string

// The flavours, which mean the same in different words.
const (
	IPTables Flavour = "iptables"
	NFTables Flavour = "nftables"
)

// Flavours lists both, in the order in which everything is done.
var Flavours = [2]Flavour{IPTables, NFTables}

// Hook is the point of a packet's path at which the kernel asks a chain.
type Hook string

// The hooks flannel has chains at.
const (
	Forward     Hook = "forward"     // may this host forward the packet?
	Postrouting Hook = "postrouting" // with which source does a connection leave?
	Input       Hook = "input"       // may the packet end at this host?
)

// Hooks lists all, in the order in which everything is done.
var Hooks = [3]Hook{Forward, Postrouting, Input}

// Jump is how packets get into a chain. In iptables a rule in a shared chain
// sends them; in nftables the chain is a base chain of its hook.
type Jump string

// The places of a jump.
const (
	// Placed is the wanted one: the base chain has the right type, hook and
	// priority; or the shared chain has one jump, as its last rule, so that
	// foreign rules decide first. In FORWARD, accepting rules may follow the
	// jump: they do not conflict with ours, and some programs keep such rules last. In INPUT
	// the jump comes first: a foreign rule before it accepts no packet.
	Placed  Jump = "placed"
	Moved   Jump = "moved"   // in a wrong place, or more than once
	Missing Jump = "missing" // packets do not get here
)

// ChainKey identifies one of our chains. The driver of a flavour chooses its name.
type ChainKey struct {
	Flavour Flavour
	Family  cidr.Family
	Hook    Hook
}

// Chain is a chain of the packet filter with all its rules and the jump to it.
// It is one object, compared and replaced as a whole: a rule that is missing,
// doubled, changed or in another order makes it another chain.
type Chain struct {
	ChainKey
	Jump  Jump
	Rules Rules
	// Other is set by a driver for anything that the fields above cannot express:
	// a rule of another form among ours, or rules that an older release left in
	// the shared chain. It is never wanted; Replace and Delete remove it.
	Other string
}

// Rules is an ordered list of rules in the form in which Rules.String prints
// it. It is a string so that chains compare by value.
type Rules string

// Rule gives a verdict on the packets that match In, Proto, Port, Mark, From and To. A zero one
// matches every packet.
type Rule struct {
	// Network is the one that the rule belongs to, at the hook input alone: addresses of the underlay do not
	// tell. It selects no packets.
	Network  netip.Prefix
	In       string // the link by which the packet comes
	Proto    uint8  // [ProtoUDP] or [ProtoIPIP]
	Port     uint16 // the destination, of UDP alone
	Mark     Mark
	From, To Match
	Verdict  Verdict
}

// The protocols that rules match, by their number in the IP header.
const (
	ProtoUDP  uint8 = 17
	ProtoIPIP uint8 = 4
)

// Packet holds the parts of a packet that rules match.
type Packet struct {
	In       string // the link by which it comes; empty at the other hooks than input
	Proto    uint8
	Port     uint16 // the destination
	Src, Dst netip.Addr
	Mark     uint32
}

// Mark matches packets whose mark has Value in the bits of Mask.
type Mark struct {
	Value, Mask uint32
}

// Match matches addresses within a prefix, or those outside.
type Match struct {
	Not    bool
	Prefix netip.Prefix // zero: any address
}

// Verdict is the fate of a packet that a rule matches.
type Verdict string

// The verdicts. Return leaves the chain, the others end the packet's way
// through the hook.
const (
	Return           Verdict = "return"
	Accept           Verdict = "accept"
	Drop             Verdict = "drop" // wanted between the networks of a host alone
	Masquerade       Verdict = "masquerade"
	MasqueradeRandom Verdict = "masquerade-random" // with source ports chosen at random
)

// About returns the addresses whose packets the rule is about: those of its network, of their sources, or
// else of their destinations. It is invalid for a rule about no addresses.
func (r Rule) About() netip.Prefix {
	if r.Network.IsValid() {
		return r.Network
	}
	if r.From.Prefix.IsValid() {
		return r.From.Prefix
	}
	return r.To.Prefix
}

// OfInput reports whether the rule selects packets by what only rules at the hook input select them by.
func (r Rule) OfInput() bool { return r.Network.IsValid() || r.In != "" || r.Proto != 0 }

// Matches reports whether the rule is for a packet.
func (r Rule) Matches(p Packet) bool {
	return (r.In == "" || r.In == p.In) &&
		(r.Proto == 0 || r.Proto == p.Proto && r.Port == p.Port) &&
		p.Mark&r.Mark.Mask == r.Mark.Value && r.From.matches(p.Src) && r.To.matches(p.Dst)
}

func (m Match) matches(a netip.Addr) bool {
	return !m.Prefix.IsValid() || m.Prefix.Contains(a) != m.Not
}
