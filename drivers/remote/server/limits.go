package server

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/flanneld/flannel/drivers/remote/api"
)

// manyClients is the number of clients above which the limiter forgets idle ones.
const manyClients = 10000

// silence is the time after which a client that sends nothing may send a whole burst again.
func (l Limits) silence() time.Duration {
	return time.Duration(float64(l.Burst) / l.Rate * float64(time.Second))
}

// limiter counts the requests of each client.
type limiter struct {
	limits Limits

	mu      sync.Mutex
	clients map[client]*account
}

type account struct {
	rate *rate.Limiter
	open int
	seen time.Time
}

// enter counts a request. It returns false if the client has sent too many, or
// has too many open.
func (l *limiter) enter(of client) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	c := l.clients[of]
	if c == nil {
		l.sweep(now)
		c = &account{rate: rate.NewLimiter(rate.Limit(l.limits.Rate), l.limits.Burst)}
		l.clients[of] = c
	}
	c.seen = now
	if c.open >= l.limits.ConnsPer || !c.rate.AllowN(now, 1) {
		return false
	}
	c.open++
	return true
}

func (l *limiter) leave(of client) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.clients[of].open--
}

// sweep makes room for a client. It forgets those that have no open request: at first those that have been
// silent for long, then, if there are too many, all of them.
func (l *limiter) sweep(now time.Time) {
	if l.clients == nil {
		l.clients = map[client]*account{}
	}
	for _, silence := range []time.Duration{l.limits.silence(), 0} {
		if len(l.clients) < manyClients {
			return
		}
		for of, c := range l.clients {
			if c.open == 0 && now.Sub(c.seen) >= silence {
				delete(l.clients, of)
			}
		}
	}
}

// limited refuses requests above the limits, and cuts bodies.
func (s *Server) limited(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		over := connIn(r.Context())
		if over != nil && !s.conns.answer(over) {
			panic(http.ErrAbortHandler) // the connection had to make room while the request arrived
		}
		r.Body = http.MaxBytesReader(w, r.Body, s.o.Limits.Body)
		if r.ContentLength != 0 { // without a body, the deadline would end a watch
			_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(s.o.Timeout)) // every connection has deadlines
		}
		of := clientOf(r, over)
		if !s.limits.enter(of) {
			s.tell(of)
			w.Header().Set("Retry-After", "1")
			w.Header().Set("Connection", "close")
			w.Header().Set("Content-Type", contentType)
			if r.Header.Get(api.Header) != "" {
				w.Header().Set(api.Header, api.Terms{}.String())
			}
			w.WriteHeader(http.StatusTooManyRequests)
			_, _ = fmt.Fprintf(w, "too many connections or requests from %s", of) // the client may be gone
			return
		}
		defer s.limits.leave(of)
		next.ServeHTTP(timed{w, http.NewResponseController(w), s.o.Patience}, r)
	})
}

// tell logs that a client is refused. It logs one of them a minute.
func (s *Server) tell(of client) {
	s.told.Do(func() {
		s.o.Log.Warn("a client has too many connections or sends too many requests; "+
			"if it stands for many nodes, raise --listen-client-connections or give nodes certificates of their own",
			"client", of.String(), "connections", s.o.Limits.ConnsPer)
	})
}

// slowest is the pace at which a client has to read, in bytes a second.
const slowest = 64 << 10

// timed gives each write of an answer a deadline.
type timed struct {
	http.ResponseWriter
	control  *http.ResponseController
	patience time.Duration
}

// Write implements [http.ResponseWriter].
func (w timed) Write(p []byte) (int, error) {
	allowed := w.patience + time.Duration(len(p))*time.Second/slowest
	_ = w.control.SetWriteDeadline(time.Now().Add(allowed)) // every connection has deadlines
	return w.ResponseWriter.Write(p)
}

// Unwrap returns the writer for [http.ResponseController].
func (w timed) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// connKey is the key of a request's connection in its context.
type connKey struct{}

// connIn returns the connection of a request; nil outside of Serve.
func connIn(ctx context.Context) *conn {
	over, _ := ctx.Value(connKey{}).(*conn)
	return over
}

// clientOf returns the client that has sent a request.
func clientOf(r *http.Request, over *conn) client {
	if over != nil {
		return over.of
	}
	return clientAt(addrOf(r.RemoteAddr))
}

// readWhole reads the body of a request before the request takes the place of another
// one: the client may send it slowly or not at all.
func (s *Server) readWhole(w http.ResponseWriter, r *http.Request) error {
	if r.ContentLength == 0 {
		return nil
	}
	over := connIn(r.Context())
	if over != nil {
		s.conns.wait(over) // it is the client's turn
	}
	text, err := io.ReadAll(r.Body)
	if over != nil && !s.conns.answer(over) {
		panic(http.ErrAbortHandler) // the connection had to make room
	}
	if err != nil {
		return bad(fmt.Errorf("body: %w", err))
	}
	r.Body = io.NopCloser(bytes.NewReader(text))
	// The deadline of the body would end the request that follows.
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{}) // every connection has deadlines
	return nil
}
