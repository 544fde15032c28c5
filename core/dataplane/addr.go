package dataplane

import (
	"cmp"
	"fmt"
	"net/netip"
)

// Addr is a permanent address of global scope on one of our links, without broadcast.
type Addr struct {
	Link   string
	Prefix netip.Prefix
}

// Compare orders addresses by link, then by prefix.
func (a Addr) Compare(o Addr) int {
	return cmp.Or(cmp.Compare(a.Link, o.Link), comparePrefixes(a.Prefix, o.Prefix))
}

// comparePrefixes orders by address, and a wider prefix before a narrower one.
func comparePrefixes(a, b netip.Prefix) int {
	return cmp.Or(a.Addr().Compare(b.Addr()), a.Bits()-b.Bits())
}

// String returns the canonical form, such as "addr 10.5.1.0/32 dev flannel.1".
func (a Addr) String() string { return fmt.Sprintf("addr %s dev %s", a.Prefix, a.Link) }

func (Addr) kind() *kind { return &addrKind }

func (a Addr) mapKey() Addr { return a }

var addrKind = mapKind("addr", func(f *fields) Object { return Addr{Prefix: f.prefix(), Link: f.after("dev")} },
	func(s *State) *map[Addr]Addr { return &s.Addrs })
