package embedded

import (
	"context"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

func start(t *testing.T, o Options) *Server {
	t.Helper()
	o.UnsafeNoSync = true
	s, err := Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func stop(t *testing.T, s *Server) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

func TestServesOnLoopbackAndKeepsItsData(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new", "data")
	s := start(t, Options{Dir: dir})
	if fi, err := os.Stat(dir); err != nil || fi.Mode().Perm() != 0o700 {
		t.Errorf("data directory: %v, %v, want mode 0700", fi.Mode(), err)
	}
	endpoints := s.Endpoints()
	if len(endpoints) != 1 {
		t.Fatalf("endpoints %v, want one", endpoints)
	}
	u, err := url.Parse(endpoints[0])
	if err != nil {
		t.Fatal(err)
	}
	if a, err := netip.ParseAddrPort(u.Host); err != nil || !a.Addr().IsLoopback() || a.Port() == 0 {
		t.Errorf("endpoint %s, want a port on loopback", u)
	}
	if n := len(s.etcd.Peers); n != 0 {
		t.Errorf("listens on %d addresses for members that do not exist", n)
	}

	c, err := clientv3.New(clientv3.Config{Endpoints: endpoints, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if _, err := c.Put(ctx, "k", "v"); err != nil {
		t.Fatal(err)
	}
	stop(t, s)

	s = start(t, Options{Dir: dir, ListenClient: endpoints})
	defer stop(t, s)
	if got := s.Endpoints(); got[0] != endpoints[0] {
		t.Errorf("endpoints %v, want the given %v", got, endpoints)
	}
	if resp, err := c.Get(ctx, "k"); err != nil || len(resp.Kvs) != 1 || string(resp.Kvs[0].Value) != "v" {
		t.Errorf("after a restart: %v, %v, want the value put before", resp, err)
	}
}

func TestSeedConfig(t *testing.T) {
	s := start(t, Options{Dir: t.TempDir()})
	defer stop(t, s)
	for _, step := range []struct {
		prefix, data string
		stored       bool
		want         string
	}{
		{"/a", "first", true, "first"},
		{"/a", "second", false, "first"},
		{"/a/", "third", false, "first"},
		{"/b", "other", true, "other"},
	} {
		stored, err := SeedConfig(t.Context(), s.Client(), step.prefix, []byte(step.data))
		if err != nil || stored != step.stored {
			t.Errorf("seed %s with %s: %v, %v, want %v", step.prefix, step.data, stored, err, step.stored)
		}
		key := strings.TrimSuffix(step.prefix, "/") + "/config"
		resp, err := s.Client().Get(t.Context(), key)
		if err != nil || len(resp.Kvs) != 1 || string(resp.Kvs[0].Value) != step.want {
			t.Errorf("%s after seeding %s: %v, %v, want %s", key, step.data, resp, err, step.want)
		}
	}
}

func TestStartErrors(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	taken := start(t, Options{Dir: t.TempDir()})
	defer stop(t, taken)
	tests := map[string]struct {
		o    Options
		want string
	}{
		"no directory": {Options{}, "embedded etcd: no data directory given"},
		"a file": {
			Options{Dir: file},
			"embedded etcd: create data directory: mkdir " + file + ": not a directory",
		},
		"no URL": {
			Options{Dir: t.TempDir(), ListenClient: []string{"http://[::1"}},
			`embedded etcd: listen address: parse "http://[::1": missing ']' in host`,
		},
		"a port in use": {
			Options{Dir: t.TempDir(), ListenClient: taken.Endpoints()},
			"address already in use",
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			s, err := Start(t.Context(), tt.o)
			if err == nil {
				stop(t, s)
				t.Fatal("started")
			}
			if !strings.HasSuffix(err.Error(), tt.want) {
				t.Errorf("error %q, want it to end in %q", err, tt.want)
			}
		})
	}
}

func TestReachable(t *testing.T) {
	for _, tt := range [][2]string{
		{"0.0.0.0:1", "127.0.0.1:1"},
		{"[::]:1", "[::1]:1"},
		{"[::ffff:0.0.0.0]:1", "127.0.0.1:1"},
		{"192.0.2.1:1", "192.0.2.1:1"},
	} {
		if got := reachable(netip.MustParseAddrPort(tt[0])).String(); got != tt[1] {
			t.Errorf("reachable(%s) = %s, want %s", tt[0], got, tt[1])
		}
	}
}
