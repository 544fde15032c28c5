package agent

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/flanneld/flannel/core/control"
)

// ofHost says that only clients at 127.0.0.1 and 127.0.0.9 are the host's own. The other addresses of 127.0.0.0/8
// stand for pods.
func ofHost(conn net.Conn) bool {
	last := ipOf(conn.RemoteAddr()).As4()[3]
	return last == 1 || last == 9
}

// from returns a dialer whose connections come from 127.0.0.N.
func from(n byte) *net.Dialer {
	return &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, n)}}
}

// hostile are clients that keep their connections. Each returns what it writes.
var hostile = map[string]string{
	"half-open":    "",
	"slow headers": "GET /healthz HTTP/1.1\r\nHost: n\r\nX-Slow: ",
	"no end":       "GET /healthz HTTP/1.1\r\nHost: n\r\n",
	"idle":         "GET /healthz HTTP/1.1\r\nHost: n\r\n\r\n",
	"a body":       "POST /healthz HTTP/1.1\r\nHost: n\r\nContent-Length: 100000\r\n\r\nx",
	"no read":      "GET /large HTTP/1.1\r\nHost: n\r\n\r\n",
	"pipelined":    strings.Repeat("GET /healthz HTTP/1.1\r\nHost: n\r\n\r\n", 1000),
}

// attack opens connections from an address until ctx ends, and keeps the last ones.
func attack(ctx context.Context, dialer *net.Dialer, server, request string, opened *atomic.Int64) {
	const kept = otherPlaces + otherPerSource // more than the server keeps, and all together below 4,096 files
	var conns []net.Conn
	for ctx.Err() == nil {
		conn, err := dialer.DialContext(ctx, "tcp", server)
		if err != nil {
			continue
		}
		_ = conn.(*net.TCPConn).SetReadBuffer(1)
		_ = conn.SetWriteDeadline(time.Now().Add(time.Second))
		_, _ = io.WriteString(conn, request)
		opened.Add(1)
		conns = append(conns, conn)
		if len(conns) > kept {
			_ = conns[0].Close()
			conns = conns[1:]
		}
	}
	for _, conn := range conns {
		_ = conn.Close()
	}
}

// attacked returns the address of a server with hostile clients of all kinds at it, each from the addresses.
func attacked(t *testing.T, sources ...byte) (addr string, opened []*atomic.Int64) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.Handle("/", Listen{}.handler(NewRoster(&Health{})))
	large := strings.Repeat("x", 16<<20) // more than the buffers of a connection hold
	unread := func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, large) }
	mux.Handle("/large", few(http.HandlerFunc(unread)))
	s := serveAt(l, mux, ofHost)
	t.Cleanup(func() { _ = s.Close() })
	ctx, cancel := context.WithCancel(t.Context())
	var attacks sync.WaitGroup
	for _, source := range sources {
		for _, request := range hostile {
			count := new(atomic.Int64)
			opened = append(opened, count)
			attacks.Go(func() { attack(ctx, from(source), l.Addr().String(), request, count) })
		}
	}
	t.Cleanup(attacks.Wait)
	t.Cleanup(cancel)
	return l.Addr().String(), opened
}

// probed asks for a page as kubelet does, by a connection of its own.
func probed(ctx context.Context, dialer *net.Dialer, addr, page string) error {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second) // a hanging server, not a slow machine
	defer cancel()
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: dialer.DialContext}}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr+page, nil)
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		return err
	}
	if page == "/healthz" && resp.StatusCode != http.StatusOK {
		return fmt.Errorf("status %d", resp.StatusCode)
	}
	return nil
}

// TestProbesBesideHostileClients probes from the node's own address while pods open connections of all bad kinds, and
// then while a program at another address of the host does.
func TestProbesBesideHostileClients(t *testing.T) {
	for name, sources := range map[string][]byte{"pods": {2, 3}, "another address": {9}} {
		t.Run(name, func(t *testing.T) {
			addr, opened := attacked(t, sources...)
			failed, probes := 0, 0
			for busy := true; busy || probes < 100; probes++ {
				if err := probed(t.Context(), from(1), addr, []string{"/healthz", "/readyz"}[probes%2]); err != nil {
					failed++
					t.Logf("probe %d: %v", probes, err)
				}
				busy = false
				for _, count := range opened {
					busy = busy || count.Load() < otherPlaces
				}
			}
			if failed > 0 {
				t.Errorf("%d of %d probes had no answer", failed, probes)
			}
		})
	}
}

// pipe is a connection with addresses.
type pipe struct {
	net.Conn
	local, remote string
}

func (p *pipe) LocalAddr() net.Addr { return net.TCPAddrFromAddrPort(netip.MustParseAddrPort(p.local)) }
func (p *pipe) RemoteAddr() net.Addr {
	return net.TCPAddrFromAddrPort(netip.MustParseAddrPort(p.remote))
}

// by returns a new connection of a client to 192.168.64.1.
func by(client string) *pipe { return &pipe{local: "192.168.64.1:8081", remote: client} }

// TestCrowdLimits fills the places of a crowd from several sources.
func TestCrowdLimits(t *testing.T) {
	c := &crowd{own: fromHere}
	answered := by("10.5.1.2:1")
	c.join(answered)
	c.note(answered, true)
	second := by("10.5.1.2:2")
	c.join(second)
	for i := 2; i < otherPerSource; i++ {
		if refused := c.join(by("10.5.1.2:3")); refused != nil {
			t.Fatalf("connection %d of a source: %v makes way", i, refused)
		}
	}
	if refused := c.join(by("10.5.1.2:4")); refused != net.Conn(second) {
		t.Errorf("beyond the limit of a source %v makes way, want the oldest that is not answered", refused)
	}
	for _, client := range []string{"[fd00::1]:1", "[fd00::2:0:0:1]:1", "[fd00::ffff:0:0:1]:1"} {
		for range otherPerSource {
			c.join(by(client))
		}
	}
	if of := len(c.guests); of != 2*otherPerSource {
		t.Errorf("%d connections, of which an IPv6 network of 64 bits should have %d", of, otherPerSource)
	}
	for i := range byte(100) {
		c.join(by(fmt.Sprintf("10.5.2.%d:1", i)))
	}
	if len(c.guests) != otherPlaces || c.guests[0].conn != net.Conn(answered) {
		t.Errorf("%d connections, want %d and the answered one among them", len(c.guests), otherPlaces)
	}
	for _, client := range []string{"192.168.64.1:1", "127.0.0.1:1", "[::1]:1", "[::ffff:127.0.0.1]:1"} {
		if refused := c.join(by(client)); refused != nil {
			t.Errorf("%v makes way for %s, which has places of its own", refused, client)
		}
	}
	for _, g := range c.guests {
		c.note(g.conn, true)
	}
	if late := by("10.5.9.9:1"); c.join(late) != net.Conn(late) {
		t.Error("a connection that is answered makes way")
	}
	for _, g := range append([]*guest(nil), c.guests...) {
		c.leave(g.conn)
	}
	if len(c.guests) > 0 {
		t.Errorf("%d connections stay", len(c.guests))
	}
}

// TestLargeAnswersAreFew asks for large pages without reading, and then once more.
func TestLargeAnswersAreFew(t *testing.T) {
	block, begun := make(chan struct{}), make(chan struct{}, manyPages)
	handler := few(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { begun <- struct{}{}; <-block }))
	var asked sync.WaitGroup
	for range manyPages {
		asked.Go(func() { body(handler, control.StatePage) })
		<-begun
	}
	if text := body(handler, control.StatePage); !strings.Contains(text, "too many clients") {
		t.Errorf("one more gets %q", text)
	}
	close(block)
	asked.Wait()
	if text := body(handler, control.StatePage); text != "" {
		t.Errorf("afterwards a client gets %q", text)
	}
}
