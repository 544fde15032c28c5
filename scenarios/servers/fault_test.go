package servers

import (
	"context"
	"crypto/x509"
	"net"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/flanneld/flannel/core/lease"
	"github.com/flanneld/flannel/drivers/etcd"
	"github.com/flanneld/flannel/drivers/etcd/embedded"
	"github.com/flanneld/flannel/drivers/remote"
	"github.com/flanneld/flannel/drivers/remote/server"
	"github.com/flanneld/flannel/internal/storefault"
)

// wantFault waits until a store says why it does not follow the datastore.
func wantFault(t *testing.T, what string, s lease.Store, want lease.Fault) {
	t.Helper()
	eventually(t, what+": "+string(want), func() bool {
		v := s.View()
		return !v.Synced && lease.FaultOf(storefault.Mark(v.Err)) == want
	})
}

// openAt opens a store at an etcd.
func openAt(t *testing.T, o etcd.Options) *etcd.Store {
	t.Helper()
	o.Prefix = "/test"
	o.Timeout, o.Heartbeat = time.Second, time.Second
	s, err := etcd.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// TestFaultsOfCertificates connects to etcd and to a server with certificates that are wrong in various ways.
func TestFaultsOfCertificates(t *testing.T) {
	d, local := newPrefix(startEtcd(t)), []net.IP{net.ParseIP("127.0.0.1")}
	a, b := newAuthority(t), newAuthority(t)
	a.issue("good", x509.Certificate{IPAddresses: local})
	a.issue("old", x509.Certificate{IPAddresses: local, NotAfter: time.Now().Add(-time.Hour)})
	a.issue("elsewhere", x509.Certificate{IPAddresses: []net.IP{net.ParseIP("192.0.2.1")}})
	b.issue("good", x509.Certificate{IPAddresses: local})
	file := func(of *authority, name string) string {
		if name == "" {
			return ""
		}
		return of.file(name)
	}
	for _, c := range []struct {
		what, server string
		client       string
		by           *authority // of the client's certificate
		trusts       *authority
		want         lease.Fault
	}{
		{"an expired certificate of the datastore", "old", "good", a, a, lease.FaultExpired},
		{"an expired certificate of the node", "good", "old", a, a, lease.FaultExpired},
		{"another authority of the datastore", "good", "good", a, b, lease.FaultAuthority},
		{"another authority of the node", "good", "good", b, a, lease.FaultAuthority},
		{"no certificate of the node", "good", "", a, a, lease.FaultCertificate},
		{"a certificate of another host", "elsewhere", "good", a, a, lease.FaultCertificate},
	} {
		cert, key := "", ""
		if c.client != "" {
			cert, key = c.client+".pem", c.client+"-key.pem"
		}
		started, err := embedded.Start(context.Background(), embedded.Options{
			Dir: t.TempDir(), ListenClient: []string{"https://127.0.0.1:0"}, UnsafeNoSync: true,
			CertFile: a.file(c.server + ".pem"), KeyFile: a.file(c.server + "-key.pem"), ClientCAFile: a.file("ca.pem"),
		})
		if err != nil {
			t.Fatal(err)
		}
		wantFault(t, "etcd, "+c.what, openAt(t, etcd.Options{
			Endpoints: started.Endpoints(), CAFile: c.trusts.file("ca.pem"),
			CertFile: file(c.by, cert), KeyFile: file(c.by, key),
		}), c.want)
		if err := started.Close(); err != nil {
			t.Fatal(err)
		}
		secrets, err := server.TLS(a.file(c.server+".pem"), a.file(c.server+"-key.pem"), a.file("ca.pem"))
		if err != nil {
			t.Fatal(err)
		}
		addr := d.serve(t, server.Options{}, secrets).addr
		wantFault(t, "a server, "+c.what, client(t, remote.Options{
			Servers: []string{addr}, CAFile: c.trusts.file("ca.pem"), CertFile: file(c.by, cert), KeyFile: file(c.by, key),
		}), c.want)
	}
}

// TestFaultsOfEtcd uses an etcd that has no space, then one that knows another password, then one that allows nothing.
func TestFaultsOfEtcd(t *testing.T) {
	started := startEtcd(t)
	d := newPrefix(started)
	good := openAt(t, etcd.Options{Endpoints: started.Endpoints()})
	through := client(t, remote.Options{Servers: []string{d.serve(t, server.Options{}, nil).addr}})
	synced(t, good)
	synced(t, through)
	direct, err := clientv3.New(clientv3.Config{Endpoints: started.Endpoints(), DialTimeout: patience})
	if err != nil {
		t.Fatal(err)
	}
	defer direct.Close()
	maintain := pb.NewMaintenanceClient(direct.ActiveConnection())
	alarm := func(action pb.AlarmRequest_AlarmAction) {
		t.Helper()
		if _, err := maintain.Alarm(t.Context(), &pb.AlarmRequest{Action: action, Alarm: pb.AlarmType_NOSPACE}); err != nil {
			t.Fatal(err)
		}
	}
	alarm(pb.AlarmRequest_ACTIVATE)
	for what, s := range map[string]lease.Store{"etcd": good, "a server": through} {
		_, err = s.Create(t.Context(), key(t, "10.5.1.0-24"), hostGW("192.168.64.1"), time.Hour)
		if lease.FaultOf(storefault.Mark(err)) != lease.FaultSpace {
			t.Errorf("%s without space: %v", what, err)
		}
	}
	alarm(pb.AlarmRequest_DEACTIVATE)

	admin := started.Client()
	for _, name := range []string{"root", "flannel"} {
		_, err := admin.RoleAdd(t.Context(), name)
		if err == nil {
			_, err = admin.UserAdd(t.Context(), name, "right")
		}
		if err == nil {
			_, err = admin.UserGrantRole(t.Context(), name, name)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if _, err := admin.AuthEnable(t.Context()); err != nil {
		t.Fatal(err)
	}
	o := etcd.Options{Endpoints: started.Endpoints(), Username: "flannel", Password: "wrong"}
	wantFault(t, "a wrong password", openAt(t, o), lease.FaultPassword)
	o.Password = "right"
	wantFault(t, "a role without rights", openAt(t, o), lease.FaultDenied)
	o.Username, o.Password = "", ""
	wantFault(t, "no password", openAt(t, o), lease.FaultPassword)
}
