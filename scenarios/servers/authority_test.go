package servers

import (
	"context"
	"crypto/x509"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/flanneld/flannel/drivers/etcd"
	"github.com/flanneld/flannel/drivers/etcd/embedded"
	"github.com/flanneld/flannel/drivers/remote"
	"github.com/flanneld/flannel/drivers/remote/server"
)

// files is a folder with the certificates in use: ca.pem, server.pem and node.pem with their keys. All of them may
// be replaced.
type files string

func (f files) at(name string) string { return filepath.Join(string(f), name) }

// from replaces all files by those of a new authority.
func (f files) from(t *testing.T, a *authority) {
	t.Helper()
	for _, name := range []string{"server", "node"} {
		a.issue(name, x509.Certificate{IPAddresses: []net.IP{net.ParseIP("127.0.0.1")}})
	}
	for _, name := range []string{"ca.pem", "server.pem", "server-key.pem", "node.pem", "node-key.pem"} {
		text, err := os.ReadFile(a.file(name))
		if err == nil {
			err = os.WriteFile(f.at(name+".new"), text, 0o600)
		}
		if err == nil {
			err = os.Rename(f.at(name+".new"), f.at(name))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func (f files) remote(addr string) remote.Options {
	return remote.Options{
		Servers: []string{addr}, CAFile: f.at("ca.pem"), CertFile: f.at("node.pem"), KeyFile: f.at("node-key.pem"),
	}
}

// TestNewAuthorityOfServers replaces the authority of servers and nodes with all its certificates. The running server
// lets a node with a new certificate in and one with a former certificate not, and a running node follows a server
// with a new one.
func TestNewAuthorityOfServers(t *testing.T) {
	d, f := newPrefix(startEtcd(t)), files(t.TempDir())
	f.from(t, newAuthority(t))
	secrets, err := server.TLS(f.at("server.pem"), f.at("server-key.pem"), f.at("ca.pem"))
	if err != nil {
		t.Fatal(err)
	}
	first := d.serve(t, server.Options{}, secrets)
	old := client(t, f.remote(first.addr))
	synced(t, old)
	former := files(t.TempDir())
	for _, name := range []string{"node.pem", "node-key.pem"} {
		text, err := os.ReadFile(f.at(name))
		if err == nil {
			err = os.WriteFile(former.at(name), text, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	f.from(t, newAuthority(t))
	synced(t, client(t, f.remote(first.addr)))
	outdated := f.remote(first.addr)
	outdated.CertFile, outdated.KeyFile = former.at("node.pem"), former.at("node-key.pem")
	refused := client(t, outdated)
	eventually(t, "a refusal", func() bool { return attempted(refused) })

	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the outage", func() bool { return !old.View().Synced })
	d.serveAt(t, first.addr, server.Options{}, secrets)
	synced(t, old)
	if refused.View().Synced {
		t.Error("a certificate of the former authority is let in")
	}
}

// attempted reports whether a store has tried to follow a server, and failed.
func attempted(s *remote.Store) bool {
	v := s.View()
	return !v.Synced && v.Err != nil && v.Err.Error() != "no server has answered yet"
}

// TestNewAuthorityOfEtcd replaces the authority of etcd and its clients with all its certificates.
func TestNewAuthorityOfEtcd(t *testing.T) {
	f, dir := files(t.TempDir()), t.TempDir()
	f.from(t, newAuthority(t))
	start := func(url string) *embedded.Server {
		t.Helper()
		started, err := embedded.Start(context.Background(), embedded.Options{
			Dir: dir, ListenClient: []string{url}, UnsafeNoSync: true,
			CertFile: f.at("server.pem"), KeyFile: f.at("server-key.pem"), ClientCAFile: f.at("ca.pem"),
		})
		if err != nil {
			t.Fatal(err)
		}
		return started
	}
	first := start("https://127.0.0.1:0")
	endpoint := first.Endpoints()[0]
	s, err := etcd.Open(t.Context(), etcd.Options{
		Endpoints: []string{endpoint}, Prefix: "/test", Timeout: 10 * time.Second, Heartbeat: time.Second,
		CAFile: f.at("ca.pem"), CertFile: f.at("node.pem"), KeyFile: f.at("node-key.pem"),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	synced(t, s)
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	f.from(t, newAuthority(t))
	eventually(t, "the outage", func() bool { return !s.View().Synced })
	second := start(endpoint)
	synced(t, s)
	if _, err := s.Create(t.Context(), key(t, "10.5.1.0-24"), hostGW("192.168.64.1"), time.Hour); err != nil {
		t.Error(err)
	}
	if err := second.Close(); err != nil {
		t.Error(err)
	}
}
