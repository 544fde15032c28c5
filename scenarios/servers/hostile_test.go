package servers

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/flanneld/flannel/drivers/remote"
	"github.com/flanneld/flannel/drivers/remote/server"
)

// TestChangesKeepTheHandle checks that the TTL handle of a record is the datastore's, whatever a
// client sends: with another one, a node could make its record a reservation, or let
// it end with the record of another node.
func TestChangesKeepTheHandle(t *testing.T) {
	d := newPrefix(startEtcd(t))
	s := client(t, remote.Options{Servers: []string{d.serve(t, server.Options{}, nil).addr}})
	synced(t, s)
	other, err := s.Create(t.Context(), key(t, "10.5.2.0-24"), hostGW("192.168.64.2"), time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	g, err := s.Create(t.Context(), key(t, "10.5.1.0-24"), hostGW("192.168.64.1"), time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	want := g.ID
	for i, id := range []int64{0, other.ID} {
		claimed := g
		claimed.ID = id
		updated, err := s.Update(t.Context(), claimed, hostGW(fmt.Sprintf("192.168.64.1%d", i)), time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		if updated.ID != want {
			t.Errorf("after an update with the handle %d, the record hangs on %d, want %d", id, updated.ID, want)
		}
		updated.ID = id
		g, err = s.Move(t.Context(), updated, key(t, fmt.Sprintf("10.5.%d.0-24", 10+i)), hostGW("192.168.64.1"), time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		if g.ID != want {
			t.Errorf("after a move with the handle %d, the record hangs on %d, want %d", id, g.ID, want)
		}
	}
}

// TestStalledBodies checks that clients that never send the body of a request do not keep others from
// changing their records, and that the server ends their requests.
func TestStalledBodies(t *testing.T) {
	d := newPrefix(startEtcd(t))
	addr := d.serve(t, server.Options{Limits: server.Limits{WritesPer: 1}, Timeout: 5 * time.Second}, nil).addr
	s := client(t, remote.Options{Servers: []string{addr}})
	synced(t, s)
	stalled, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = stalled.Close() }()
	if err := stalled.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	_, err = stalled.Write([]byte("POST /v1/_/leases HTTP/1.1\r\nHost: x\r\nFlannel-Terms: v=1\r\n" +
		"Content-Length: 10\r\nExpect: 100-continue\r\n\r\n"))
	if err != nil {
		t.Fatal(err)
	}
	reader := bufio.NewReader(stalled)
	if line, err := reader.ReadString('\n'); err != nil || line != "HTTP/1.1 100 Continue\r\n" { // it reads the body
		t.Fatalf("%q, %v", line, err)
	}
	if _, err := s.Create(t.Context(), key(t, "10.5.1.0-24"), hostGW("192.168.64.1"), time.Hour); err != nil {
		t.Error(err)
	}
	text, _ := io.ReadAll(reader) // the connection may be reset
	if !strings.Contains(string(text), "400 Bad Request") {
		t.Errorf("the stalled request got %q, want 400", text)
	}
}

// TestForeignSubnets checks that no client gets a subnet that is not in the network.
func TestForeignSubnets(t *testing.T) {
	d := newPrefix(startEtcd(t))
	d.Put(t, "config", `{"Network":"10.5.0.0/16"}`, 0)
	s := client(t, remote.Options{Servers: []string{d.serve(t, server.Options{}, nil).addr}})
	synced(t, s)
	g, err := s.Create(t.Context(), key(t, "10.5.1.0-24"), hostGW("192.168.64.1"), time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"0.0.0.0-1", "10.5.0.0-16", "10.6.1.0-24", "10.5.2.0-24&fd00::-64"} {
		_, created := s.Create(t.Context(), key(t, name), hostGW("192.168.64.1"), time.Hour)
		_, moved := s.Move(t.Context(), g, key(t, name), g.Attrs, time.Hour)
		for _, err := range []error{created, moved} {
			if err == nil || !strings.Contains(err.Error(), "400 Bad Request") {
				t.Errorf("%s: %v, want 400", name, err)
			}
		}
	}
}

// dialFrom opens a connection from an address of this host.
func dialFrom(t *testing.T, from, to string) net.Conn {
	t.Helper()
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}, Timeout: patience}
	c, err := d.Dial("tcp", to)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() }) // the test may have closed it
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	return c
}

// ask sends a request from an address, and returns the first line of the answer.
func ask(t *testing.T, from, to string) string {
	t.Helper()
	c := dialFrom(t, from, to)
	defer c.Close()
	if _, err := io.WriteString(c, "GET /v1/_/leases HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		return err.Error()
	}
	line, err := bufio.NewReader(c).ReadString('\n')
	if err != nil {
		return err.Error()
	}
	return strings.TrimSpace(line)
}

// answered waits until a server answers an address like that.
func answered(t *testing.T, from, to, want string) {
	t.Helper()
	eventually(t, want, func() bool { return ask(t, from, to) == want })
}

const served, refused = "HTTP/1.1 200 OK", "HTTP/1.1 429 Too Many Requests"

// TestIdleConnections checks that a client with many idle connections shuts out neither others nor itself:
// the oldest ones end.
func TestIdleConnections(t *testing.T) {
	d := newPrefix(startEtcd(t))
	addr := d.serve(t, server.Options{Limits: server.Limits{Open: 100, ConnsPer: 2}, Timeout: time.Hour}, nil).addr
	answered(t, "127.0.0.3", addr, served)
	var crowd []net.Conn
	for range 30 {
		crowd = append(crowd, dialFrom(t, "127.0.0.2", addr))
	}
	for _, from := range []string{"127.0.0.2", "127.0.0.3"} {
		if line := ask(t, from, addr); line != served {
			t.Errorf("%s gets %q", from, line)
		}
	}
	wantEnded(t, crowd[:20]) // of the limit of 2 and 8 in reserve
}

// wantEnded checks that the server has ended connections.
func wantEnded(t *testing.T, conns []net.Conn) {
	t.Helper()
	for i, c := range conns {
		if _, err := c.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("connection %d: %v, want its end", i, err)
		}
	}
}

// TestHalfOpenHandshakes checks that clients that begin handshakes and do not go on shut out no other client, even at
// their address: few of them wait at once.
func TestHalfOpenHandshakes(t *testing.T) {
	a, d := newAuthority(t), newPrefix(startEtcd(t))
	addr := a.secure(d, server.Options{OwnRecords: true, Timeout: time.Hour}).addr
	one := client(t, a.node("one", addr, ""))
	synced(t, one)
	g, err := one.Create(t.Context(), key(t, "10.5.1.0-24"), hostGW("127.0.0.1"), time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	var crowd []net.Conn
	for i := range 200 {
		c := dialFrom(t, "127.0.0.1", addr)
		if i%2 == 0 { // the first bytes of a greeting of 508 bytes
			if _, err := io.WriteString(c, "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"); err != nil {
				t.Fatal(err)
			}
		}
		crowd = append(crowd, c)
	}
	synced(t, client(t, a.node("two", addr, "")))
	if _, err := one.Renew(t.Context(), g); err != nil {
		t.Error(err)
	}
	wantEnded(t, crowd[:200-32])
	if !one.View().Synced {
		t.Error("a watch has ended")
	}
}

// TestManyRequests checks that a client with many open requests gets no further one, and others do.
func TestManyRequests(t *testing.T) {
	d := newPrefix(startEtcd(t))
	addr := d.serve(t, server.Options{Limits: server.Limits{ConnsPer: 2}}, nil).addr
	s := client(t, remote.Options{Servers: []string{addr}}) // its stream, from 127.0.0.1
	synced(t, s)
	watch := dialFrom(t, "127.0.0.1", addr)
	if _, err := io.WriteString(watch, "GET /v1/_/leases?next=999999 HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	answered(t, "127.0.0.1", addr, refused) // it is served until the second one has arrived
	if line := ask(t, "127.0.0.2", addr); line != served {
		t.Errorf("another client gets %q", line)
	}
}
