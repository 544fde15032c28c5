package servers

import (
	"bufio"
	"fmt"
	"io"
	"net"
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
