package servers

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/flanneld/flannel/core/lease"
	"github.com/flanneld/flannel/drivers/remote"
	"github.com/flanneld/flannel/drivers/remote/server"
)

const quotaConfig = `{"Network":"10.5.0.0/16","EnableIPv6":true,"IPv6Network":"fd00:5::/56",` +
	`"Backend":{"Type":"host-gw"}}`

// wantHeld checks a refusal that names the lease which the node holds.
func wantHeld(t *testing.T, what string, err error, g lease.Grant) {
	t.Helper()
	conflict := new(lease.ConflictError)
	if !errors.As(err, &conflict) || conflict.Key != g.Key || conflict.Revision < g.ModRevision {
		t.Errorf("%s: %v, want a conflict that names %s", what, err, g.Key)
		return
	}
	if !strings.Contains(err.Error(), "flannelctl leases release "+g.Key.String()) {
		t.Errorf("%s: %v does not say what to do", what, err)
	}
}

// held returns the leases of the datastore, with their public addresses.
func held(t *testing.T, s *remote.Store, want ...string) {
	t.Helper()
	eventually(t, strings.Join(want, ", "), func() bool {
		var got []string
		for _, l := range s.View().Snapshot.Leases {
			got = append(got, l.Key.String()+" "+l.Attrs.PublicIP.String())
		}
		return strings.Join(got, ", ") == strings.Join(want, ", ")
	})
}

// TestOneLeaseForEachNode checks that a node with a certificate of its own holds one lease, and that all that nodes do
// in their lives works.
func TestOneLeaseForEachNode(t *testing.T) {
	a, d := newAuthority(t), newPrefix(startEtcd(t))
	d.Put(t, "config", quotaConfig, 0)
	addr := a.secure(d, server.Options{OwnRecords: true}).addr
	one := client(t, a.node("one", addr, "192.168.64.1"))
	synced(t, one)
	g, err := one.Create(t.Context(), key(t, "10.5.1.0-24"), hostGW("192.168.64.1"), time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 20 {
		_, err := one.Create(t.Context(), key(t, fmt.Sprintf("10.5.%d.0-24", 10+i)), hostGW("192.168.64.1"), time.Hour)
		wantHeld(t, "a second lease", err, g)
	}
	_, err = one.Create(t.Context(), key(t, "10.5.2.0-24&fd00:5:0:2::-64"), hostGW("192.168.64.1"), time.Hour)
	wantHeld(t, "a second lease of one family, and a first of the other", err, g)
	v6, err := one.Create(t.Context(), key(t, "0.0.0.0-0&fd00:5:0:2::-64"), hostGW("192.168.64.1"), time.Hour)
	if err != nil {
		t.Errorf("a lease of the other family: %v", err)
	}
	if err := one.Release(t.Context(), v6); err != nil {
		t.Error(err)
	}
	if _, err := one.Renew(t.Context(), g); err != nil {
		t.Errorf("renewal: %v", err)
	}
	g, err = one.Move(t.Context(), g, key(t, "10.5.3.0-24&fd00:5:0:3::-64"), g.Attrs, time.Hour)
	if err != nil {
		t.Errorf("move to a pair: %v", err)
	}
	_, err = one.Create(t.Context(), key(t, "0.0.0.0-0&fd00:5:0:4::-64"), hostGW("192.168.64.1"), time.Hour)
	wantHeld(t, "a second lease beside a pair", err, g)

	// The node is installed again and has a new address, but the name in its certificate is the same.
	again := client(t, a.node("one", addr, "192.168.64.9"))
	synced(t, again)
	if _, err := again.Create(t.Context(), key(t, "10.5.7.0-24"), hostGW("192.168.64.9"), time.Hour); err != nil {
		t.Errorf("with a new address: %v", err)
	}
	held(t, again, "10.5.7.0-24 192.168.64.9")
	if _, err := again.Create(t.Context(), key(t, "10.5.7.0-24"), hostGW("192.168.64.9"), time.Hour); err == nil {
		t.Error("its own lease counts as free")
	}

	// Another node has the address now. It takes the lease over, and the former node has no part in it.
	heir := client(t, a.node("heir", addr, "192.168.64.9"))
	synced(t, heir)
	l := recordAt(t, heir, "10.5.7.0-24")
	attrs := l.Attrs
	attrs.BackendData = []byte(`{"VNI":1}`)
	if _, err := heir.Update(t.Context(), lease.Grant{Lease: l}, attrs, time.Hour); err != nil {
		t.Fatal(err)
	}
	third := client(t, a.node("one", addr, "192.168.64.10"))
	synced(t, third)
	if _, err := third.Create(t.Context(), key(t, "10.5.8.0-24"), hostGW("192.168.64.10"), time.Hour); err != nil {
		t.Errorf("after its lease went to another node: %v", err)
	}
	held(t, third, "10.5.7.0-24 192.168.64.9", "10.5.8.0-24 192.168.64.10")
}

// TestOneLeaseAtSeveralServers asks several servers for leases at once.
func TestOneLeaseAtSeveralServers(t *testing.T) {
	d := newPrefix(startEtcd(t))
	d.Put(t, "config", quotaConfig, 0)
	var stores []*remote.Store
	for range 3 {
		s := client(t, remote.Options{Servers: []string{d.serve(t, server.Options{}, nil).addr}})
		synced(t, s)
		stores = append(stores, s)
	}
	var work sync.WaitGroup
	for i := range 30 {
		work.Go(func() {
			k := key(t, fmt.Sprintf("10.5.%d.0-24", 10+i))
			_, err := stores[i%3].Create(t.Context(), k, hostGW("192.168.64.1"), time.Hour)
			if err != nil && !errors.Is(err, lease.ErrConflict) {
				t.Error(err)
			}
		})
	}
	work.Wait()
	eventually(t, "one lease", func() bool { return len(stores[0].View().Snapshot.Leases) == 1 })
}

// TestSharedCertificates checks that nodes which share a certificate get a lease each: they differ by their addresses.
func TestSharedCertificates(t *testing.T) {
	for _, c := range []struct {
		identity server.Identity
		ip       string // in the certificate
		shared   bool
	}{
		{server.Auto, "", true}, {server.Auto, "127.0.0.1", false},
		{server.Certificate, "", false}, {server.Address, "127.0.0.1", true},
	} {
		a, d := newAuthority(t), newPrefix(startEtcd(t))
		d.Put(t, "config", quotaConfig, 0)
		addr := a.secure(d, server.Options{OwnRecords: true, Identity: c.identity}).addr
		s := client(t, a.node("node", addr, c.ip))
		synced(t, s)
		d.Put(t, "subnets/10.5.1.0-24", `{"PublicIP":"192.168.64.1","Creator":"node"}`, time.Hour)
		recordAt(t, s, "10.5.1.0-24")
		if _, err := s.Create(t.Context(), key(t, "10.5.2.0-24"), hostGW("127.0.0.1"), time.Hour); err != nil {
			t.Fatal(err)
		}
		want := []string{"10.5.2.0-24 127.0.0.1"}
		if c.shared {
			want = []string{"10.5.1.0-24 192.168.64.1", "10.5.2.0-24 127.0.0.1"}
		}
		held(t, s, want...)
	}
}

// TestOneLeaseForUselessOnes checks that a lease which the config no longer has room for does not count, nor a
// reservation.
func TestOneLeaseForUselessOnes(t *testing.T) {
	d := newPrefix(startEtcd(t))
	d.Put(t, "config", quotaConfig, 0)
	d.Put(t, "subnets/10.6.1.0-24", attrs1, time.Hour) // of another network
	d.Put(t, "subnets/10.5.1.0-24", attrs1, 0)         // a reservation
	s := client(t, remote.Options{Servers: []string{d.serve(t, server.Options{}, nil).addr}})
	synced(t, s)
	recordAt(t, s, "10.6.1.0-24")
	recordAt(t, s, "10.5.1.0-24")
	g, err := s.Create(t.Context(), key(t, "10.5.2.0-24"), hostGW("192.168.64.1"), time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	_, err = s.Create(t.Context(), key(t, "10.5.3.0-24"), hostGW("192.168.64.1"), time.Hour)
	wantHeld(t, "beside these", err, g)
}

// TestOneLeaseForOldClients checks the quota of the old API: a node gets its lease again, and one reservation.
func TestOneLeaseForOldClients(t *testing.T) {
	a, d := newAuthority(t), newPrefix(startEtcd(t))
	d.Put(t, "config", oldConfig, 0)
	addr := a.secure(d, server.Options{OwnRecords: true}).addr
	ask := func(c oldClient, attrs string) string {
		t.Helper()
		answer := c.ask("POST", "/v1/_/leases", attrs)
		if !strings.HasPrefix(answer, `200 {"Subnet":"`) {
			t.Fatal(answer)
		}
		return strings.Split(answer, `"`)[3]
	}
	one := oldClient{t, "https://" + addr, a.transport("one", "192.168.64.1")}
	first := ask(one, attrs1)
	moved := oldClient{t, "https://" + addr, a.transport("one", "192.168.64.2")}
	for range 3 {
		if again := ask(moved, attrs2); again != first {
			t.Errorf("with a new address the node gets %s, and it had %s", again, first)
		}
	}
	reserve := func(subnet string) string {
		return moved.ask("POST", "/v1/_/reservations", `{"Subnet":"`+subnet+`","PublicIP":"192.168.64.2"}`)
	}
	free := netip.MustParsePrefix("10.5.200.0/24")
	if first == free.String() {
		free = netip.MustParsePrefix("10.5.201.0/24")
	}
	if answer := reserve(free.String()); !strings.HasPrefix(answer, "200") {
		t.Errorf("a reservation: %s", answer)
	}
	eventually(t, "the reservation", func() bool {
		return strings.Contains(moved.ask("GET", "/v1/_/reservations", ""), free.String())
	})
	second := reserve("10.5.210.0/24")
	if !strings.HasPrefix(second, "500 this node (192.168.64.2) holds the reservation") {
		t.Errorf("a second reservation: %s", second)
	}
}

// TestReservationsBecomeNoSecondLease checks that no node gets a second lease by the reservations of the old API: it
// reserves a subnet, ends the reservation, which leaves a lease, and does so again; also at several servers at once.
func TestReservationsBecomeNoSecondLease(t *testing.T) {
	a, d := newAuthority(t), newPrefix(startEtcd(t))
	d.Put(t, "config", oldConfig, 0)
	var at []oldClient
	for range 2 {
		addr := a.secure(d, server.Options{OwnRecords: true}).addr
		at = append(at, oldClient{t, "https://" + addr, a.transport("one", "192.168.64.1")})
	}
	d.Put(t, "subnets/10.5.1.0-24", attrs1, time.Hour)
	records := func() string { return at[0].ask("GET", "/v1/_/leases", "") }
	eventually(t, "the lease", func() bool { return strings.Contains(records(), "10.5.1.0") })
	var work sync.WaitGroup
	for i := range 40 {
		work.Go(func() {
			at[i%2].ask("POST", "/v1/_/reservations", fmt.Sprintf(`{"Subnet":"10.5.%d.0/24","PublicIP":"192.168.64.1"}`, 10+i))
		})
	}
	work.Wait()
	reservations := func() int {
		return strings.Count(at[0].ask("GET", "/v1/_/reservations", ""), "PublicIP")
	}
	eventually(t, "one reservation", func() bool { return reservations() == 1 })
	subnet := strings.Split(at[0].ask("GET", "/v1/_/reservations", ""), `"`)[3]
	answer := at[0].ask("DELETE", "/v1/_/reservations/"+strings.Replace(subnet, "/", "-", 1), "")
	if !strings.HasPrefix(answer, "500") || !strings.Contains(answer, "holds the lease 10.5.1.0-24") ||
		strings.Contains(answer, "races") {
		t.Errorf("the end of the reservation: %s", answer)
	}
	if n := strings.Count(records(), "PublicIP\""); n != 2 || reservations() != 1 {
		t.Errorf("%d records, %d of them reservations", n, reservations())
	}
}

// TestLeasesNeedAnAddress checks that no client gets leases that no address or name counts for.
func TestLeasesNeedAnAddress(t *testing.T) {
	a, d := newAuthority(t), newPrefix(startEtcd(t))
	d.Put(t, "config", quotaConfig, 0)
	secure := client(t, a.node("one", a.secure(d, server.Options{OwnRecords: true}).addr, "")) // from 127.0.0.1
	open := client(t, remote.Options{Servers: []string{d.serve(t, server.Options{}, nil).addr}})
	for name, s := range map[string]*remote.Store{"with a certificate": secure, "without": open} {
		synced(t, s)
		for subnet, attrs := range map[string]lease.Attrs{
			"10.5.1.0-24": {}, "10.5.2.0-24": {PublicIPv6: netip.MustParseAddr("fd77::2")}, "0.0.0.0-0&fd00:5:0:3::-64": {},
		} {
			_, err := s.Create(t.Context(), key(t, subnet), attrs, time.Hour)
			if err == nil || !strings.Contains(err.Error(), "the public address of its node is missing") {
				t.Errorf("%s: a lease of %s for %+v: %v", name, subnet, attrs, err)
			}
		}
	}
	_, err := secure.Create(t.Context(), key(t, "0.0.0.0-0&fd00:5:0:3::-64"),
		lease.Attrs{PublicIPv6: netip.MustParseAddr("fd77::3")}, time.Hour)
	if err == nil || !strings.Contains(err.Error(), "put fd77::3 into its certificate") {
		t.Errorf("a lease for an address that nothing tells: %v", err)
	}
	g, err := secure.Create(t.Context(), key(t, "10.5.4.0-24"), hostGW("127.0.0.1"), time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := secure.Update(t.Context(), g, lease.Attrs{}, time.Hour); err == nil {
		t.Error("a lease may lose its address")
	}
	held(t, open, "10.5.4.0-24 127.0.0.1")
}
