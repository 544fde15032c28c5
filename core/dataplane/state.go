package dataplane

import "maps"

// State is a set of objects on one host. Two states with equal contents mean
// the same host; a nil map equals an empty one.
//
// A State is immutable once its maker has handed it over. A maker with nothing
// new hands over the same pointer again, and a reader may stop at equal pointers.
type State struct {
	Links   map[string]Link
	Addrs   map[Addr]struct{}
	Routes  Table[RouteKey, Route]
	Neighs  Table[NeighKey, Neigh]
	FDB     Table[FDBKey, FDBEntry]
	Sysctls map[string]Sysctl
	Chains  map[ChainKey]Chain
	Proxies map[string]Proxy // by link
	Peers   Table[PeerKey, Peer]
	WGPeers Table[WGPeerKey, WGPeer]

	// The objects of IPsec: in the kernel, and in the IKE daemon.
	Policies   Table[PolicyKey, Policy]
	IKE        map[string]IKEDaemon // by name
	SharedKeys Table[SharedKeyKey, SharedKey]
	Conns      Table[ConnKey, Conn]
	Tunnels    Table[ConnKey, Tunnel]
	// Commands of the operator that have run, or should have.
	Commands Table[CommandKey, Command]

	// Running is set by a driver, for each of the Proxies.
	Running map[string]Running
	// Alive is set by a driver. It holds those of the WGPeers with a handshake in
	// the last [SessionLife].
	Alive map[WGPeerKey]struct{}
}

// NewState returns an empty state.
func NewState() *State {
	return &State{
		Links:   map[string]Link{},
		Addrs:   map[Addr]struct{}{},
		Sysctls: map[string]Sysctl{},
		Chains:  map[ChainKey]Chain{},
		Proxies: map[string]Proxy{},
		Running: map[string]Running{},
		Alive:   map[WGPeerKey]struct{}{},
		IKE:     map[string]IKEDaemon{},
	}
}

// Clone returns a copy that its maker may change until it hands it over.
func (s *State) Clone() *State {
	return &State{
		Links:   maps.Clone(s.Links),
		Addrs:   maps.Clone(s.Addrs),
		Routes:  s.Routes.Clone(),
		Neighs:  s.Neighs.Clone(),
		FDB:     s.FDB.Clone(),
		Sysctls: maps.Clone(s.Sysctls),
		Chains:  maps.Clone(s.Chains),
		Proxies: maps.Clone(s.Proxies),
		Peers:   s.Peers.Clone(),
		WGPeers: s.WGPeers.Clone(),
		Running: maps.Clone(s.Running),
		Alive:   maps.Clone(s.Alive),

		Policies:   s.Policies.Clone(),
		IKE:        maps.Clone(s.IKE),
		SharedKeys: s.SharedKeys.Clone(),
		Conns:      s.Conns.Clone(),
		Tunnels:    s.Tunnels.Clone(),

		Commands: s.Commands.Clone(),
	}
}

// Equal reports whether both states hold the same objects, and the same reports
// about what runs.
func (s *State) Equal(o *State) bool {
	return s == o ||
		maps.Equal(s.Links, o.Links) &&
			maps.Equal(s.Addrs, o.Addrs) &&
			s.Routes.Equal(o.Routes) &&
			s.Neighs.Equal(o.Neighs) &&
			s.FDB.Equal(o.FDB) &&
			maps.Equal(s.Sysctls, o.Sysctls) &&
			maps.Equal(s.Chains, o.Chains) &&
			maps.Equal(s.Proxies, o.Proxies) &&
			s.Peers.Equal(o.Peers) &&
			s.WGPeers.Equal(o.WGPeers) &&
			s.Policies.Equal(o.Policies) &&
			maps.Equal(s.IKE, o.IKE) &&
			s.SharedKeys.Equal(o.SharedKeys) &&
			s.Conns.Equal(o.Conns) &&
			s.Tunnels.Equal(o.Tunnels) &&
			s.Commands.Equal(o.Commands) &&
			maps.EqualFunc(s.Running, o.Running, Running.Equal) &&
			maps.Equal(s.Alive, o.Alive)
}

// AddLink and the methods below put an object under its key and replace the one that is there.
func (s *State) AddLink(l Link)     { s.Links[l.Name] = l }
func (s *State) AddAddr(a Addr)     { s.Addrs[a] = struct{}{} }
func (s *State) AddRoute(r Route)   { s.Routes.Put(r) }
func (s *State) AddNeigh(n Neigh)   { s.Neighs.Put(n) }
func (s *State) AddFDB(f FDBEntry)  { s.FDB.Put(f) }
func (s *State) AddSysctl(c Sysctl) { s.Sysctls[c.Path] = c }
func (s *State) AddChain(c Chain)   { s.Chains[c.ChainKey] = c }
func (s *State) AddProxy(p Proxy)   { s.Proxies[p.Link] = p }
func (s *State) AddPeer(p Peer)     { s.Peers.Put(p) }
func (s *State) AddWGPeer(p WGPeer) { s.WGPeers.Put(p) }
func (s *State) AddPolicy(p Policy) { s.Policies.Put(p) }

// AddCommand does the same.
func (s *State) AddCommand(c Command) { s.Commands.Put(c) }

// AddAll adds all objects of another state. An object replaces one with its key.
func (s *State) AddAll(o *State) {
	maps.Copy(s.Links, o.Links)
	maps.Copy(s.Addrs, o.Addrs)
	addRows(&s.Routes, &o.Routes)
	addRows(&s.Neighs, &o.Neighs)
	addRows(&s.FDB, &o.FDB)
	maps.Copy(s.Sysctls, o.Sysctls)
	maps.Copy(s.Chains, o.Chains)
	maps.Copy(s.Proxies, o.Proxies)
	addRows(&s.Peers, &o.Peers)
	addRows(&s.WGPeers, &o.WGPeers)
	addRows(&s.Policies, &o.Policies)
	maps.Copy(s.IKE, o.IKE)
	addRows(&s.SharedKeys, &o.SharedKeys)
	addRows(&s.Conns, &o.Conns)
	addRows(&s.Tunnels, &o.Tunnels)
	addRows(&s.Commands, &o.Commands)
	maps.Copy(s.Running, o.Running)
	maps.Copy(s.Alive, o.Alive)
}

func addRows[K Key[K], V Row[K]](to, from *Table[K, V]) {
	for _, v := range from.All {
		to.Put(v)
	}
}

// Len returns the number of objects.
func (s *State) Len() int {
	return len(s.Links) + len(s.Addrs) + s.Routes.Len() + s.Neighs.Len() + s.FDB.Len() +
		len(s.Sysctls) + len(s.Chains) + len(s.Proxies) + s.Peers.Len() + s.WGPeers.Len() +
		s.Policies.Len() + len(s.IKE) + s.SharedKeys.Len() + s.Conns.Len() + s.Tunnels.Len() + s.Commands.Len()
}
