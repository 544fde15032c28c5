package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"syscall"
	"time"

	"k8s.io/klog/v2"

	"github.com/flanneld/flannel/core/control"
	"github.com/flanneld/flannel/core/node"
)

// The limits of the server. Its clients are supervisors, which ask a few times a
// minute, and any other program that reaches the port.
const (
	maxHeader    = 8 << 10 // bytes
	readTimeout  = 5 * time.Second
	writeTimeout = 10 * time.Second
	idleTimeout  = 30 * time.Second

	// manyPages is the number of large answers that may be under way. A client that reads none keeps a place
	// until the time for writing is up; the small answers of probes have none to wait for.
	manyPages = 8

	// closeGrace is the longest time that running requests delay Close.
	closeGrace = 500 * time.Millisecond

	// listenFor is how long ListenTCP tries to get an address that is in use, and listenAgain the pause between tries.
	listenFor   = 2 * time.Second
	listenAgain = 20 * time.Millisecond
)

// Listen is the address of the server, and who may read which page.
type Listen struct {
	Addr       string       // of TCP
	Metrics    http.Handler // answers /metrics, to every client; nil: there is no such page
	OpenStatus bool         // answer the pages of package control to every client, not only to those on this host
}

// Server answers the health requests of supervisors.
type Server struct {
	http *http.Server
	addr net.Addr
}

// Serve answers requests about the nodes until Close. The number of open connections is bounded.
func Serve(ctx context.Context, listen Listen, nodes *Roster) (*Server, error) {
	l, err := ListenTCP(ctx, listen.Addr)
	if err != nil {
		return nil, fmt.Errorf("health listener: %w", err)
	}
	return ServeAt(l, listen.handler(nodes)), nil
}

// ListenTCP listens at an address. A daemon that was killed while it started another program can leave its
// listener to that child until the child runs the program. So ListenTCP tries for a moment while the address is in use.
func ListenTCP(ctx context.Context, addr string) (net.Listener, error) {
	var lc net.ListenConfig
	return untilFree(ctx, func() (net.Listener, error) { return lc.Listen(ctx, "tcp", addr) })
}

// untilFree tries to listen, and tries again for a moment while the address is in use.
func untilFree(ctx context.Context, listen func() (net.Listener, error)) (net.Listener, error) {
	for end := time.Now().Add(listenFor); ; {
		l, err := listen()
		if !errors.Is(err, syscall.EADDRINUSE) || time.Now().After(end) {
			return l, err
		}
		select {
		case <-ctx.Done():
			return nil, err
		case <-time.After(listenAgain):
		}
	}
}

// ServeAt answers requests of any client at a listener until Close. A connection has one request, so no
// client keeps a place, or asks again without reading.
func ServeAt(l net.Listener, handler http.Handler) *Server { return serveAt(l, handler, fromHere) }

func serveAt(l net.Listener, handler http.Handler, own func(net.Conn) bool) *Server {
	s := newServer(withoutBody(handler), own)
	s.http.SetKeepAlivesEnabled(false)
	s.addr = l.Addr()
	go s.accept(l)
	return s
}

// withoutBody waits for no body of a request.
func withoutBody(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength != 0 {
			_ = http.NewResponseController(w).SetReadDeadline(time.Now())
		}
		handler.ServeHTTP(w, r)
	})
}

// few lets a handler answer a few clients at once.
func few(handler http.Handler) http.Handler {
	places := make(chan struct{}, manyPages)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case places <- struct{}{}:
			defer func() { <-places }()
			handler.ServeHTTP(w, r)
		default:
			http.Error(w, "flanneld is busy: it answers too many clients at once", http.StatusServiceUnavailable)
		}
	})
}

// newServer returns a server without a listener.
func newServer(handler http.Handler, own func(net.Conn) bool) *Server {
	return &Server{http: &http.Server{
		Handler:           handler,
		ConnState:         (&crowd{own: own}).follow,
		MaxHeaderBytes:    maxHeader,
		ReadHeaderTimeout: readTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       idleTimeout,
	}}
}

// accept answers requests at a listener until that or the server is closed.
func (s *Server) accept(l net.Listener) {
	err := s.http.Serve(l)
	if !errors.Is(err, http.ErrServerClosed) && !errors.Is(err, net.ErrClosed) {
		klog.Errorf("listener %s: %v", l.Addr(), err)
	}
}

// Close stops listening at once and cuts off slow requests soon after.
func (s *Server) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), closeGrace)
	defer cancel()
	if s.http.Shutdown(ctx) == nil {
		return nil
	}
	return s.http.Close()
}

func (listen Listen) handler(nodes *Roster) http.Handler {
	mux, pages := http.NewServeMux(), http.NewServeMux()
	mux.Handle("/", few(pages))
	mux.HandleFunc("/healthz", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, "flanneld is running", "flanneld is not healthy",
			reasons(nodes.All(), func(v verdict) []string { return v.unhealthy }))
	})
	mux.HandleFunc("/readyz", func(w http.ResponseWriter, r *http.Request) {
		of := nodes.All()
		if r.URL.Query().Has(control.NetworkParameter) {
			h, err := asked(of, r)
			if err != nil {
				http.Error(w, err.Error(), http.StatusNotFound)
				return
			}
			of = []*Health{h}
		}
		why := reasons(of, verdict.unready)
		if reason := nodes.Waiting(); reason != "" {
			why = append([]string{reason}, why...)
		}
		answer(w, "flanneld is ready", "flanneld is not ready yet", why)
	})
	if listen.Metrics != nil {
		pages.Handle("GET /metrics", listen.Metrics)
	}
	addPages(pages, nodes, anyone, func(r *http.Request) bool { return listen.OpenStatus || fromThisHost(r) })
	return mux
}

// reasons collects those of all nodes, each with the name of its network.
func reasons(nodes []*Health, of func(verdict) []string) []string {
	var all []string
	for _, h := range nodes {
		for _, reason := range of(h.verdict(time.Now())) {
			if h.Network != "" {
				reason = "network " + h.Network + ": " + reason
			}
			all = append(all, reason)
		}
	}
	return all
}

// everyone allows every client to ask.
func everyone(*http.Request) bool { return true }

// asked returns the node that a request asks for. With several, it names the network.
func asked(nodes []*Health, r *http.Request) (*Health, error) {
	name := r.URL.Query().Get(control.NetworkParameter)
	if len(nodes) == 1 && name == "" {
		return nodes[0], nil
	}
	names := make([]string, len(nodes))
	for i, h := range nodes {
		if h.Network == name && name != "" {
			return h, nil
		}
		names[i] = h.Network
	}
	if len(nodes) == 0 {
		return nil, errors.New("no network runs here")
	}
	return nil, fmt.Errorf("no network %q here; ask for one of %s, as %s?%s=%s", name, strings.Join(names, ", "),
		r.URL.Path, control.NetworkParameter, names[0])
}

// addPages adds the pages of package control, for the allowed clients, as the reader may have them.
func addPages(mux *http.ServeMux, nodes *Roster, to reader, allowed func(*http.Request) bool) {
	for path, page := range map[string]func(h *Health, to reader) (answer any, ok bool){
		control.StatusPage: (*Health).status,
		control.PeersPage:  (*Health).peers,
		control.DiffPage:   (*Health).diff,
		control.StatePage:  (*Health).state,
		control.EventsPage: (*Health).events,
	} {
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, r *http.Request) {
			if !allowed(r) {
				http.Error(w, path+" answers requests from loopback; --healthz-status opens it to others", http.StatusForbidden)
				return
			}
			h, err := asked(nodes.All(), r)
			if err != nil {
				http.Error(w, err.Error(), http.StatusNotFound)
				return
			}
			answer, ok := page(h, to)
			if !ok {
				http.Error(w, "flanneld is busy: its node does not answer", http.StatusServiceUnavailable)
				return
			}
			w.Header().Set("Content-Type", "application/json")
			enc := json.NewEncoder(w)
			enc.SetIndent("", "  ")
			// An error here means that the client has disconnected.
			_ = enc.Encode(answer)
		})
	}
}

// fromThisHost reports whether the client's address is a loopback address.
func fromThisHost(r *http.Request) bool {
	client, err := netip.ParseAddrPort(r.RemoteAddr)
	return err == nil && client.Addr().Unmap().IsLoopback()
}

// answer writes good with status 200, or bad and the reasons with 503.
func answer(w http.ResponseWriter, good, bad string, reasons []string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	text := good
	if len(reasons) > 0 {
		w.WriteHeader(http.StatusServiceUnavailable)
		text = bad + "\n" + strings.Join(reasons, "\n")
	}
	_, _ = io.WriteString(w, text)
}

// unready lists the reasons why the node is not ready. It is empty if the node is ready.
func (v verdict) unready() []string {
	switch {
	case !v.started:
		return append(v.stalled, "starting")
	case v.pulse.Phase != node.PhaseReady && len(v.pulse.Reasons) == 0:
		return append(v.stalled, "the node is "+v.pulse.Phase.String())
	}
	return append(v.stalled, v.pulse.Reasons...)
}
