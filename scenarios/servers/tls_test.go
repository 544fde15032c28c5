package servers

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/flanneld/flannel/core/lease"
	"github.com/flanneld/flannel/drivers/remote"
	"github.com/flanneld/flannel/drivers/remote/server"
)

// authority signs certificates, and keeps all files in one folder.
type authority struct {
	t    *testing.T
	dir  string
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
	next int64
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{t: t, dir: t.TempDir(), next: 1}
	a.issue("ca", x509.Certificate{IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign})
	return a
}

func (a *authority) file(name string) string { return filepath.Join(a.dir, name) }

func (a *authority) write(name, kind string, der []byte) {
	a.t.Helper()
	text := pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
	if err := os.WriteFile(a.file(name), text, 0o600); err != nil {
		a.t.Fatal(err)
	}
}

// issue writes a pair, NAME.pem and NAME-key.pem. The first one signs all.
func (a *authority) issue(name string, c x509.Certificate) {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	c.SerialNumber = big.NewInt(a.next)
	a.next++
	c.Subject = pkix.Name{CommonName: name}
	c.NotBefore = time.Now().Add(-2 * time.Hour)
	if c.NotAfter.IsZero() {
		c.NotAfter = time.Now().Add(time.Hour)
	}
	c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	if a.cert == nil {
		a.cert, a.key = &c, key
	}
	der, err := x509.CreateCertificate(rand.Reader, &c, a.cert, &key.PublicKey, a.key)
	if err != nil {
		a.t.Fatal(err)
	}
	secret, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		a.t.Fatal(err)
	}
	a.write(name+".pem", "CERTIFICATE", der)
	a.write(name+"-key.pem", "EC PRIVATE KEY", secret)
}

// node issues a certificate with an address, and returns the client's options.
func (a *authority) node(name, addr, ip string) remote.Options {
	a.t.Helper()
	var c x509.Certificate
	if ip != "" {
		c.IPAddresses = []net.IP{net.ParseIP(ip)}
	}
	a.issue(name, c)
	return remote.Options{
		Servers: []string{addr}, CAFile: a.file("ca.pem"),
		CertFile: a.file(name + ".pem"), KeyFile: a.file(name + "-key.pem"),
	}
}

// secure runs a server with TLS that demands client certificates.
func (a *authority) secure(d datastore, o server.Options) running {
	a.t.Helper()
	a.issue("server", x509.Certificate{IPAddresses: []net.IP{net.ParseIP("127.0.0.1")}})
	secrets, err := server.TLS(a.file("server.pem"), a.file("server-key.pem"), a.file("ca.pem"))
	if err != nil {
		a.t.Fatal(err)
	}
	return d.serve(a.t, o, secrets)
}

func hostGW(ip string) lease.Attrs {
	return lease.Attrs{PublicIP: netip.MustParseAddr(ip), BackendType: "host-gw"}
}

// TestRights checks what nodes with a certificate may change: records that carry
// their address or that they created.
func TestRights(t *testing.T) {
	a, d := newAuthority(t), newPrefix(startEtcd(t))
	addr := a.secure(d, server.Options{OwnRecords: true}).addr
	one := client(t, a.node("one", addr, "192.168.64.1"))
	two := client(t, a.node("two", addr, "192.168.64.2"))
	nat := client(t, a.node("nat", addr, "")) // it comes from 127.0.0.1
	for _, s := range []*remote.Store{one, two, nat} {
		synced(t, s)
	}
	g, err := one.Create(t.Context(), key(t, "10.5.1.0-24"), hostGW("192.168.64.1"), time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the lease", func() bool { return len(two.View().Snapshot.Leases) == 1 })
	before, _ := d.Get(t, "subnets/10.5.1.0-24")
	if !strings.Contains(before.Value, `"Creator":"one"`) {
		t.Errorf("record %s does not name its creator", before.Value)
	}
	if shown := two.View().Snapshot.Leases[0].Attrs; shown.Creator != "" {
		t.Errorf("a node sees the creator %q", shown.Creator)
	}
	for _, s := range []*remote.Store{two, nat} {
		_, renewed := s.Renew(t.Context(), g)
		_, updated := s.Update(t.Context(), g, hostGW("192.168.64.2"), time.Hour)
		_, moved := s.Move(t.Context(), g, key(t, "10.5.9.0-24"), g.Attrs, time.Hour)
		released := s.Release(t.Context(), g)
		for i, err := range []error{renewed, updated, moved, released} {
			if err == nil || !strings.Contains(err.Error(), "403") || errors.Is(err, lease.ErrConflict) {
				t.Errorf("request %d for another node's record: %v, want 403", i, err)
			}
		}
	}
	if after, _ := d.Get(t, "subnets/10.5.1.0-24"); after != before {
		t.Errorf("refused requests changed the record from %+v to %+v", before, after)
	}

	// The creator of a record may change it, and so may the node whose address it carries.
	d.Put(t, "subnets/10.5.4.0-24", `{"PublicIP":"203.0.113.1","Creator":"one"}`, time.Hour)
	foreign := recordAt(t, one, "10.5.4.0-24")
	if _, err := one.Renew(t.Context(), lease.Grant{Lease: foreign}); err != nil {
		t.Errorf("the creator's renewal: %v", err)
	}
	if _, err := one.Update(t.Context(), lease.Grant{Lease: foreign}, foreign.Attrs, time.Hour); err != nil {
		t.Errorf("the creator's update: %v", err)
	}
	d.Put(t, "subnets/10.5.2.0-24", attrs2, time.Hour)
	d.Put(t, "subnets/10.5.3.0-24", `{"PublicIP":"127.0.0.1"}`, time.Hour)
	for s, name := range map[*remote.Store]string{two: "10.5.2.0-24", nat: "10.5.3.0-24"} {
		own := recordAt(t, s, name)
		if _, err := s.Renew(t.Context(), lease.Grant{Lease: own}); err != nil {
			t.Errorf("renewal of %s, which carries the node's own address: %v", name, err)
		}
	}
}

// recordAt waits for a record, and returns it.
func recordAt(t *testing.T, s *remote.Store, name string) (l lease.Lease) {
	t.Helper()
	eventually(t, name, func() bool {
		at := slices.IndexFunc(s.View().Snapshot.Leases, func(l *lease.Lease) bool { return l.Key == key(t, name) })
		if at >= 0 {
			l = *s.View().Snapshot.Leases[at]
		}
		return at >= 0
	})
	return l
}

// TestRightsToAddresses checks which addresses a node may write into a record: its own.
func TestRightsToAddresses(t *testing.T) {
	a, d := newAuthority(t), newPrefix(startEtcd(t))
	addr := a.secure(d, server.Options{OwnRecords: true}).addr
	two := client(t, a.node("two", addr, "192.168.64.2")) // nothing tells its IPv6 addresses
	nat := client(t, a.node("nat", addr, ""))             // it comes from 127.0.0.1
	dual := func(v4, v6 string) lease.Attrs {
		attrs := hostGW(v4)
		attrs.PublicIPv6 = netip.MustParseAddr(v6)
		return attrs
	}
	d.Put(t, "subnets/10.5.1.0-24", `{"PublicIP":"192.168.64.1","PublicIPv6":"fd00:a::1"}`, time.Hour)
	for _, s := range []*remote.Store{two, nat} {
		synced(t, s)
		recordAt(t, s, "10.5.1.0-24")
	}
	g, err := two.Create(t.Context(), key(t, "10.5.2.0-24"), dual("192.168.64.2", "fd00:a::2"), time.Hour)
	if err != nil {
		t.Fatalf("the own addresses: %v", err)
	}
	if _, err := nat.Create(t.Context(), key(t, "10.5.3.0-24"), hostGW("127.0.0.1"), time.Hour); err != nil {
		t.Fatalf("the address that the node comes from: %v", err)
	}
	for i, attrs := range []lease.Attrs{
		hostGW("192.168.64.1"), hostGW("192.168.64.9"), dual("192.168.64.2", "fd00:a::1"),
	} {
		_, created := two.Create(t.Context(), key(t, "10.5.9.0-24"), attrs, time.Hour)
		_, updated := two.Update(t.Context(), g, attrs, time.Hour)
		_, moved := two.Move(t.Context(), g, key(t, "10.5.9.0-24"), attrs, time.Hour)
		for j, err := range []error{created, updated, moved} {
			if err == nil || !strings.Contains(err.Error(), "403") {
				t.Errorf("addresses %d, request %d: %v, want 403", i, j, err)
			}
		}
	}
	if _, err := two.Update(t.Context(), g, dual("192.168.64.2", "fd00:a::22"), time.Hour); err != nil {
		t.Errorf("a free address of the other family: %v", err)
	}
}

// TestRightsOfOldClients checks the same rule for the old API.
func TestRightsOfOldClients(t *testing.T) {
	a, d := newAuthority(t), newPrefix(startEtcd(t))
	addr := a.secure(d, server.Options{OwnRecords: true}).addr
	c := oldClient{t, "https://" + addr, a.transport("two", "192.168.64.2")}
	d.Put(t, "config", oldConfig, 0)
	d.Put(t, "subnets/10.5.1.0-24", attrs1, time.Hour)
	eventually(t, "the lease", func() bool {
		return strings.HasPrefix(c.ask("GET", "/v1/_/leases/10.5.1.0-24", ""), "200")
	})
	for _, r := range [][3]string{
		{"POST", "/v1/_/leases", attrs1},
		{"POST", "/v1/_/leases", strings.Replace(attrs1, "192.168.64.1", "192.168.64.9", 1)},
		{"POST", "/v1/_/reservations", `{"Subnet":"10.5.8.0/24","PublicIP":"192.168.64.9"}`},
		{"PUT", "/v1/_/leases/10.5.1.0-24", `{"Subnet":"10.5.1.0/24","Attrs":` + attrs1 + `}`},
		{"DELETE", "/v1/_/leases/10.5.1.0-24", ""},
		{"POST", "/v1/_/reservations", `{"Subnet":"10.5.1.0/24","PublicIP":"192.168.64.1"}`},
	} {
		if got := c.ask(r[0], r[1], r[2]); !strings.HasPrefix(got, "403 ") {
			t.Errorf("%s %s: %s, want 403", r[0], r[1], got)
		}
	}
	if got := c.ask("POST", "/v1/_/leases", attrs2); !strings.HasPrefix(got, "200 ") || strings.Contains(got, "Creator") {
		t.Errorf("a lease of its own: %s", got)
	}
}

// TestRuleOff checks that without the option every node may change every record.
func TestRuleOff(t *testing.T) {
	a, d := newAuthority(t), newPrefix(startEtcd(t))
	addr := a.secure(d, server.Options{}).addr
	d.Put(t, "subnets/10.5.1.0-24", attrs1, time.Hour)
	s := client(t, a.node("two", addr, "192.168.64.2"))
	synced(t, s)
	if err := s.Release(t.Context(), lease.Grant{Lease: *s.View().Snapshot.Leases[0]}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the release", func() bool { return len(s.View().Snapshot.Leases) == 0 })
}

// TestClientsWithoutAnAnswer checks who gets no answer: clients without a certificate,
// with one of another authority, without TLS, and a client that trusts another authority.
func TestClientsWithoutAnAnswer(t *testing.T) {
	a, b := newAuthority(t), newAuthority(t)
	d := newPrefix(startEtcd(t))
	addr := a.secure(d, server.Options{}).addr
	good, foreign := a.node("one", addr, ""), b.node("one", addr, "")
	bare, misissued := good, good
	mistrustful := good
	bare.CertFile, bare.KeyFile = "", ""
	misissued.CertFile, misissued.KeyFile = foreign.CertFile, foreign.KeyFile
	mistrustful.CAFile = foreign.CAFile
	for name, o := range map[string]remote.Options{
		"no certificate": bare, "of another authority": misissued, "a server of another authority": mistrustful,
		"without TLS": {Servers: good.Servers},
	} {
		s := client(t, o)
		eventually(t, name, func() bool {
			err := s.View().Err
			return err != nil && !strings.Contains(err.Error(), "no server has answered yet")
		})
		if v := s.View(); v.Synced || v.Snapshot != nil {
			t.Errorf("%s: view %+v", name, v)
		}
	}
	synced(t, client(t, good))
}

// transport is an HTTP client with a node's certificate.
func (a *authority) transport(name, ip string) *http.Client {
	a.t.Helper()
	o := a.node(name, "", ip)
	pair, err := tls.LoadX509KeyPair(o.CertFile, o.KeyFile)
	if err != nil {
		a.t.Fatal(err)
	}
	pool := x509.NewCertPool()
	text, err := os.ReadFile(o.CAFile)
	if err != nil || !pool.AppendCertsFromPEM(text) {
		a.t.Fatal(err)
	}
	return &http.Client{Transport: &http.Transport{
		TLSClientConfig: &tls.Config{Certificates: []tls.Certificate{pair}, RootCAs: pool},
	}}
}
