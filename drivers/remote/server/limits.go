package server

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/flanneld/flannel/drivers/remote/api"
)

// manyClients is the number of clients above which the limiter forgets idle ones.
const manyClients = 10000

// limiter counts the requests of each client.
type limiter struct {
	limits Limits

	mu      sync.Mutex
	clients map[netip.Addr]*client
}

type client struct {
	rate *rate.Limiter
	open int
	seen time.Time
}

// enter counts a request. It returns false if the client has sent too many, or
// has too many open.
func (l *limiter) enter(addr netip.Addr) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	c := l.clients[addr]
	if c == nil {
		l.sweep(now)
		c = &client{rate: rate.NewLimiter(rate.Limit(l.limits.Rate), l.limits.Burst)}
		l.clients[addr] = c
	}
	c.seen = now
	if c.open >= l.limits.OpenPer || !c.rate.AllowN(now, 1) {
		return false
	}
	c.open++
	return true
}

func (l *limiter) leave(addr netip.Addr) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.clients[addr].open--
}

// sweep forgets clients that have no open request and have been silent for long.
func (l *limiter) sweep(now time.Time) {
	if l.clients == nil {
		l.clients = map[netip.Addr]*client{}
	}
	if len(l.clients) < manyClients {
		return
	}
	for addr, c := range l.clients {
		if c.open == 0 && now.Sub(c.seen) > time.Minute {
			delete(l.clients, addr)
		}
	}
}

// limited refuses requests above the limits, and cuts bodies.
func (s *Server) limited(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		addr := addrOf(r.RemoteAddr)
		if !s.limits.enter(addr) {
			w.Header().Set("Retry-After", "1")
			w.Header().Set("Content-Type", contentType)
			if r.Header.Get(api.Header) != "" {
				w.Header().Set(api.Header, api.Terms{}.String())
			}
			w.WriteHeader(http.StatusTooManyRequests)
			_, _ = fmt.Fprintf(w, "too many requests from %s", addr) // the client may be gone
			return
		}
		defer s.limits.leave(addr)
		r.Body = http.MaxBytesReader(w, r.Body, s.o.Limits.Body)
		if r.ContentLength != 0 { // without a body, the deadline would end a watch
			_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(s.o.Timeout)) // every connection has deadlines
		}
		next.ServeHTTP(w, r)
	})
}

// readWhole reads the body of a request before the request takes the place of another
// one: the client may send it slowly or not at all.
func readWhole(w http.ResponseWriter, r *http.Request) error {
	if r.ContentLength == 0 {
		return nil
	}
	text, err := io.ReadAll(r.Body)
	if err != nil {
		return bad(fmt.Errorf("body: %w", err))
	}
	r.Body = io.NopCloser(bytes.NewReader(text))
	// The deadline of the body would end the request that follows.
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{}) // every connection has deadlines
	return nil
}
