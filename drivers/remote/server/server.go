package server

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/flanneld/flannel/core/lease"
	"github.com/flanneld/flannel/drivers/remote/api"
)

// unnamed is the name of the unnamed network in a path.
const unnamed = "_"

// contentType is the content type of every answer (interop 3.9: server API).
const contentType = "application/json; charset=utf-8"

// Server serves the API at one listener.
type Server struct {
	o      Options
	http   http.Server
	limits limiter
	conns  *crowd
	lists  lists
	told   rate.Sometimes // about clients that are refused
	writes chan struct{}  // holds a value for each change under way

	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	work   sync.WaitGroup

	mu     sync.Mutex
	feeds  map[string]*feed // by the network's name
	former map[string]*feed // of networks whose config has gone
	absent map[string]*feed // of networks that have had no config in this run, and that clients name
	names  *names           // nil without networks
}

// New starts a server of the unnamed network, and of the networks that exist. It
// serves nothing before Serve.
func New(ctx context.Context, o Options) (*Server, error) {
	o = o.withDefaults()
	s := &Server{
		o: o, limits: limiter{limits: o.Limits}, lists: lists{most: o.Limits.Lists},
		conns: newCrowd(o.Limits.ConnsPer+spare, o.Limits.Open), told: rate.Sometimes{Interval: time.Minute},
		writes: make(chan struct{}, o.Limits.WritesPer),
		feeds:  map[string]*feed{}, former: map[string]*feed{}, absent: map[string]*feed{},
	}
	s.ctx, s.cancel = context.WithCancel(ctx)
	if _, err := s.open(""); err != nil {
		s.cancel()
		return nil, err
	}
	if o.Networks != nil {
		s.names = newNames()
		s.work.Go(func() { s.followNetworks(o.Networks) })
	}
	s.http = http.Server{
		Handler:           s.limited(s.routes()),
		ReadHeaderTimeout: o.Timeout, WriteTimeout: o.Patience, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 16 << 10,
		BaseContext: func(net.Listener) context.Context { return s.ctx },
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			return context.WithValue(ctx, connKey{}, connOf(c))
		},
		ConnState: s.conns.follow,
		ErrorLog:  log.New(quiet{o.Log}, "", 0),
	}
	return s, nil
}

// quiet logs the complaints of net/http about single connections at the level Debug:
// any port scanner causes them.
type quiet struct{ log *slog.Logger }

func (q quiet) Write(p []byte) (int, error) {
	q.log.Debug("connection of a client", "says", string(p))
	return len(p), nil
}

// Serve answers at a listener until Close. Secrets may be nil, for no TLS.
func (s *Server) Serve(l net.Listener, secrets *tls.Config) error {
	err := s.http.Serve(newGate(s.ctx, l, secrets, s.conns, s.o))
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return fmt.Errorf("serve at %s: %w", l.Addr(), err)
}

// Close ends all requests, watches too, and closes the stores. Clients go on at
// another server.
func (s *Server) Close() error {
	s.cancel()
	err := s.http.Close()
	s.work.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, feeds := range []map[string]*feed{s.feeds, s.former, s.absent} {
		for _, f := range feeds {
			f.close()
		}
	}
	return err
}

// routes are the paths of interop 3.9 (server API).
func (s *Server) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/{$}", s.watchNetworks)
	mux.HandleFunc("GET /v1/{net}/config", s.on(s.getConfig))
	mux.HandleFunc("GET /v1/{net}/leases", s.on(s.watchLeases))
	mux.HandleFunc("GET /v1/{net}/leases/{key}", s.on(s.watchLease))
	mux.HandleFunc("GET /v1/{net}/reservations", s.on(s.listReservations))
	mux.HandleFunc("POST /v1/{net}/leases", s.change(s.acquire, s.create))
	mux.HandleFunc("PUT /v1/{net}/leases/{key}", s.change(s.renewOld, s.put))
	mux.HandleFunc("DELETE /v1/{net}/leases/{key}", s.change(s.revokeOld, s.release))
	mux.HandleFunc("POST /v1/{net}/reservations", s.change(s.reserve, nil))
	mux.HandleFunc("DELETE /v1/{net}/reservations/{key}", s.change(s.unreserve, nil))
	return mux
}

// call is one request to a network.
type call struct {
	*http.Request
	feed  *feed
	terms api.Terms // of one of our own clients
	ours  bool      // the client sent terms
}

// on finds the network of a request, and turns an error into an answer.
func (s *Server) on(handle func(http.ResponseWriter, call) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		c := call{Request: r}
		err := func() (err error) {
			if header := r.Header.Get(api.Header); header != "" {
				c.ours = true
				c.terms, err = api.ParseTerms(header)
				if err != nil {
					return bad(err)
				}
			}
			c.feed, err = s.feedOf(r.PathValue("net"))
			if err != nil && c.ours && s.names != nil {
				c.feed, err = s.formerFeed(r.PathValue("net"), r.Method)
			}
			if err != nil {
				return err
			}
			return handle(w, c)
		}()
		if err != nil {
			s.refuse(w, c, err)
		}
	}
}

// change is on for requests that change something. Clients that send terms have a
// handler of their own.
func (s *Server) change(old, ours func(http.ResponseWriter, call) error) http.HandlerFunc {
	return s.on(func(w http.ResponseWriter, c call) error {
		if err := s.readWhole(w, c.Request); err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(c.Context(), s.o.Timeout)
		defer cancel()
		c.Request = c.WithContext(ctx)
		select {
		case s.writes <- struct{}{}:
		case <-ctx.Done():
			return unavailable(errors.New("too many changes are under way"))
		}
		defer func() { <-s.writes }()
		if c.ours && ours != nil {
			return ours(w, c)
		}
		return old(w, c)
	})
}

// statusError is an error with the status of its answer.
type statusError struct {
	code int
	err  error
}

func (e *statusError) Error() string { return e.err.Error() }
func (e *statusError) Unwrap() error { return e.err }

func bad(err error) error         { return &statusError{http.StatusBadRequest, err} }
func forbidden(err error) error   { return &statusError{http.StatusForbidden, err} }
func unavailable(err error) error { return &statusError{http.StatusServiceUnavailable, err} }

// refuse answers with an error. Old clients get 400, or 500 for all else
// (interop 3.9).
func (s *Server) refuse(w http.ResponseWriter, c call, err error) {
	code := http.StatusInternalServerError
	if known := new(statusError); errors.As(err, &known) {
		code = known.code
	}
	terms := api.Terms{}
	conflict := new(lease.ConflictError)
	switch {
	case !c.ours && code != http.StatusBadRequest && code != http.StatusForbidden:
		code = http.StatusInternalServerError
	case errors.As(err, &conflict):
		code = http.StatusConflict
		terms = api.Terms{Key: conflict.Key, Revision: conflict.Revision}
	case errors.Is(err, lease.ErrLost):
		code = http.StatusGone
	}
	w.Header().Set("Content-Type", contentType)
	if c.ours {
		w.Header().Set(api.Header, terms.String())
	}
	w.WriteHeader(code)
	_, _ = fmt.Fprint(w, err) // the client may be gone
}

// feedOf returns the feed of a network that exists.
func (s *Server) feedOf(name string) (*feed, error) {
	if name == unnamed {
		name = ""
	}
	s.mu.Lock()
	f := s.feeds[name]
	s.mu.Unlock()
	if f == nil {
		return nil, fmt.Errorf("network %q does not exist", name)
	}
	return f, nil
}

// open starts the feed of a network, or takes the one that it has had.
func (s *Server) open(name string) (f *feed, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f = cmp.Or(s.former[name], s.absent[name])
	if f == nil {
		f, err = s.newFeedOf(name)
	}
	if err != nil {
		return nil, err
	}
	delete(s.former, name)
	delete(s.absent, name)
	s.feeds[name] = f
	return f, nil
}

// newFeedOf opens the datastore of a network.
func (s *Server) newFeedOf(name string) (*feed, error) {
	store, err := s.o.Open(name)
	if err != nil {
		return nil, fmt.Errorf("open the datastore of network %q: %w", name, err)
	}
	return newFeed(s.ctx, store), nil
}
