package udppath

import (
	"fmt"
	"net/netip"

	"github.com/gaissmai/bart"
)

// Local describes a path's own node.
type Local struct {
	Addr   netip.Addr   // of the TUN device: the source of ICMP errors
	Subnet netip.Prefix // of the node's lease: the destinations to accept
	MTU    int          // of the tunnel: the largest packet that fits a datagram
}

// Peer is the lease of another node.
type Peer struct {
	Subnet   netip.Prefix
	PublicIP netip.Addr
}

// Table describes all nodes. It never changes: a driver holds a pointer to it, and
// a change is a new Table, which shares most of its memory with the old one.
type Table struct {
	local  Local
	source [4]byte
	peers  *bart.Table[netip.Addr]
}

// NewTable returns the table for a node and its peers. It refuses addresses other
// than IPv4, and two leases for one subnet.
func NewTable(local Local, peers ...Peer) (*Table, error) {
	t, err := (&Table{peers: &bart.Table[netip.Addr]{}}).WithLocal(local)
	if err != nil {
		return nil, err
	}
	for _, p := range peers {
		if err := p.check(); err != nil {
			return nil, err
		}
		if owner, ok := t.peers.Get(p.Subnet); ok {
			return nil, fmt.Errorf("peer %s at %s: %s is there already", p.Subnet, p.PublicIP, owner)
		}
		t.peers.Insert(p.Subnet, p.PublicIP)
	}
	return t, nil
}

// WithLocal returns a table for another local node.
func (t *Table) WithLocal(local Local) (*Table, error) {
	switch {
	case !local.Addr.Is4():
		return nil, fmt.Errorf("address of the tunnel: %s is not an IPv4 address", local.Addr)
	case !local.Subnet.IsValid() || !local.Subnet.Addr().Is4():
		return nil, fmt.Errorf("own subnet: %s is not an IPv4 prefix", local.Subnet)
	case local.MTU < minMTU:
		return nil, fmt.Errorf("MTU of the tunnel: %d is less than %d", local.MTU, minMTU)
	}
	// Some uplinks, such as the loopback, carry more than a datagram holds.
	local.MTU = min(local.MTU, MaxMessageBytes)
	return &Table{local: local, source: local.Addr.As4(), peers: t.peers}, nil
}

// With returns a table with the peer, which replaces one with the same subnet.
func (t *Table) With(p Peer) (*Table, error) {
	if err := p.check(); err != nil {
		return nil, err
	}
	return &Table{t.local, t.source, t.peers.InsertPersist(p.Subnet, p.PublicIP)}, nil
}

// Without returns a table without the peer that has the subnet.
func (t *Table) Without(subnet netip.Prefix) *Table {
	return &Table{t.local, t.source, t.peers.DeletePersist(subnet)}
}

// Local returns the table's own node.
func (t *Table) Local() Local { return t.local }

// Peer returns the public address of the peer that has exactly this subnet.
func (t *Table) Peer(subnet netip.Prefix) (netip.Addr, bool) { return t.peers.Get(subnet) }

// Peers returns the peers, ordered by subnet.
func (t *Table) Peers() []Peer {
	var peers []Peer
	for subnet, ip := range t.peers.AllSorted() {
		peers = append(peers, Peer{subnet, ip})
	}
	return peers
}

func (p Peer) check() error {
	switch {
	case !p.Subnet.IsValid() || !p.Subnet.Addr().Is4():
		return fmt.Errorf("peer at %s: %s is not an IPv4 prefix", p.PublicIP, p.Subnet)
	case !p.PublicIP.Is4():
		return fmt.Errorf("peer %s: %s is not an IPv4 address", p.Subnet, p.PublicIP)
	}
	return nil
}
