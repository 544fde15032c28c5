package dataplane

import (
	"cmp"
	"net/netip"

	"github.com/flanneld/flannel/core/cidr"
)

// Direction says which packets an IPsec policy concerns.
type Direction string

// The directions, as the kernel names them.
const (
	PolicyIn      Direction = "in"  // packets to this host
	PolicyOut     Direction = "out" // packets that leave this host
	PolicyForward Direction = "fwd" // packets that this host forwards, on their way in
)

// PolicyKey identifies an IPsec policy that selects packets by their addresses
// alone: by no protocol, port, mark or interface. Both are IPv4.
type PolicyKey struct {
	Dir Direction
	Src netip.Prefix
	Dst netip.Prefix
}

// Compare orders keys by direction, then by source and destination.
func (k PolicyKey) Compare(o PolicyKey) int {
	return cmp.Or(cmp.Compare(k.Dir, o.Dir), comparePrefixes(k.Src, o.Src), comparePrefixes(k.Dst, o.Dst))
}

// Key returns the key.
func (k PolicyKey) Key() PolicyKey { return k }

// Inside reports whether a network holds all packets that the policy selects.
func (k PolicyKey) Inside(network netip.Prefix) bool {
	return cidr.Contains(network, k.Src) && cidr.Contains(network, k.Dst)
}

// PolicyAction says what happens to the selected packets.
type PolicyAction string

// The actions.
const (
	Protect PolicyAction = "esp"   // they travel in a tunnel, and in no other way
	Allow   PolicyAction = "allow" // they travel as they are
	Block   PolicyAction = "block" // they are dropped
)

// ReqID is the number by which our policies and security associations find each
// other. Upstream has the same (interop 6.6).
const ReqID = 11

// The priorities of policies; the lowest number wins. Policies that protect a
// peer's packets have upstream's priority, 0 (interop 6.6). Our other policies are
// recognised by their priorities.
const (
	PriorityPeer  = 0
	PriorityAllow = 101
	PriorityBlock = 102
)

// Policy is an IPsec policy of the kernel (xfrm).
type Policy struct {
	PolicyKey
	Action   PolicyAction
	Priority uint32

	// From and To are the ends of the ESP tunnel of an action Protect, and ReqID
	// is the number of the security associations that it uses.
	From, To netip.Addr
	ReqID    uint32

	// Other is set by a driver that read a policy which the fields above do not
	// describe, such as one for transport mode. It is never wanted.
	Other string
}

// String returns the canonical form, such as
// "policy out 10.5.1.0/24 to 10.5.2.0/24 esp 192.168.64.3 to 192.168.64.4 reqid 11 priority 0".
func (p Policy) String() string {
	var l line
	l.add(true, "policy %s %s to %s %s", p.Dir, p.Src, p.Dst, p.Action)
	l.add(p.Action == Protect, "%s to %s reqid %d", p.From, p.To, p.ReqID)
	l.add(true, "priority %d", p.Priority)
	l.add(p.Other != "", "other %s", p.Other)
	return l.String()
}

func (Policy) kind() *kind { return &policyKind }

var policyKind = tableKind("policy", parsePolicy, func(s *State) *Table[PolicyKey, Policy] { return &s.Policies })

func parsePolicy(f *fields) Object {
	p := Policy{PolicyKey: PolicyKey{Dir: Direction(f.next())}}
	if p.Dir != PolicyIn && p.Dir != PolicyOut && p.Dir != PolicyForward {
		f.fail("unknown direction %q", p.Dir)
	}
	p.Src = f.prefix()
	f.want("to")
	p.Dst = f.prefix()
	p.Action = PolicyAction(f.next())
	if p.Action == Protect {
		p.From = f.addr(f.next())
		p.To = f.addr(f.after("to"))
		f.want("reqid")
		p.ReqID = uint32(f.number(32))
	} else if p.Action != Allow && p.Action != Block {
		f.fail("unknown action %q", p.Action)
	}
	f.want("priority")
	p.Priority = uint32(f.number(32))
	if len(f.words) > 0 {
		p.Other = f.after("other")
	}
	return p
}
