package daemon

import (
	"bytes"
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/flanneld/flannel/core/control"
	"github.com/flanneld/flannel/core/node"
)

// serve answers at the control socket of a subnet file, whose path it returns.
func serve(t *testing.T, handler http.HandlerFunc) string {
	t.Helper()
	subnetFile := filepath.Join(t.TempDir(), "subnet.env")
	l, err := net.Listen("unix", control.Socket(subnetFile))
	if err != nil {
		t.Fatal(err)
	}
	server := &httptest.Server{Listener: l, Config: &http.Server{Handler: handler}}
	server.Start()
	t.Cleanup(server.Close)
	return subnetFile
}

func TestLocal(t *testing.T) {
	asked := ""
	file := serve(t, func(w http.ResponseWriter, r *http.Request) {
		asked = r.URL.Path
		_, _ = w.Write([]byte(`{"Phase": "leased", "Peers": [], "Lanes": [], "Events": []}`))
	})
	c := Local(file)
	for page, ask := range map[string]func() error{
		control.PeersPage:  func() error { _, err := c.Peers(t.Context()); return err },
		control.DiffPage:   func() error { _, err := c.Diff(t.Context()); return err },
		control.StatePage:  func() error { _, err := c.State(t.Context()); return err },
		control.EventsPage: func() error { _, err := c.Events(t.Context()); return err },
	} {
		if err := ask(); err != nil || asked != page {
			t.Errorf("asked at %s, want %s: %v", asked, page, err)
		}
	}
}

// A node that answers with a redirect does not lead the operator's request to another place.
func TestRemoteFollowsNoRedirect(t *testing.T) {
	elsewhere := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		t.Errorf("asked for %s elsewhere", r.URL)
		_, _ = w.Write([]byte(`{"Phase": "leased"}`))
	}))
	defer elsewhere.Close()
	redirect := http.RedirectHandler(elsewhere.URL+"/secret", http.StatusTemporaryRedirect)
	server := httptest.NewServer(redirect)
	defer server.Close()
	dial := func(ctx context.Context) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", server.Listener.Addr().String())
	}
	for at, c := range map[string]*Client{
		server.URL: Remote(server.URL), "a pod": Through(dial, "a pod"), "": Local(serve(t, redirect.ServeHTTP)),
	} {
		_, err := c.Status(t.Context())
		const says = "its answer leads to another place (307 Temporary Redirect), where flannelctl does not go"
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want %q", at, err, says)
		}
	}
}

func TestRemote(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`{"Phase": "leased", "MTU": 1450}`))
	}))
	defer server.Close()
	for _, address := range []string{server.URL, server.URL + "/", strings.TrimPrefix(server.URL, "http://")} {
		if s, err := Remote(address).Status(t.Context()); err != nil || s.Phase != node.PhaseLeased || s.MTU != 1450 {
			t.Errorf("%s: %+v, %v", address, s, err)
		}
	}
}

// TestEndlessAnswer asks another program, which sends more than any daemon.
func TestEndlessAnswer(t *testing.T) {
	block := bytes.Repeat([]byte(" "), 1<<10)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, err := w.Write([]byte(`{"Peers":[]`))
		for err == nil {
			_, err = w.Write(block)
		}
	}))
	defer server.Close()
	c := Remote(strings.TrimPrefix(server.URL, "http://"))
	c.limit = 10 * int64(len(block))
	_, err := c.Peers(t.Context())
	if err == nil || !strings.Contains(err.Error(), "no flanneld") {
		t.Error(err)
	}
}

// A daemon of another host may listen elsewhere. No proxy stands between.
func TestRemoteThatRefuses(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	server.Close()
	c := Remote(server.URL)
	if _, err := c.Status(t.Context()); err == nil || !strings.Contains(err.Error(), "--healthz-ip") {
		t.Errorf("%v, want the flags of the listener in it", err)
	}
	if c.http.Transport.(*http.Transport).Proxy != nil {
		t.Error("the client asks a proxy")
	}
}

// Each reason for no answer has an error that says what to do.
func TestNoAnswer(t *testing.T) {
	dir := t.TempDir()
	stale := filepath.Join(dir, "stale")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: control.Socket(stale)})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	_ = l.Close()
	busy := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "flanneld is busy", http.StatusServiceUnavailable)
	})
	mute := serve(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) })
	empty := serve(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(`{"status":"ok"}`)) })
	none := serve(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("null")) })
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(control.Socket(file), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	odd := serve(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("odd")) })
	for file, want := range map[string]string{
		filepath.Join(dir, "absent"): "there is no socket",
		stale:                        "it has ended, or was killed",
		busy:                         ": flanneld is busy",
		mute:                         ": 502 Bad Gateway",
		odd:                          "read its answer",
		empty:                        "that is no flanneld",
		none:                         "that is no flanneld",
		file:                         "is no socket",
	} {
		if _, err := Local(file).Status(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q in it", file, err, want)
		}
	}
	ended, cancel := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
	defer cancel()
	if _, err := Local(busy).Status(ended); err == nil || !strings.Contains(err.Error(), "its process hangs") {
		t.Errorf("after the deadline: %v", err)
	}
}

// TestThrough asks by a way that may be what hangs, and then a daemon that hangs.
func TestThrough(t *testing.T) {
	ended, end := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
	defer end()
	stuck := func(ctx context.Context) (net.Conn, error) { return nil, context.Cause(ctx) }
	_, err := Through(stuck, "node n1").Status(ended)
	if err == nil || !strings.Contains(err.Error(), "the API server, or the kubelet behind it, does not answer") {
		t.Errorf("a way that hangs: %v", err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	ctx, timedOut := context.WithDeadline(ctx, time.Now().Add(time.Hour))
	defer timedOut()
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		cancel(context.DeadlineExceeded)
		<-r.Context().Done()
	}))
	defer server.Close()
	dial := func(ctx context.Context) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", strings.TrimPrefix(server.URL, "http://"))
	}
	_, err = Through(dial, "node n1").Status(ctx)
	if err == nil || strings.Contains(err.Error(), "API server") {
		t.Errorf("a daemon that hangs: %v", err)
	}
}

// WaitReady asks until the node is ready, or the context ends.
func TestWaitReady(t *testing.T) {
	asked := 0
	file := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		asked++
		if asked < 3 {
			_, _ = w.Write([]byte(`{"Phase": "leased"}`))
			return
		}
		_, _ = w.Write([]byte(`{"Phase": "ready", "Ready": true}`))
	})
	if s, err := Local(file).WaitReady(t.Context()); err != nil || !s.Ready || asked != 3 {
		t.Errorf("%+v, %v after %d questions", s, err, asked)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if _, err := Local(file).WaitReady(ended); err == nil || !strings.Contains(err.Error(), "in the time given") {
		t.Errorf("without any time: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := Local(filepath.Join(t.TempDir(), "absent")).WaitReady(ctx); err == nil {
		t.Error("no error though no daemon answers")
	}
}
