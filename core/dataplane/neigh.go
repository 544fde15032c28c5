package dataplane

import (
	"cmp"
	"fmt"
	"net/netip"
)

// NeighKey identifies a neighbour entry (ARP or NDP).
type NeighKey struct {
	Link string
	IP   netip.Addr
}

// Compare orders keys by link, then by address.
func (k NeighKey) Compare(o NeighKey) int {
	return cmp.Or(cmp.Compare(k.Link, o.Link), k.IP.Compare(o.IP))
}

// Key returns the key.
func (k NeighKey) Key() NeighKey { return k }

// Neigh is a permanent neighbour entry.
type Neigh struct {
	NeighKey
	MAC MAC
}

// String returns the canonical form, such as
// "neigh 10.5.3.0 lladdr c6:d2:32:6f:8f:44 dev flannel.1".
func (n Neigh) String() string { return fmt.Sprintf("neigh %s lladdr %s dev %s", n.IP, n.MAC, n.Link) }

func (Neigh) kind() *kind { return &neighKind }

var neighKind = tableKind("neigh", parseNeigh, func(s *State) *Table[NeighKey, Neigh] { return &s.Neighs })

func parseNeigh(f *fields) Object {
	var n Neigh
	n.IP = f.addr(f.next())
	n.MAC = f.mac(f.after("lladdr"))
	n.Link = f.after("dev")
	return n
}
