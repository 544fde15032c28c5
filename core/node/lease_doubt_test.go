package node

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/flanneld/flannel/core/lease"
)

// late makes the world send its present view for ever: what the node writes from now on is not in it.
func (w *world) late() {
	view := *w.view()
	w.decorate = func(v *lease.View) { v.Snapshot = view.Snapshot }
}

// readdressed gives the host another address, so that the node updates its record.
func (w *world) readdressed(t *testing.T) {
	t.Helper()
	w.moved("192.168.64.103/24")
	if w.asked(Update, 0) != 1 {
		t.Fatalf("the node has not updated its record:\n%s", w.log())
	}
}

// Snapshots lack the node's last write although they follow the datastore. After a while the node asks the
// datastore about its lease, once: the write may be lost.
func TestAsksAboutAWriteThatNoSnapshotHas(t *testing.T) {
	w := readyWorld(t)
	w.tell()
	w.late()
	w.readdressed(t)
	requests := len(w.requests)
	w.pass(doubtAfter - 3*time.Second)
	w.tell()
	if len(w.requests) != requests {
		t.Errorf("the node asks too early: %v", w.requests[requests:])
	}
	w.pass(5 * time.Second)
	w.tell()
	w.pass(10 * time.Minute)
	if w.asked(Renew, requests) != 1 || len(w.requests) != requests+1 {
		t.Errorf("requests %v, want one renewal", w.requests[requests:])
	}
}

// While snapshots do not follow the datastore, they say nothing about the node's write.
func TestDoubtsNothingWithoutSync(t *testing.T) {
	w := readyWorld(t)
	w.tell()
	w.late()
	w.readdressed(t)
	requests := len(w.requests)
	w.loose = true
	w.tell()
	w.pass(doubtAfter + 3*time.Second)
	w.tell()
	w.loose = false
	w.tell()
	w.pass(doubtAfter / 2)
	if w.asked(Renew, requests) != 0 {
		t.Error("the node asks about its write at once when snapshots follow the datastore again")
	}
	w.pass(doubtAfter)
	w.tell()
	if w.asked(Renew, requests) != 1 {
		t.Errorf("requests %v, want one renewal\n%s", w.requests[requests:], w.log())
	}
}

// A reservation has no end, so there is nothing to renew.
func TestNoRenewalOfAReservationInDoubt(t *testing.T) {
	w := newReserved(t, dualConfig)
	w.tell()
	w.late()
	w.moved("192.168.64.103/24")
	requests := len(w.requests)
	w.pass(3 * doubtAfter)
	w.tell()
	w.pass(time.Minute)
	if w.asked(Renew, requests) != 0 {
		t.Errorf("the node renews a reservation:\n%s", w.log())
	}
}

// The datastore has another history, which the node says with the reason. Its record is in it, so
// the node keeps the subnet and asks at once when its lease ends.
func TestSaysWhyTheHistoryIsAnother(t *testing.T) {
	for name, c := range map[string]struct {
		from, to uint64 // identities of the datastore
		back     bool   // the revision goes back
		want     string
	}{
		"an older revision":    {1, 1, true, "the datastore went back from revision "},
		"another identity":     {1, 77, false, "the datastore is another one, with id 4d instead of 1"},
		"an identity at last":  {0, 77, false, ""},
		"the same as before":   {77, 77, false, ""},
		"neither has identity": {0, 0, false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, vxlanConfig)
			w.snap.History = c.from
			w.tell()
			w.pass(time.Second)
			w.put(vxlanPeer("10.5.3.0-24", 4))
			w.tell()
			w.pass(time.Second)
			w.wantReady()
			own, requests := w.own(), len(w.requests)
			w.snap.History = c.to
			w.rev++
			if c.back {
				w.rev = own.ModRevision
			}
			w.snap.Revision = w.rev
			w.tell()
			w.pass(time.Second)
			got := strings.Join(w.logged("store-restored"), "; ")
			if !strings.HasPrefix(got, c.want) || (got == "") != (c.want == "") {
				t.Errorf("log %q, want %q", got, c.want)
			}
			if asks := w.asked(Renew, requests) == 1; asks != (c.want != "") {
				t.Errorf("requests %v", w.requests[requests:])
			}
			w.wantReady()
			if w.own().Key != own.Key || w.own().CreateRevision != own.CreateRevision {
				t.Errorf("the record changed from %v to %v", own, w.own())
			}
		})
	}
}

// The other history lacks the node's record: the lease is lost, and the log names the cause.
func TestRestoredStoreLacksOurLease(t *testing.T) {
	w := newWorld(t, vxlanConfig)
	w.snap.History = 1
	w.put(vxlanPeer("10.5.3.0-24", 4))
	w.tell()
	w.pass(time.Second)
	own := w.own()
	w.remove(own.Key)
	w.snap.History = 77
	w.tell()
	w.pass(time.Minute)
	w.wantReady()
	want := "the datastore is another one, with id 4d instead of 1, and with it lease " + own.Key.String()
	if got := strings.Join(w.logged("lease-lost"), "; "); !strings.Contains(got, want) {
		t.Errorf("log %q, want %q", got, want)
	}
	if w.own().Key != own.Key {
		t.Errorf("the node took %s, want its former subnet %s", w.own().Key, own.Key)
	}
}

// In the other history the node's record is a reservation: it has no end, and needs no renewal.
func TestRestoredStoreReservesOurSubnet(t *testing.T) {
	w := newWorld(t, vxlanConfig)
	w.snap.History = 1
	w.tell()
	w.pass(time.Second)
	rec := w.own()
	rec.ID = 0
	w.snap.Leases = []*lease.Lease{&rec}
	w.snap.History = 77
	w.rev++
	w.snap.Revision = w.rev
	requests := len(w.requests)
	w.tell()
	w.pass(time.Second)
	w.wantReady()
	if s := w.status(); !s.Expires.IsZero() || !s.RenewBy.IsZero() || len(w.requests) != requests {
		t.Errorf("the lease ends %s, renewal %s, requests %v", s.Expires, s.RenewBy, w.requests[requests:])
	}
}

// A host with a key recognises its record by the key, though it has another address and no memory.
func TestFindsItsRecordByItsKey(t *testing.T) {
	w := wireguardWorld(t)
	w.put(lease.Lease{Key: mustKey("10.5.3.0-24"), ID: 9, Attrs: lease.Attrs{
		PublicIP: netip.MustParseAddr("192.168.64.9"), BackendType: "wireguard",
		BackendData: []byte(`{"PublicKey":"CQAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="}`)}})
	own := w.own()
	clear(w.files)
	w.start()
	w.moved("192.168.64.103/24")
	w.tell()
	w.pass(time.Second)
	w.wantReady()
	if key, _ := w.n.Holding(); key != own.Key || len(w.snap.Leases) != 2 {
		t.Errorf("the node holds %s beside %v, want %s", key, w.snap.Leases, own.Key)
	}
}

// Another daemon of this host took a subnet first, and the node did not see it in time. It gives its own back, and
// uses the other.
func TestGivesASecondLeaseOfTheHostBack(t *testing.T) {
	w := newWorld(t, vxlanConfig)
	first := w.put(vxlanPeer("10.5.99.0-24", 3))
	w.decorate = func(v *lease.View) { // a stale read hides it
		hidden := *v.Snapshot
		hidden.Leases = nil
		v.Snapshot = &hidden
	}
	w.held = true
	w.tell()
	w.decorate, w.held = nil, false
	w.run(Input{Requested: w.serve(), View: w.view()})
	w.pass(10 * time.Second)
	w.tell()
	w.pass(time.Second)
	w.wantReady()
	if key, _ := w.n.Holding(); key != first.Key || len(w.snap.Leases) != 1 {
		t.Errorf("the node holds %s among %v, want %s alone\n%s", key, w.snap.Leases, first.Key, w.log())
	}
	want := "the older lease 10.5.99.0-24; giving"
	if got := w.logged("lease-doubled"); len(got) != 1 || !strings.Contains(got[0], want) {
		t.Errorf("log %q, want %q", got, want)
	}
}

// What a comparison covers: everything if the node's own side has changed, else what is new.
func TestComparesWhatIsNew(t *testing.T) {
	peer, other := vxlanPeer("10.5.3.0-24", 4), vxlanPeer("10.5.4.0-24", 5)
	last := agreement{snap: &lease.Snapshot{Leases: []*lease.Lease{&peer}}, key: mustKey("10.5.7.0-24"), modified: 7}
	now := last
	now.snap = &lease.Snapshot{Leases: []*lease.Lease{&peer, &other}}
	moved := now
	moved.key = mustKey("10.5.8.0-24")
	for name, c := range map[string]struct {
		now, last agreement
		want      int
	}{
		"another record":         {now, last, 1},
		"the node's side is new": {moved, last, 2},
		"the first comparison":   {now, agreement{}, 2},
		"nothing":                {last, last, 0},
	} {
		if got := c.now.news(c.last); len(got) != c.want {
			t.Errorf("%s: %d records, want %d", name, len(got), c.want)
		}
	}
}

// A record is the node's if it holds what the node asked the datastore to write there and
// whose answer is missing.
func TestRecordsOfUnansweredRequests(t *testing.T) {
	asked, other := vxlanPeer("10.5.3.0-24", 4), vxlanPeer("10.5.4.0-24", 5)
	update := Request{Verb: Update, Grant: lease.Grant{Lease: asked}, Attrs: asked.Attrs}
	renewal := update
	renewal.Verb = Renew
	changed := asked
	changed.Attrs.PublicIP = other.Attrs.PublicIP
	moved := asked
	moved.Key = other.Key
	for name, c := range map[string]struct {
		state  leaseState
		record lease.Lease
		want   bool
	}{
		"under way":          {leaseState{request: update}, asked, true},
		"without an answer":  {leaseState{unknown: update}, asked, true},
		"none":               {leaseState{}, asked, false},
		"a renewal":          {leaseState{request: renewal}, asked, false},
		"another content":    {leaseState{request: update}, changed, false},
		"in another record":  {leaseState{request: update}, moved, false},
		"nothing of the two": {leaseState{unknown: update}, other, false},
	} {
		if got := c.state.wrote(&c.record); got != c.want {
			t.Errorf("%s: %t, want %t", name, got, c.want)
		}
	}
}

// The node's own records, by address. IPv4 decides while it is on.
func TestOwnRecordsByAddress(t *testing.T) {
	w := newWorld(t, vxlanConfig, func(o *Options) { o.Uplink.PublicIPv6 = "2001:db8::9" })
	w.tell()
	w.pass(time.Second)
	v4, v6 := netip.MustParseAddr("192.168.64.3"), netip.MustParseAddr("2001:db8::9")
	foreign4, foreign6 := netip.MustParseAddr("192.168.64.4"), netip.MustParseAddr("fd00:a::4")
	for name, c := range map[string]struct {
		attrs lease.Attrs
		want  bool
	}{
		"our IPv4 address":             {lease.Attrs{PublicIP: v4, PublicIPv6: foreign6}, true},
		"another IPv4 address":         {lease.Attrs{PublicIP: foreign4, PublicIPv6: v6}, false},
		"the given IPv6 address alone": {lease.Attrs{PublicIPv6: v6}, true},
		"another IPv6 address alone":   {lease.Attrs{PublicIPv6: foreign6}, false},
		"the uplink's, not the given":  {lease.Attrs{PublicIPv6: netip.MustParseAddr("fd00:a::3")}, false},
		"a record without any address": {lease.Attrs{}, false},
	} {
		if got := w.n.identity().Publishes(&c.attrs); got != c.want {
			t.Errorf("%s: ours %t, want %t", name, got, c.want)
		}
	}
	for addr, a := range map[string]lease.Attrs{
		"192.168.64.4": {PublicIP: foreign4, PublicIPv6: foreign6}, "fd00:a::4": {PublicIPv6: foreign6},
	} {
		if got := ownerOf(a); got != addr {
			t.Errorf("a record of %s is said to belong to %s", addr, got)
		}
	}
}
