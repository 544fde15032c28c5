package servers

import (
	"bufio"
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/flanneld/flannel/core/lease"
	"github.com/flanneld/flannel/drivers/remote"
	"github.com/flanneld/flannel/drivers/remote/api"
	"github.com/flanneld/flannel/drivers/remote/server"
)

// TestFailover ends one server of two, then starts it again and ends the other.
// The client keeps its snapshot, follows the changes and writes all the time.
func TestFailover(t *testing.T) {
	d := newPrefix(startEtcd(t))
	servers := [2]running{d.serve(t, server.Options{}, nil), d.serve(t, server.Options{}, nil)}
	s := client(t, remote.Options{Servers: []string{servers[0].addr, servers[1].addr}})
	synced(t, s)
	attrs, err := lease.DecodeAttrs([]byte(attrs1))
	if err != nil {
		t.Fatal(err)
	}
	g, err := s.Create(t.Context(), key(t, "10.5.1.0-24"), attrs, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	for round := range 4 {
		ended := servers[round%2]
		if err := ended.Close(); err != nil {
			t.Fatal(err)
		}
		g, err = s.Renew(t.Context(), g)
		if err != nil {
			t.Fatalf("round %d: renewal with one server of two: %v", round, err)
		}
		name := "subnets/10.5." + string(rune('2'+round)) + ".0-24"
		d.Put(t, name, attrs2, 0)
		eventually(t, "the change", func() bool {
			v := s.View()
			return v.Synced && len(v.Snapshot.Leases) == 2+round
		})
		servers[round%2] = d.serveAt(t, ended.addr, server.Options{}, nil)
	}
}

// TestOutage ends the only server. The client keeps its snapshot and says why it
// is not synced.
func TestOutage(t *testing.T) {
	d := newPrefix(startEtcd(t))
	only := d.serve(t, server.Options{}, nil)
	d.Put(t, "subnets/10.5.1.0-24", attrs1, 0)
	s := client(t, remote.Options{Servers: []string{only.addr}})
	synced(t, s)
	if err := only.Close(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the outage", func() bool { v := s.View(); return !v.Synced && v.Err != nil })
	if v := s.View(); len(v.Snapshot.Leases) != 1 {
		t.Errorf("the snapshot of an outage is %+v", v.Snapshot)
	}
	d.Delete(t, "subnets/10.5.1.0-24")
	d.serveAt(t, only.addr, server.Options{}, nil)
	eventually(t, "the deletion during the outage", func() bool {
		v := s.View()
		return v.Synced && len(v.Snapshot.Leases) == 0
	})
}

// TestResume checks that a client continues at another server without the whole list if
// it has missed nothing.
func TestResume(t *testing.T) {
	d := newPrefix(startEtcd(t))
	d.Put(t, "config", oldConfig, 0)
	d.Put(t, "subnets/10.5.1.0-24", attrs1, 0)
	var state string
	for i := range 2 {
		addr := d.serve(t, server.Options{}, nil).addr
		f := firstLine(t, addr, "")
		if !f.Whole || len(f.Leases) != 1 || f.Config == nil {
			t.Fatalf("server %d begins with %+v, want all", i, f)
		}
		if i > 0 && f.State != state {
			t.Errorf("two servers have the states %q and %q of one content", state, f.State)
		}
		state = f.State
		if f := firstLine(t, addr, state); f.Whole || f.Leases != nil || f.State != "" {
			t.Errorf("a client that knows all gets %+v", f)
		}
		if f := firstLine(t, addr, "another"); !f.Whole {
			t.Errorf("a client of an unknown state gets %+v", f)
		}
	}
}

// firstLine opens a watch and reads its first line.
func firstLine(t *testing.T, addr, state string) api.Frame {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr+remote.DefaultPrefix+"/leases", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set(api.Header, api.Terms{State: state}.String())
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	line, err := bufio.NewReader(resp.Body).ReadBytes('\n')
	if err != nil {
		t.Fatal(err)
	}
	f, err := api.ParseFrame(line)
	if err != nil {
		t.Fatal(err)
	}
	return f
}
