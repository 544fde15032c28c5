package agent

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flanneld/flannel/core/node"
)

func serve(t *testing.T) *Server {
	t.Helper()
	s, err := Serve(t.Context(), Listen{Addr: "127.0.0.1:0"}, NewRoster(&Health{}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// Each stage of a request has a time limit.
func TestServerHasTimeouts(t *testing.T) {
	h := serve(t).http
	if h.ReadHeaderTimeout <= 0 || h.ReadTimeout <= 0 || h.WriteTimeout <= 0 || h.IdleTimeout <= 0 ||
		h.MaxHeaderBytes <= 0 {
		t.Errorf("no limit in %v %v %v %v %d", h.ReadHeaderTimeout, h.ReadTimeout, h.WriteTimeout, h.IdleTimeout,
			h.MaxHeaderBytes)
	}
}

// status asks for /status as a client at the address remote.
func status(listen Listen, h *Health, remote string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	r := httptest.NewRequest(http.MethodGet, "/status", nil)
	r.RemoteAddr = remote
	listen.handler(NewRoster(h)).ServeHTTP(w, r)
	return w
}

func TestStatusPage(t *testing.T) {
	h := &Health{}
	h.turn(time.Now(), time.Time{}, nil, node.Status{Phase: node.PhaseReady, Ready: true, Subnet: subnet, Peers: 3})
	w := status(Listen{}, h, "127.0.0.1:4711")
	var got struct {
		Phase, Subnet string
		Ready         bool
		Peers         int
	}
	if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	var whole node.Status
	if err := json.Unmarshal(w.Body.Bytes(), &whole); err != nil || whole.Phase != node.PhaseReady ||
		whole.Subnet != subnet {
		t.Errorf("read back as %+v, error %v", whole, err)
	}
	if got.Phase != "ready" || got.Subnet != "10.5.3.0-24" || !got.Ready || got.Peers != 3 {
		t.Errorf("got %+v", got)
	}
}

// The status names leases and errors, so other hosts and pods get it only with the flag.
func TestStatusIsOnlyForTheHost(t *testing.T) {
	for remote, want := range map[string]int{
		"127.0.0.1:1": http.StatusOK, "[::1]:1": http.StatusOK, "[::ffff:127.0.0.1]:1": http.StatusOK,
		"10.5.3.2:1": http.StatusForbidden, "[fe80::1%eth0]:1": http.StatusForbidden, "": http.StatusForbidden,
	} {
		if code := status(Listen{}, &Health{}, remote).Code; code != want {
			t.Errorf("%q gets %d, want %d", remote, code, want)
		}
		if code := status(Listen{OpenStatus: true}, &Health{}, remote).Code; code != http.StatusOK {
			t.Errorf("%q gets %d though the status is open", remote, code)
		}
	}
}

// A child of a killed daemon holds its listener for a moment.
func TestListenerThatIsHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for held, want := range map[time.Duration]error{time.Second: nil, time.Minute: syscall.EADDRINUSE} {
			free := time.Now().Add(held)
			_, err := untilFree(t.Context(), func() (net.Listener, error) {
				if time.Now().Before(free) {
					return nil, &net.OpError{Op: "listen", Err: os.NewSyscallError("bind", syscall.EADDRINUSE)}
				}
				return nil, nil
			})
			if !errors.Is(err, want) {
				t.Errorf("held for %v: %v", held, err)
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		began := time.Now()
		_, err := untilFree(ctx, func() (net.Listener, error) { return nil, syscall.EADDRINUSE })
		if !errors.Is(err, syscall.EADDRINUSE) || !time.Now().Equal(began) {
			t.Errorf("a daemon that ends waits for the address: %v", err)
		}
	})
}

func TestServer(t *testing.T) {
	ctx := context.Background()
	s, err := Serve(ctx, Listen{Addr: "127.0.0.1:0"}, NewRoster(&Health{}))
	if err != nil {
		t.Fatal(err)
	}
	addr := s.addr.String()
	if _, err := Serve(ctx, Listen{Addr: addr}, NewRoster(&Health{})); err == nil ||
		err.Error() != "health listener: listen tcp "+addr+": bind: address already in use" {
		t.Errorf("a taken port gives %v", err)
	}
	resp, err := http.Get("http://" + addr + "/healthz")
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(resp.Body)
	if string(body) != "flanneld is running" || err != nil {
		t.Errorf("body %q, %v", body, err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if resp, err := http.Get("http://" + addr + "/healthz"); err == nil {
		resp.Body.Close()
		t.Error("it still answers after Close")
	}
}
