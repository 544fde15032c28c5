package server

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/flanneld/flannel/core/lease"
	"github.com/flanneld/flannel/drivers/remote"
)

// dial opens a connection from an address. Its receive buffer is as small as the kernel allows.
func dial(t *testing.T, from, to string) net.Conn {
	t.Helper()
	d := net.Dialer{
		LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}, Timeout: patience,
		Control: func(_, _ string, raw syscall.RawConn) (err error) {
			controlled := raw.Control(func(fd uintptr) {
				err = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, 1)
			})
			if controlled != nil {
				return controlled
			}
			return err
		},
	}
	c, err := d.Dial("tcp", to)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() }) // the server may have closed it
	return c
}

// say sends a text over a connection that the server may have closed.
func say(c net.Conn, text string) { _, _ = io.WriteString(c, text) }

// honest are clients that nothing may disturb: a node that watches and renews, and a client of the old API
// that waits for each change.
type honest struct {
	t      *testing.T
	cancel context.CancelFunc
	work   sync.WaitGroup
	mu     sync.Mutex
	rounds int // of all of them
}

func newHonest(t *testing.T, addr string) *honest {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	h := &honest{t: t, cancel: cancel}
	node, err := remote.Open(ctx, remote.Options{Servers: []string{addr}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(node.Close)
	eventually(t, "the node follows the server", func() bool { return node.View().Synced })
	g, err := node.Create(ctx, lease.Key{V4: netip.MustParsePrefix("10.4.1.0/24")},
		lease.Attrs{PublicIP: netip.MustParseAddr("127.0.0.1"), BackendType: "vxlan"}, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	h.keep(ctx, func() error {
		if v := node.View(); !v.Synced {
			return fmt.Errorf("the node's view: %w", v.Err)
		}
		_, err := node.Renew(ctx, g)
		return err
	})
	cursor := ""
	h.keep(ctx, func() error {
		next, err := watchOld(ctx, "http://"+addr+"/v1/_/leases"+cursor)
		cursor = "?next=" + next
		return err
	})
	return h
}

// keep repeats something until the honest clients stop. The server may need the room of a connection before the
// request comes, and closes it; then a client tries again.
func (h *honest) keep(ctx context.Context, do func() error) {
	h.work.Go(func() {
		for ctx.Err() == nil {
			err := do()
			if errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) {
				continue
			}
			if err != nil && ctx.Err() == nil {
				h.t.Errorf("honest client: %v", err)
				return
			}
			h.mu.Lock()
			h.rounds++
			h.mu.Unlock()
		}
	})
}

// further waits until the honest clients have done more.
func (h *honest) further(rounds int) {
	h.t.Helper()
	h.mu.Lock()
	want := h.rounds + rounds
	h.mu.Unlock()
	eventually(h.t, "the honest clients get on", func() bool {
		h.mu.Lock()
		defer h.mu.Unlock()
		return h.rounds >= want || h.t.Failed()
	})
}

func (h *honest) stop() {
	h.cancel()
	h.work.Wait()
}

// watchOld asks as a client of the old API does, and returns the cursor.
func watchOld(ctx context.Context, url string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		return "", fmt.Errorf("%s: %.100q, %w", resp.Status, body, err)
	}
	_, rest, _ := strings.Cut(string(body), `"cursor":"`)
	cursor, _, _ := strings.Cut(rest, `"`)
	return cursor, nil
}

// inUse returns the heap in use and the stacks, in MB, after a collection.
func inUse() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return (m.HeapInuse + m.StackInuse) >> 20
}

// heldBytes returns the bytes of lists that are being sent.
func (s *Server) heldBytes() int {
	s.lists.mu.Lock()
	defer s.lists.mu.Unlock()
	return s.lists.held
}

// TestClientsThatReadNothing opens 1,500 connections from one address, asks for all leases by each API, and
// reads nothing, while the leases change.
func TestClientsThatReadNothing(t *testing.T) {
	const leases, most = 2000, 4 << 20
	m := newMemory(leases)
	limits := Limits{Lists: most, Rate: 1e6, Burst: 1e6}
	s := serve(t, m, Options{Patience: 2 * time.Second, Limits: limits}, nil)
	h := newHonest(t, s.addr)
	h.further(100)
	before, largest := inUse(), uint64(0)
	for i := range 1500 {
		c := dial(t, "127.0.0.2", s.addr)
		terms := ""
		if i%2 == 0 {
			terms = "Flannel-Terms: v=1\r\n"
		}
		say(c, "GET /v1/_/leases HTTP/1.1\r\nHost: x\r\n"+terms+"\r\n")
		if i%4 == 0 {
			m.touch(i)
		}
		if i%100 == 99 {
			h.further(5)
			largest = max(largest, inUse())
		}
		if n := s.connectionsFrom("127.0.0.2"); n > DefaultConnsPer+spare {
			t.Fatalf("%d connections of one client, want %d at most", n, DefaultConnsPer+spare)
		}
		if held := s.heldBytes(); held > most {
			t.Fatalf("%d bytes of lists are being sent, want %d at most", held, most)
		}
	}
	t.Logf("%d MB before, %d MB at most while 1,500 connections read nothing", before, largest)
	h.further(100)
	eventually(t, "the end of the answers that are not read", func() bool { return s.heldBytes() == 0 })
	h.further(100)
	h.stop()
}

// TestStalledClients sends headers and bodies that never end, bytes that are no HTTP, and nothing. The server ends
// all of these connections, and honest clients notice nothing.
func TestStalledClients(t *testing.T) {
	m := newMemory(10)
	s := serve(t, m, Options{Timeout: 2 * time.Second, Limits: Limits{Rate: 1e6, Burst: 1e6}}, nil)
	h := newHonest(t, s.addr)
	var conns []net.Conn
	for i := range 500 {
		c := dial(t, "127.0.0.2", s.addr)
		conns = append(conns, c)
		switch i % 6 {
		case 0: // nothing
			continue
		case 1:
			say(c, "GET /v1/_/leases HTTP/1.1\r\nHost: x\r\nX-")
		case 2:
			say(c, "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03")
		case 3:
			say(c, "POST /v1/_/leases HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{")
		case 4:
			say(c, "PUT /v1/_/leases HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\nExpect: 100-continue\r\n\r\n")
		case 5:
			say(c, "POST /v1/_/leases HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffff\r\n")
		}
		m.touch(i % 10)
	}
	h.further(100)
	for i, c := range conns {
		if err := c.SetReadDeadline(time.Now().Add(patience)); err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, c); err != nil && !strings.Contains(err.Error(), "reset") {
			t.Fatalf("connection %d, of kind %d: %v", i, i%6, err)
		}
	}
	h.further(100)
	h.stop()
}

// TestConnectionFlood opens connections from many addresses, more than the server holds. Watches go on, and a
// new client finds room.
func TestConnectionFlood(t *testing.T) {
	m := newMemory(10)
	s := serve(t, m, Options{Timeout: time.Hour, Limits: Limits{Open: 64, ConnsPer: 8, Rate: 1e6, Burst: 1e6}}, nil)
	h := newHonest(t, s.addr)
	for i := range 600 {
		_ = dial(t, fmt.Sprintf("127.0.1.%d", 1+i%30), s.addr)
		m.touch(i % 10)
		if n := s.connections(); n > 64 {
			t.Fatalf("%d connections, want 64 at most", n)
		}
	}
	h.further(100)
	if answer := ask(t, dial(t, "127.0.0.9", s.addr)); !strings.Contains(answer, "200 OK") {
		t.Errorf("a new client gets %q", answer)
	}
	h.stop()
}

// ask asks for the leases and returns the first line of the answer.
func ask(t *testing.T, c net.Conn) string {
	t.Helper()
	say(c, "GET /v1/_/leases HTTP/1.1\r\nHost: x\r\n\r\n")
	if err := c.SetReadDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(c).ReadString('\n')
	if err != nil {
		return err.Error()
	}
	return strings.TrimSpace(line)
}

// TestManyWatches fills one client's connections with watches. None of them ends for a further connection,
// which learns why it is refused.
func TestManyWatches(t *testing.T) {
	m := newMemory(10)
	s := serve(t, m, Options{Limits: Limits{ConnsPer: 4}}, nil)
	var watches []net.Conn
	for i := range 4 {
		c := dial(t, "127.0.0.2", s.addr)
		say(c, "GET /v1/_/leases?next=1 HTTP/1.1\r\nHost: x\r\n\r\n")
		watches = append(watches, c)
		eventually(t, "the watch", func() bool { return s.answering() == i+1 })
	}
	for range 20 {
		if answer := ask(t, dial(t, "127.0.0.2", s.addr)); !strings.Contains(answer, "429 Too Many Requests") {
			t.Errorf("a further connection gets %q", answer)
		}
	}
	for range 50 {
		_ = dial(t, "127.0.0.2", s.addr)
	}
	if answer := ask(t, dial(t, "127.0.0.3", s.addr)); !strings.Contains(answer, "200 OK") {
		t.Errorf("another client gets %q", answer)
	}
	m.touch(1)
	for _, c := range watches {
		if answer := ask(t, c); !strings.Contains(answer, "200 OK") { // and it asks again
			t.Errorf("a watch ends with %q", answer)
		}
	}
}

// answering returns how many connections are being answered.
func (s *Server) answering() int {
	s.conns.mu.Lock()
	defer s.conns.mu.Unlock()
	return s.conns.all.open - s.conns.all.waiting.Len()
}

// TestConnectionsOfNodes counts what honest nodes hold: 40 nodes behind one address are served without a
// refusal.
func TestConnectionsOfNodes(t *testing.T) {
	const nodes = 40
	m := newMemory(10)
	s := serve(t, m, Options{}, nil)
	var stores []*remote.Store
	for i := range nodes {
		node, err := remote.Open(t.Context(), remote.Options{Servers: []string{s.addr}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(node.Close)
		stores = append(stores, node)
		eventually(t, "the node follows the server", func() bool { return node.View().Synced })
		_, err = node.Create(t.Context(), keyAt(100+i), lease.Attrs{
			PublicIP: netip.AddrFrom4([4]byte{192, 168, 64, byte(i)}), BackendType: "vxlan",
		}, time.Hour)
		if err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%d nodes hold %d connections, of which %d are being answered", nodes, s.connections(), s.answering())
	if got := s.answering(); got != nodes {
		t.Errorf("%d connections are being answered, want one watch for each node", got)
	}
	if got := s.connections(); got > 2*nodes {
		t.Errorf("%d connections, want two for each node at most", got)
	}
	for i, node := range stores {
		if !node.View().Synced {
			t.Errorf("node %d does not follow the server", i)
		}
	}
}
