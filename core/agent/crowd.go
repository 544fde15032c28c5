package agent

import (
	"container/list"
	"net"
	"net/http"
	"sync"
)

// crowd holds the open connections of a server, and closes the oldest when there
// are too many: any pod can open connections, and the supervisor must still be
// able to connect. The zero crowd is not usable; see newCrowd.
type crowd struct {
	limit int

	mu     sync.Mutex
	oldest *list.List // of net.Conn, the oldest first
	places map[net.Conn]*list.Element
}

func newCrowd(limit int) *crowd {
	return &crowd{limit: limit, oldest: list.New(), places: map[net.Conn]*list.Element{}}
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

// join adds a connection. It returns the connection to close in its favour, or nil.
func (c *crowd) join(conn net.Conn) net.Conn {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.places[conn] = c.oldest.PushBack(conn)
	if len(c.places) <= c.limit {
		return nil
	}
	first := c.oldest.Remove(c.oldest.Front()).(net.Conn)
	delete(c.places, first)
	return first
}

func (c *crowd) leave(conn net.Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if place, ok := c.places[conn]; ok {
		c.oldest.Remove(place)
		delete(c.places, conn)
	}
}
