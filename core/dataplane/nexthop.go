package dataplane

import (
	"cmp"
	"encoding/binary"
	"net/netip"
)

// NextHopID identifies a next-hop object of the kernel; 0: none.
type NextHopID uint32

// Compare orders identifiers.
func (i NextHopID) Compare(o NextHopID) int { return cmp.Compare(i, o) }

// NextHopFor returns the identifier of the next hop that belongs to the route to a
// subnet: the subnet's base address. So a restart without memory, and another daemon of
// the host, recognise the object by its number.
func NextHopFor(subnet netip.Prefix) NextHopID {
	base := subnet.Addr().As4()
	return NextHopID(binary.BigEndian.Uint32(base[:]))
}

// Addr returns the base of the subnet to which the next hop's route leads.
func (i NextHopID) Addr() netip.Addr {
	return netip.AddrFrom4([4]byte(binary.BigEndian.AppendUint32(nil, uint32(i))))
}

// String returns the identifier as the address that it is made from. The tools of Linux print
// it as a number.
func (i NextHopID) String() string { return i.Addr().String() }

func parseNextHopID(f *fields) NextHopID {
	a := f.addr(f.next())
	if !a.Is4() {
		f.fail("next hop: want an IPv4 address")
		return 0
	}
	return NextHopFor(netip.PrefixFrom(a, 32))
}

// NextHop is an IPv4 next-hop object (Linux 5.3) of the protocol [Protocol]. Routes name
// it by its ID. The kernel compares each new route that has a gateway of its own with
// every other, and one with an object with none.
type NextHop struct {
	ID     NextHopID
	Link   string
	Via    netip.Addr
	OnLink bool
	// Other is set by a driver that read an object which the fields above do not
	// describe, such as a blackhole. It is never wanted.
	Other string
}

// Key returns the key.
func (h NextHop) Key() NextHopID { return h.ID }

// String returns the canonical form, such as
// "nexthop 10.5.3.0 via 10.5.3.0 dev flannel.1 onlink".
func (h NextHop) String() string { return textOf(h.params(), "nexthop %s", h.ID) }

func (NextHop) kind() *kind { return &nextHopKind }

var nextHopKind = tableKind("nexthop", parseNextHop, func(s *State) *Table[NextHopID, NextHop] { return &s.NextHops })

func parseNextHop(f *fields) Object {
	h := NextHop{ID: parseNextHopID(f)}
	f.params(h.params())
	return h
}

// params lists the parameters in the order of the canonical form.
func (h *NextHop) params() []param {
	return []param{
		{"via", h.Via.IsValid(), h.Via, func(f *fields) { h.Via = f.addr(f.next()) }},
		{"dev", h.Link != "", h.Link, func(f *fields) { h.Link = f.next() }},
		{"onlink", h.OnLink, nil, func(*fields) { h.OnLink = true }},
		{"other", h.Other != "", h.Other, func(f *fields) { h.Other = f.next() }},
	}
}
