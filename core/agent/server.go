package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"k8s.io/klog/v2"

	"github.com/flanneld/flannel/core/node"
)

// closeGrace is how long requests that are being answered may hold up an end.
const closeGrace = 500 * time.Millisecond

// Server answers the health requests of supervisors.
type Server struct {
	http *http.Server
	addr net.Addr
}

// Serve answers at a TCP address from what h knows, until Close.
func Serve(ctx context.Context, addr string, h *Health) (*Server, error) {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("health listener: %w", err)
	}
	s := &Server{addr: l.Addr(), http: &http.Server{
		Handler:           h.handler(),
		ReadHeaderTimeout: 5 * time.Second,
	}}
	go func() {
		if err := s.http.Serve(l); err != nil && err != http.ErrServerClosed {
			klog.Errorf("health listener %s: %v", l.Addr(), err)
		}
	}()
	return s, nil
}

// Addr is where the server listens.
func (s *Server) Addr() net.Addr { return s.addr }

// Close stops listening at once and cuts off slow requests soon after.
func (s *Server) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), closeGrace)
	defer cancel()
	if s.http.Shutdown(ctx) == nil {
		return nil
	}
	return s.http.Close()
}

func (h *Health) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/healthz", func(w http.ResponseWriter, _ *http.Request) {
		v := h.verdict(time.Now())
		answer(w, "flanneld is running", "flanneld is not healthy", v.unhealthy)
	})
	mux.HandleFunc("/readyz", func(w http.ResponseWriter, _ *http.Request) {
		v := h.verdict(time.Now())
		answer(w, "flanneld is ready", "flanneld is not ready yet", v.unready())
	})
	mux.HandleFunc("/status", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		enc := json.NewEncoder(w)
		enc.SetIndent("", "  ")
		// The client is gone if this fails; there is nobody to tell.
		_ = enc.Encode(h.verdict(time.Now()).page())
	})
	return mux
}

// answer says good with status 200, or bad and why with 503.
func answer(w http.ResponseWriter, good, bad string, reasons []string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	text := good
	if len(reasons) > 0 {
		w.WriteHeader(http.StatusServiceUnavailable)
		text = bad + "\n" + strings.Join(reasons, "\n")
	}
	_, _ = io.WriteString(w, text)
}

// unready lists why the node is not ready; empty: it is.
func (v verdict) unready() []string {
	reasons := v.stalled
	switch {
	case !v.started:
		reasons = append(reasons, "starting")
	case !v.status.Ready && len(v.status.Reasons) == 0:
		reasons = append(reasons, "the node is "+v.status.Phase.String())
	case !v.status.Ready:
		reasons = append(reasons, v.status.Reasons...)
	}
	return reasons
}

// page is the status as JSON, with the values of the core spelt for people.
type page struct {
	Phase  string
	Subnet string
	node.Status
	Unhealthy []string
}

func (v verdict) page() page {
	p := page{Phase: v.status.Phase.String(), Status: v.status, Unhealthy: v.unhealthy}
	if v.status.Subnet.IsValid() {
		p.Subnet = v.status.Subnet.String()
	}
	return p
}
