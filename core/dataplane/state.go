package dataplane

import "net/netip"

// State is a set of objects on one host. Two states with equal contents mean
// the same host; a nil map equals an empty one.
type State struct {
	Links   map[string]Link
	Addrs   map[Addr]struct{}
	Routes  map[RouteKey]Route
	Neighs  map[NeighKey]Neigh
	FDB     map[FDBKey]FDBEntry
	Sysctls map[string]Sysctl
	Chains  map[ChainKey]Chain
	Proxies map[string]Proxy // by link
	Peers   map[PeerKey]Peer

	// Running is set by a driver, for each of the Proxies.
	Running map[string]Running

	// Generation is set by a driver that can tell cheaply whether anything on
	// the host has changed: as long as nothing has, it stays. 0: it cannot.
	Generation uint64

	// Changed is set by a driver that read only what has changed since the
	// generation that the caller knew ([Extent]): of routes, neighbours and FDB
	// entries only those under these keys are in the state, as far as they still
	// exist. Nil: the state is whole.
	Changed *Keys

	// Against is set by a driver that compared what it read with what was
	// expected ([Extent]): Changed then names what is different from that.
	Against *Layers
}

// NewState returns an empty state whose maps have room for that many peers.
func NewState(peers int) State {
	return State{
		Links:   map[string]Link{},
		Addrs:   map[Addr]struct{}{},
		Routes:  make(map[RouteKey]Route, peers),
		Neighs:  make(map[NeighKey]Neigh, peers),
		FDB:     make(map[FDBKey]FDBEntry, peers),
		Sysctls: map[string]Sysctl{},
		Chains:  map[ChainKey]Chain{},
		Proxies: map[string]Proxy{},
		Peers:   map[PeerKey]Peer{},
		Running: map[string]Running{},
	}
}

// AddLink and its like put an object under its key, replacing one that is there.
func (s *State) AddLink(l Link)     { s.Links[l.Name] = l }
func (s *State) AddAddr(a Addr)     { s.Addrs[a] = struct{}{} }
func (s *State) AddRoute(r Route)   { s.Routes[r.RouteKey] = r }
func (s *State) AddNeigh(n Neigh)   { s.Neighs[n.NeighKey] = n }
func (s *State) AddFDB(f FDBEntry)  { s.FDB[f.FDBKey] = f }
func (s *State) AddSysctl(c Sysctl) { s.Sysctls[c.Path] = c }
func (s *State) AddChain(c Chain)   { s.Chains[c.ChainKey] = c }
func (s *State) AddProxy(p Proxy)   { s.Proxies[p.Link] = p }
func (s *State) AddPeer(p Peer)     { s.Peers[p.PeerKey] = p }

// Len is the number of objects.
func (s State) Len() int {
	return len(s.Links) + len(s.Addrs) + len(s.Routes) + len(s.Neighs) + len(s.FDB) + len(s.Sysctls) + len(s.Chains) + len(s.Proxies) + len(s.Peers)
}

// Extent says which part of a host a driver shall read.
//
// Observe returns, with their true values, ours or not:
//   - the links named, if they exist;
//   - on those links: all permanent global addresses, all permanent
//     neighbours, all permanent "self" FDB entries with a destination, and the
//     proxy that this very driver runs, with its peers;
//   - routes of the main table that leave through those links or lie inside
//     Networks; for each key the one the kernel would use first;
//   - the sysctls named, if they exist.
type Extent struct {
	Links    []string
	Networks []netip.Prefix
	Sysctls  []Sysctl // Value is ignored

	// Known is the generation of a state that the caller has read before. If
	// it still is the host's, the driver may return it and no objects; if it is
	// not, only what has changed since.
	Known uint64

	// Expect is what the caller has just tried to bring about; may be nil. A
	// driver for which it is cheaper than to hand out all objects may read them,
	// compare them with these, and return only what is different.
	Expect *Layers
}
