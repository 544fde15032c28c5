package dataplane

import "strings"

// Renaming is a change of a link's name.
type Renaming struct{ From, To string }

// Renamed returns the state after a link has another name: everything on the link is on it
// still. The link has no peers of WireGuard.
func (s *State) Renamed(from, to string) *State {
	now := s.Clone()
	l, exists := now.Links[from]
	if !exists {
		return now
	}
	delete(now.Links, from)
	l.Name = to
	now.AddLink(l)
	for a := range s.Addrs {
		if a.Link == from {
			delete(now.Addrs, a)
			a.Link = to
			now.AddAddr(a)
		}
	}
	for path, c := range s.Sysctls {
		if c.Link == from {
			delete(now.Sysctls, path)
			c.Path, c.Link = strings.Replace(path, "/"+from+"/", "/"+to+"/", 1), to
			now.AddSysctl(c)
		}
	}
	for _, r := range s.Routes.All {
		if r.Link == from {
			r.Link = to
			now.AddRoute(r)
		}
	}
	for _, h := range s.NextHops.All {
		if h.Link == from {
			h.Link = to
			now.AddNextHop(h)
		}
	}
	renameEntries(s, now, from, to)
	renamePath(s, now, from, to)
	return now
}

// renamePath is the part of Renamed about the packet path of a link.
func renamePath(was, now *State, from, to string) {
	if p, ok := was.Proxies[from]; ok {
		delete(now.Proxies, from)
		p.Link = to
		now.AddProxy(p)
	}
	if r, ok := was.Running[from]; ok {
		delete(now.Running, from)
		now.Running[to] = r
	}
	for key, p := range was.Peers.All {
		if p.Link == from {
			now.Peers.Delete(key)
			p.Link = to
			now.AddPeer(p)
		}
	}
}

// renameEntries is the part of Renamed about the tables of a link, whose keys name it.
func renameEntries(was, now *State, from, to string) {
	for key, n := range was.Neighs.All {
		if n.Link == from {
			now.Neighs.Delete(key)
			n.Link = to
			now.AddNeigh(n)
		}
	}
	for key, e := range was.FDB.All {
		if e.Link == from {
			now.FDB.Delete(key)
			e.Link = to
			now.AddFDB(e)
		}
	}
}
