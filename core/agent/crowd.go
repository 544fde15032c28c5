package agent

import (
	"net"
	"net/http"
	"net/netip"
	"slices"
	"sync"
)

// The places of a crowd. The host's own clients, such as kubelet, have places that no other client can take.
const (
	ownPlaces      = 256
	ownPerSource   = 128
	otherPlaces    = 64
	otherPerSource = 8
)

// subnet64 is the size of the IPv6 networks that count as one source: a host has all addresses of one.
const subnet64 = 64

// crowd holds the open connections of a server. Any pod can open connections, and the supervisor must still be
// able to connect. For each source there is a limit, and for all. Beyond it the oldest connection whose
// request has not arrived yet makes way for a new one. Without such a connection the new one is refused: a
// connection is never cut while it is answered.
type crowd struct {
	own func(conn net.Conn) bool // whether the client is on this host

	mu     sync.Mutex
	guests []*guest // the oldest first
}

// guest is an open connection.
type guest struct {
	conn     net.Conn
	source   netip.Prefix
	own      bool
	answered bool // its request has arrived
}

// follow is the ConnState callback of the server.
func (c *crowd) follow(conn net.Conn, state http.ConnState) {
	switch state {
	case http.StateNew:
		if refused := c.join(conn); refused != nil {
			_ = refused.Close() // the client gets no answer; that is intended
		}
	case http.StateActive, http.StateIdle:
		c.note(conn, state == http.StateActive)
	case http.StateClosed, http.StateHijacked:
		c.leave(conn)
	}
}

// join adds a connection. It returns the connection to close, or nil.
func (c *crowd) join(conn net.Conn) net.Conn {
	g := &guest{conn: conn, source: sourceOf(conn), own: c.own(conn)}
	places, perSource := otherPlaces, otherPerSource
	if g.own {
		places, perSource = ownPlaces, ownPerSource
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	all, same := 0, 0
	for _, other := range c.guests {
		if other.own == g.own {
			all++
		}
		if other.source == g.source {
			same++
		}
	}
	victim := -1
	switch {
	case same >= perSource:
		victim = slices.IndexFunc(c.guests, func(o *guest) bool { return !o.answered && o.source == g.source })
	case all >= places:
		victim = c.ofMost(g.own)
	default:
		c.guests = append(c.guests, g)
		return nil
	}
	if victim < 0 {
		return conn
	}
	first := c.guests[victim].conn
	c.guests = append(slices.Delete(c.guests, victim, victim+1), g)
	return first
}

// ofMost returns the index of the connection to close, the oldest of the source with the most; -1 for none.
func (c *crowd) ofMost(own bool) int {
	of := map[netip.Prefix]int{}
	for _, g := range c.guests {
		of[g.source]++
	}
	victim, most := -1, 0
	for i, g := range c.guests {
		if g.own == own && !g.answered && of[g.source] > most {
			victim, most = i, of[g.source]
		}
	}
	return victim
}

// note says whether a connection is being answered.
func (c *crowd) note(conn net.Conn, answered bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, g := range c.guests {
		if g.conn == conn {
			g.answered = answered
		}
	}
}

func (c *crowd) leave(conn net.Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.guests = slices.DeleteFunc(c.guests, func(g *guest) bool { return g.conn == conn })
}

// sourceOf returns the client's address, or its network of IPv6; the zero value for a socket without addresses.
func sourceOf(conn net.Conn) netip.Prefix {
	addr := ipOf(conn.RemoteAddr())
	bits := addr.BitLen()
	if addr.Is6() {
		bits = subnet64
	}
	source, err := addr.WithZone("").Prefix(bits)
	if err != nil {
		return netip.Prefix{}
	}
	return source
}

// fromHere reports whether the client is on this host. The kernel gives a connection to an address of its own host that
// address as its source, unless the client asks for another one. The client of a unix socket has no address.
func fromHere(conn net.Conn) bool {
	remote := ipOf(conn.RemoteAddr())
	return !remote.IsValid() || remote.IsLoopback() || remote == ipOf(conn.LocalAddr())
}

func ipOf(addr net.Addr) netip.Addr {
	if tcp, is := addr.(*net.TCPAddr); is {
		return tcp.AddrPort().Addr().Unmap()
	}
	return netip.Addr{}
}
