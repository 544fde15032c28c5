package agent

import (
	"net"
	"net/http"
	"slices"
	"sync"
)

// crowd holds the open connections of a server, and closes the oldest when there
// are too many: any pod can open connections, and the supervisor must still be
// able to connect.
type crowd struct {
	limit int

	mu    sync.Mutex
	conns []net.Conn // the oldest first
}

// follow is the ConnState callback of the server.
func (c *crowd) follow(conn net.Conn, state http.ConnState) {
	switch state {
	case http.StateNew:
		if first := c.join(conn); first != nil {
			_ = first.Close() // the client loses its answer; that is intended
		}
	case http.StateClosed, http.StateHijacked:
		c.leave(conn)
	}
}

// join adds a connection. It returns the connection to close in exchange, or nil.
func (c *crowd) join(conn net.Conn) net.Conn {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.conns = append(c.conns, conn)
	if len(c.conns) <= c.limit {
		return nil
	}
	first := c.conns[0]
	c.conns = slices.Delete(c.conns, 0, 1)
	return first
}

func (c *crowd) leave(conn net.Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.conns = slices.DeleteFunc(c.conns, func(open net.Conn) bool { return open == conn })
}
