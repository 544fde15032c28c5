package embedded

import (
	"context"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
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

// The socket is the owner's, also after a process that could not remove it. A data directory of a server that
// listened at an address is as good as any.
func TestServesAtItsSocketAndKeepsItsData(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new", "data")
	s := start(t, Options{Dir: dir, ListenClient: []string{"http://127.0.0.1:0"}})
	if got := s.Endpoints(); len(got) != 1 || !strings.HasPrefix(got[0], "http://127.0.0.1:") {
		t.Errorf("endpoints %v, want one on loopback", got)
	}
	if _, err := s.Client().Put(t.Context(), "k", "v"); err != nil {
		t.Fatal(err)
	}
	stop(t, s)

	socket := filepath.Join(dir, "client.sock")
	if err := os.WriteFile(socket, nil, 0o666); err != nil { // one that stayed has no server either
		t.Fatal(err)
	}
	s = start(t, Options{Dir: dir})
	defer stop(t, s)
	for file, want := range map[string]os.FileMode{dir: os.ModeDir | 0o700, socket: os.ModeSocket | 0o600} {
		if fi, err := os.Stat(file); err != nil || fi.Mode() != want {
			t.Errorf("%s: %v, %v, want mode %v", file, fi.Mode(), err, want)
		}
	}
	want := []string{"unix://" + socket}
	if got := s.Endpoints(); !slices.Equal(got, want) {
		t.Errorf("endpoints %v, want %v", got, want)
	}
	if n := len(s.etcd.Peers); n != 0 {
		t.Errorf("listens on %d addresses for members that do not exist", n)
	}

	c, err := clientv3.New(clientv3.Config{Endpoints: s.Endpoints(), Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if resp, err := c.Get(ctx, "k"); err != nil || len(resp.Kvs) != 1 || string(resp.Kvs[0].Value) != "v" {
		t.Errorf("after a restart: %v, %v, want the value put before", resp, err)
	}
}

func TestSocketURL(t *testing.T) {
	long := "/" + strings.Repeat("x", maxSocketPath-len("//client.sock"))
	for dir, want := range map[string]string{
		"/var/lib/flannel/etcd": "unix:///var/lib/flannel/etcd/client.sock",
		"/a b":                  "unix:///a b/client.sock",
		long:                    "unix://" + long + "/client.sock",
		long + "x": "the socket " + long + "x/client.sock has a path of 108 bytes, and the kernel allows 107: choose a " +
			"data directory whose path is shorter by 1",
		"/a%20b": `the data directory "/a%20b" has a character in its path that a URL cannot have: choose another`,
		"/a?b":   `the data directory "/a?b" has a character in its path that a URL cannot have: choose another`,
		"/a,b":   `the data directory "/a,b" has a character in its path that a URL cannot have: choose another`,
	} {
		got, err := SocketURL(dir)
		if err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%s:\ngot  %s\nwant %s", dir, got, want)
		}
	}
	for _, dir := range []string{filepath.Join(t.TempDir(), "a b"), filepath.Join(t.TempDir(), strings.Repeat("x", 100))} {
		s, err := Start(t.Context(), Options{Dir: dir, UnsafeNoSync: true})
		long := strings.HasSuffix(dir, "x")
		if long != (err != nil) {
			t.Errorf("%s: %v", dir, err)
		}
		if err == nil {
			stop(t, s)
		}
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
	taken := start(t, Options{Dir: t.TempDir(), ListenClient: []string{"http://127.0.0.1:0"}})
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
