package orphans

import (
	"net"
	"net/netip"
	"sync"
)

// Conns holds the open connections of one client. The zero value has none.
type Conns struct {
	// Addrs lists the host's addresses; if nil, net.InterfaceAddrs does.
	Addrs func() ([]net.Addr, error)

	mu   sync.Mutex
	open map[*conn]struct{}
}

// conn is a connection that is in the set until it is closed.
type conn struct {
	net.Conn
	set *Conns
}

// Close implements net.Conn.
func (c *conn) Close() error {
	c.set.mu.Lock()
	delete(c.set.open, c)
	c.set.mu.Unlock()
	return c.Conn.Close()
}

// Keep adds a connection to the set, and returns the one to use in its place.
func (s *Conns) Keep(raw net.Conn) net.Conn {
	c := &conn{raw, s}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open == nil {
		s.open = map[*conn]struct{}{}
	}
	s.open[c] = struct{}{}
	return c
}

// Cut closes the connections whose local address the host no longer has, and
// returns how many. If the addresses cannot be read, it closes none.
func (s *Conns) Cut() int {
	local := s.Addrs
	if local == nil {
		local = net.InterfaceAddrs
	}
	addrs, err := local()
	if err != nil {
		return 0
	}
	cut := s.lost(addrs)
	for _, c := range cut {
		_ = c.Close() // its user gets an error
	}
	return len(cut)
}

// lost returns the connections from an address that is not in addrs.
func (s *Conns) lost(addrs []net.Addr) (cs []*conn) {
	here := map[netip.Addr]bool{}
	loopback := false // every address of its network is the host's
	for _, a := range addrs {
		ip := addrOf(a)
		here[ip] = true
		loopback = loopback || ip.IsLoopback()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.open {
		if a := addrOf(c.LocalAddr()); a.IsValid() && !here[a] && !(loopback && a.IsLoopback()) {
			cs = append(cs, c)
		}
	}
	return cs
}

// addrOf is the IP address in an address, if it has one.
func addrOf(a net.Addr) netip.Addr {
	var ip net.IP
	switch a := a.(type) {
	case *net.IPNet:
		ip = a.IP
	case *net.TCPAddr:
		ip = a.IP
	}
	addr, _ := netip.AddrFromSlice(ip)
	return addr.Unmap()
}
