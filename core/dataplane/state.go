package dataplane

import (
	"maps"
	"time"
)

// State is a set of objects on one host. Two states with equal contents mean
// the same host; a nil map equals an empty one.
//
// A State is immutable once its maker has handed it over. A maker with nothing
// new hands over the same pointer again, and a reader may skip comparing equal pointers.
type State struct {
	Links    map[string]Link
	Addrs    map[Addr]Addr
	Routes   Table[RouteKey, Route]
	NextHops Table[NextHopID, NextHop]
	Neighs   Table[NeighKey, Neigh]
	FDB      Table[FDBKey, FDBEntry]
	Sysctls  map[string]Sysctl
	Chains   map[ChainKey]Chain
	Proxies  map[string]Proxy // by link
	Peers    Table[PeerKey, Peer]
	WGPeers  Table[WGPeerKey, WGPeer]

	// The objects of IPsec: in the kernel, and in the IKE daemon.
	Policies   Table[PolicyKey, Policy]
	IKE        map[string]IKEDaemon // by name
	SharedKeys Table[SharedKeyKey, SharedKey]
	FormerKeys map[FormerKey]FormerKey
	Conns      Table[ConnKey, Conn]
	Tunnels    Table[ConnKey, Tunnel]
	// Commands of the operator that have run, or should have.
	Commands Table[CommandKey, Command]
	// CloudRoutes are entries of a cloud provider's route tables.
	CloudRoutes Table[CloudRouteKey, CloudRoute]

	// Running is set by a driver, for each of the Proxies.
	Running map[string]Running
	// Alive is set by a driver. It holds those of the WGPeers with a handshake in
	// the last [SessionLife].
	Alive map[WGPeerKey]struct{}
	// Handshakes is set by a driver. It holds the time of the last handshake with each of
	// the WGPeers that had one, by the host's clock.
	Handshakes map[WGPeerKey]time.Time
}

// NewState returns an empty state.
func NewState() *State {
	s := &State{
		Running: map[string]Running{}, Alive: map[WGPeerKey]struct{}{}, Handshakes: map[WGPeerKey]time.Time{},
	}
	for _, k := range kinds {
		k.empty(s)
	}
	return s
}

// Clone returns a copy that its maker may change until it hands it over.
func (s *State) Clone() *State {
	c := &State{Running: maps.Clone(s.Running), Alive: maps.Clone(s.Alive), Handshakes: maps.Clone(s.Handshakes)}
	for _, k := range kinds {
		k.clone(c, s)
	}
	return c
}

// Equal reports whether both states hold the same objects, and the same reports
// about what runs.
func (s *State) Equal(o *State) bool {
	if s == o {
		return true
	}
	for _, k := range kinds {
		if !k.equal(s, o) {
			return false
		}
	}
	return maps.EqualFunc(s.Running, o.Running, Running.Equal) && maps.Equal(s.Alive, o.Alive) &&
		maps.EqualFunc(s.Handshakes, o.Handshakes, time.Time.Equal)
}

// AddLink and the methods below put an object under its key and replace the one that is there.
func (s *State) AddLink(l Link)       { s.Links[l.Name] = l }
func (s *State) AddAddr(a Addr)       { s.Addrs[a] = a }
func (s *State) AddRoute(r Route)     { s.Routes.Put(r) }
func (s *State) AddNextHop(h NextHop) { s.NextHops.Put(h) }
func (s *State) AddNeigh(n Neigh)     { s.Neighs.Put(n) }
func (s *State) AddFDB(f FDBEntry)    { s.FDB.Put(f) }
func (s *State) AddSysctl(c Sysctl)   { s.Sysctls[c.Path] = c }
func (s *State) AddChain(c Chain)     { s.Chains[c.ChainKey] = c }
func (s *State) AddProxy(p Proxy)     { s.Proxies[p.Link] = p }
func (s *State) AddPeer(p Peer)       { s.Peers.Put(p) }
func (s *State) AddWGPeer(p WGPeer)   { s.WGPeers.Put(p) }
func (s *State) AddPolicy(p Policy)   { s.Policies.Put(p) }
func (s *State) AddCommand(c Command) { s.Commands.Put(c) }

// Public returns the state as every local user may read it: commands are without their texts.
func (s *State) Public() *State {
	if s.Commands.Len() == 0 {
		return s
	}
	public := s.Clone()
	for _, c := range s.Commands.All {
		public.AddCommand(c.WithoutTexts())
	}
	return public
}

// AddCloudRoute is AddRoute for the tables of a cloud provider.
func (s *State) AddCloudRoute(r CloudRoute) { s.CloudRoutes.Put(r) }

// Put adds an object of any kind under its key.
func (s *State) Put(o Object) { o.kind().put(s, o) }

// Namesake returns the object that has the same kind and key as o.
func (s *State) Namesake(o Object) (Object, bool) { return o.kind().like(s, o) }

// AddAll adds all objects of another state. An object replaces one with its key.
func (s *State) AddAll(o *State) {
	for _, k := range kinds {
		k.addTo(s, o)
	}
	maps.Copy(s.Running, o.Running)
	maps.Copy(s.Alive, o.Alive)
	maps.Copy(s.Handshakes, o.Handshakes)
}

// Len returns the number of objects.
func (s *State) Len() int {
	n := 0
	for _, k := range kinds {
		n += k.count(s)
	}
	return n
}
