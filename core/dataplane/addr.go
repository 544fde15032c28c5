package dataplane

import (
	"fmt"
	"net/netip"
)

// Addr is a permanent address of global scope on one of our links, without broadcast.
type Addr struct {
	Link   string
	Prefix netip.Prefix
}

// String returns the canonical form, such as "addr 10.5.1.0/32 dev flannel.1".
func (a Addr) String() string { return fmt.Sprintf("addr %s dev %s", a.Prefix, a.Link) }

func (a Addr) putIn(s *State) { s.AddAddr(a) }

var addrKind = kind{
	word:  "addr",
	parse: func(f *fields) Object { return Addr{Prefix: f.prefix(), Link: f.after("dev")} },
	each: func(s *State, do func(Object)) {
		for a := range s.Addrs {
			do(a)
		}
	},
}
