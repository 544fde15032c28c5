package node

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/flanneld/flannel/core/lease"
)

func TestFromNothingToReady(t *testing.T) {
	w := newWorld(t, vxlanConfig)
	w.put(vxlanPeer("10.5.3.0-24", 4))
	w.tell()
	w.pass(time.Second)
	w.wantReady()
	own := w.own()
	if own.Reserved() || own.Key == mustKey("10.5.3.0-24") {
		t.Errorf("own record %v", own)
	}
	want := "FLANNEL_NETWORK=10.5.0.0/16\nFLANNEL_SUBNET=" + own.Key.V4.Addr().Next().String() +
		"/24\nFLANNEL_MTU=1450\nFLANNEL_IPMASQ=false\n"
	if w.files[SubnetFile] != want {
		t.Errorf("subnet file:\n%s\nwant\n%s", w.files[SubnetFile], want)
	}
	if w.host.Routes.Len() != 1 || w.host.Neighs.Len() != 1 || w.host.FDB.Len() != 1 {
		t.Errorf("host:\n%s", w.host.Dump())
	}
}

// The answer to a request may come before the snapshot that shows it. What has
// been published is not drawn again meanwhile, which would wake every peer.
func TestGrantBeforeItsSnapshot(t *testing.T) {
	w := newWorld(t, vxlanConfig)
	w.held = true
	w.tell()
	w.held = false
	w.run(Input{Requested: w.serve()})
	w.tell()
	w.pass(time.Second)
	w.wantReady()
	if len(w.requests) != 1 || w.requests[0].Verb != Create {
		t.Errorf("requests: %v", w.requests)
	}
}

// An idle node must not ask for anything but its resync and its renewal.
func TestReadyIsQuiet(t *testing.T) {
	w := newWorld(t, vxlanConfig)
	w.tell()
	w.pass(time.Second)
	plans, requests := len(w.plans), len(w.requests)
	w.pass(time.Hour)
	if len(w.plans) != plans || len(w.requests) != requests {
		t.Errorf("%d plans and %d requests in a quiet hour", len(w.plans)-plans, len(w.requests)-requests)
	}
	w.pass(8 * time.Hour)
	if got := w.requests[len(w.requests)-1]; len(w.requests) != requests+1 || got.Verb != Renew {
		t.Errorf("requests in eight hours: %v", w.requests[requests:])
	}
	w.wantReady()
}

// interop E3: a lost race is no reason to die.
func TestLostRaceTriesAgain(t *testing.T) {
	w := newWorld(t, `{"Network":"10.5.0.0/22","SubnetLen":24,"Backend":{"Type":"alloc"}}`)
	races := 0
	w.answer = func(r Request) (lease.Grant, error) {
		if r.Verb != Create || races == 2 {
			return lease.Grant{}, nil
		}
		races++
		w.put(vxlanPeer(r.Key.String(), byte(10+races)))
		return lease.Grant{}, &lease.ConflictError{Key: r.Key, Revision: w.rev}
	}
	w.tell()
	w.pass(5 * time.Second)
	w.wantReady()
	if races != 2 || len(w.snap.Leases) != 3 {
		t.Errorf("%d races, leases %v", races, w.snap.Leases)
	}
}

// After a conflict the choice waits for a snapshot that shows who has the key.
func TestConflictWaitsForItsRevision(t *testing.T) {
	w := newWorld(t, vxlanConfig)
	creates := 0
	w.answer = func(r Request) (lease.Grant, error) {
		creates++
		return lease.Grant{}, &lease.ConflictError{Key: r.Key, Revision: w.rev + 50}
	}
	w.tell()
	w.pass(time.Minute)
	if creates != 1 {
		t.Errorf("%d creates on a snapshot that is too old", creates)
	}
	w.answer = nil
	w.rev += 49
	w.put(vxlanPeer("10.5.3.0-24", 4))
	w.tell()
	w.pass(time.Second)
	w.wantReady()
}

func TestReuse(t *testing.T) {
	t.Run("by public IP, without a write if nothing differs", func(t *testing.T) {
		w := newWorld(t, vxlanConfig)
		rec := w.put(vxlanPeer("10.5.7.0-24", 3))
		w.tell()
		w.pass(time.Second)
		w.wantReady()
		if got := w.own(); got.Key != rec.Key || got.ModRevision != rec.ModRevision {
			t.Errorf("own record %v, was %v", got, rec)
		}
		if len(w.requests) != 1 || w.requests[0].Verb != Renew {
			t.Errorf("requests %v", w.requests)
		}
	})
	t.Run("by the subnet file", func(t *testing.T) {
		w := newWorld(t, vxlanConfig, func(o *Options) { o.Previous = mustKey("10.5.9.0-24") })
		w.tell()
		w.pass(time.Second)
		if got := w.own().Key; got != mustKey("10.5.9.0-24") {
			t.Errorf("own key %s", got)
		}
	})
	t.Run("by the state file, if the subnet file is damaged", func(t *testing.T) {
		w := newWorld(t, vxlanConfig)
		w.tell()
		w.pass(10 * time.Second)
		before := w.own().Key
		w.remove(before)
		w.start(func(o *Options) { o.Previous = lease.Key{V6: netip.MustParsePrefix("fd00::/64")} })
		w.tell()
		w.pass(time.Second)
		if got := w.own().Key; got != before {
			t.Errorf("own key %s, was %s", got, before)
		}
	})
	t.Run("not if another node has it", func(t *testing.T) {
		w := newWorld(t, vxlanConfig, func(o *Options) { o.Previous = mustKey("10.5.9.0-24") })
		w.put(vxlanPeer("10.5.9.0-24", 4))
		w.tell()
		w.pass(time.Second)
		w.wantReady()
	})
	t.Run("not if it does not fit", func(t *testing.T) {
		w := newWorld(t, vxlanConfig)
		w.put(vxlanPeer("10.5.7.128-25", 3))
		w.tell()
		w.pass(5 * time.Second)
		w.wantReady()
		if len(w.snap.Leases) != 1 || w.own().Key.V4.Bits() != 24 {
			t.Errorf("leases %v", w.snap.Leases)
		}
	})
}

// Of two records of its own a node takes the one that its files name, else the younger.
func TestTwoOwnRecords(t *testing.T) {
	w := newWorld(t, vxlanConfig)
	w.tell()
	w.pass(10 * time.Second)
	before, older := w.own().Key, vxlanPeer("10.5.200.0-24", 3)
	older.CreateRevision, older.ModRevision = 1, 1
	w.snap.Leases = append(w.snap.Leases, &older)
	saved := w.files[StateFile]
	for _, c := range []struct {
		name       string
		saved      string
		file, want lease.Key
	}{
		{"both lost", "", lease.Key{}, before},
		{"the subnet file is lost", saved, lease.Key{}, before},
		{"the state file is old", saved, older.Key, older.Key},
		{"the state file is lost", "", before, before},
	} {
		w.files[StateFile] = c.saved
		w.start(func(o *Options) { o.Previous = c.file })
		w.tell()
		w.pass(time.Second)
		if got, _ := w.n.Holding(); got != c.want {
			t.Errorf("%s: holds %s, want %s", c.name, got, c.want)
		}
	}
}

// Two daemons of one host create a record each at the same moment: the later one gives its own
// up before the host is programmed for it.
func TestOlderRecordOfTheSameHost(t *testing.T) {
	w := newWorld(t, vxlanConfig)
	w.held = true
	w.tell()
	w.held = false
	older := vxlanPeer("10.5.200.0-24", 3)
	w.put(older)
	w.run(Input{Requested: w.serve()})
	w.tell()
	w.pass(5 * time.Second)
	w.wantReady()
	if got, _ := w.n.Holding(); got != older.Key || len(w.snap.Leases) != 1 {
		t.Errorf("holds %s, want %s and no other record\n%s", got, older.Key, w.log())
	}
	if n := strings.Count(w.log(), "subnet-file: "); n != 1 {
		t.Errorf("%d subnet files written, want 1\n%s", n, w.log())
	}
}

// interop E4: a reservation stays one, and is never renewed.
func TestReservation(t *testing.T) {
	w := newWorld(t, vxlanConfig)
	rec := vxlanPeer("10.5.7.0-24", 3)
	rec.ID = 0
	rec.Attrs.BackendData = nil
	w.put(rec)
	w.tell()
	w.pass(time.Second)
	w.wantReady()
	w.pass(72 * time.Hour)
	w.wantReady()
	if got := w.own(); !got.Reserved() || got.Key != rec.Key || got.Attrs.BackendData == nil {
		t.Errorf("own record %v", got)
	}
	for _, r := range w.requests {
		if r.Verb != Update {
			t.Errorf("request %s for a reservation", r.Verb)
		}
	}
}

// interop E15: a reservation that does not fit is kept and reported.
func TestUnfitReservationIsKept(t *testing.T) {
	w := newWorld(t, vxlanConfig)
	rec := vxlanPeer("10.5.7.128-25", 3)
	rec.ID = 0
	w.put(rec)
	w.tell()
	w.pass(time.Second)
	if len(w.snap.Leases) != 2 || w.count("reservation-unfit") != 1 {
		t.Errorf("leases %v\n%s", w.snap.Leases, w.log())
	}
}

// reservedWorld returns a node whose lease an operator has turned into a reservation, and
// its record.
func reservedWorld(t *testing.T) (*world, lease.Lease) {
	w := newWorld(t, vxlanConfig)
	w.tell()
	w.pass(time.Second)
	rec := w.own()
	rec.ID = 0
	w.put(rec)
	w.tell()
	return w, rec
}

// An operator turns a lease into a reservation while the node runs.
func TestBecomesReservation(t *testing.T) {
	w, _ := reservedWorld(t)
	requests := len(w.requests)
	w.pass(72 * time.Hour)
	w.wantReady()
	if len(w.requests) != requests {
		t.Errorf("requests for a reservation: %v", w.requests[requests:])
	}
}

// A lease that is gone is regained, the same subnet first; the data plane
// stays as it is meanwhile.
func TestRegainsTheSameSubnet(t *testing.T) {
	w := newWorld(t, vxlanConfig)
	w.put(vxlanPeer("10.5.3.0-24", 4))
	w.tell()
	w.pass(time.Second)
	before, host := w.own(), w.host.Dump()
	plans := len(w.plans)
	w.remove(before.Key)
	w.tell()
	w.pass(time.Second)
	w.wantReady()
	after := w.own()
	if after.Key != before.Key || after.CreateRevision == before.CreateRevision || w.count("lease-lost") != 1 {
		t.Errorf("before %v, after %v\n%s", before, after, w.log())
	}
	if w.host.Dump() != host || len(w.plans) != plans {
		t.Errorf("the host was touched: %v", w.plans[plans:])
	}
}

// Lost to another owner: the node is fenced, takes the address down, moves on.
func TestLostToAnother(t *testing.T) {
	w := newWorld(t, vxlanConfig)
	w.tell()
	w.pass(time.Second)
	before := w.own()
	w.held = true
	w.remove(before.Key)
	thief := vxlanPeer(before.Key.String(), 9)
	w.put(thief)
	w.tell()
	if s := w.status(); !s.Fenced || s.Ready || s.Phase != PhaseConfigured {
		t.Errorf("status %+v", s)
	}
	w.held = false
	w.run(Input{Requested: w.serve()})
	w.tell()
	w.pass(2 * time.Second)
	w.wantReady()
	if got := w.own().Key; got == before.Key {
		t.Errorf("kept %s, which belongs to another", got)
	}
	if !strings.Contains(w.host.Dump(), "route "+before.Key.V4.String()) {
		t.Errorf("no route to the new owner:\n%s", w.host.Dump())
	}
	if !strings.Contains(w.files[SubnetFile], w.own().Key.V4.Addr().Next().String()) {
		t.Errorf("subnet file:\n%s", w.files[SubnetFile])
	}
}

func TestExitOnLoss(t *testing.T) {
	w := newWorld(t, vxlanConfig, func(o *Options) { o.ExitOnLoss = true })
	w.tell()
	w.pass(time.Second)
	w.remove(w.own().Key)
	w.tell()
	if w.exit == nil || w.exit.Status != 1 || w.count("exit") != 1 {
		t.Errorf("exit %v, want status 1 (a supervisor must see a failure) and a line in the log\n%s", w.exit, w.log())
	}
}

// interop E8: IPv4-only records are no trouble to a dual-stack node.
func TestDualStackBesideOldRecords(t *testing.T) {
	w := newWorld(t, `{"Network":"10.5.0.0/16","EnableIPv6":true,"IPv6Network":"fd00:10::/48","Backend":{"Type":"vxlan"}}`)
	w.put(vxlanPeer("10.5.3.0-24", 4))
	w.tell()
	w.pass(time.Second)
	w.wantReady()
	if k := w.own().Key; !k.V4.IsValid() || !k.V6.IsValid() {
		t.Errorf("own key %s", k)
	}
}

// interop E9: IPv6-only nodes are told apart by their IPv6 address.
func TestIPv6Only(t *testing.T) {
	w := newWorld(t, `{"EnableIPv4":false,"EnableIPv6":true,"IPv6Network":"fd00:10::/48","Backend":{"Type":"vxlan"}}`)
	other := lease.Lease{Key: mustKey("0.0.0.0-0&fd00:10:0:3::-64"), ID: 1, Attrs: lease.Attrs{
		PublicIPv6: netip.MustParseAddr("fd00:a::4"), BackendType: "vxlan",
		BackendV6Data: []byte(`{"VNI":1,"VtepMAC":"c6:00:00:00:00:04"}`),
	}}
	w.put(other)
	w.tell()
	w.pass(time.Second)
	w.wantReady()
	if len(w.snap.Leases) != 2 || w.host.Routes.Len() != 1 {
		t.Errorf("leases %v\n%s", w.snap.Leases, w.host.Dump())
	}
}

// interop E10: renewal goes by the clock, whatever the watch does, and the
// node says when it can no longer prove its lease.
func TestRenewalDuringOutage(t *testing.T) {
	w := newWorld(t, vxlanConfig)
	w.tell()
	w.pass(time.Second)
	w.down = true
	w.tell()
	w.pass(23 * time.Hour)
	if s := w.status(); s.Fenced || s.Phase != PhaseProgrammed {
		t.Errorf("before the end of the lease: %+v", s)
	}
	w.pass(2 * time.Hour)
	if s := w.status(); !s.Fenced || s.Ready {
		t.Errorf("after the end of the lease: %+v", s)
	}
	w.down = false
	w.remove(w.own().Key)
	key := w.status().Subnet
	w.tell()
	w.pass(2 * time.Minute)
	w.wantReady()
	if w.own().Key != key {
		t.Errorf("regained %s, had %s", w.own().Key, key)
	}
}

// A request whose outcome is unknown is settled by the next snapshot.
func TestUnknownOutcome(t *testing.T) {
	w := newWorld(t, vxlanConfig)
	w.answer = func(r Request) (lease.Grant, error) {
		w.answer = nil
		if _, err := w.store(r); err != nil {
			t.Fatal(err)
		}
		return lease.Grant{}, errors.New("timed out")
	}
	w.tell()
	w.pass(5 * time.Second)
	w.wantReady()
	if len(w.snap.Leases) != 1 {
		t.Errorf("leases %v", w.snap.Leases)
	}
}

func TestExhaustionIsReportedAndEnds(t *testing.T) {
	w := newWorld(t, `{"Network":"10.5.0.0/28","SubnetLen":30,"Backend":{"Type":"alloc"}}`)
	for i := range 3 {
		w.put(vxlanPeer(fmt.Sprintf("10.5.0.%d-30", 4*(i+1)), byte(4+i)))
	}
	w.tell()
	w.pass(time.Hour)
	if w.count("no-subnet") != 1 || w.status().Ready {
		t.Errorf("log:\n%s", w.log())
	}
	w.remove(mustKey("10.5.0.8-30"))
	w.tell()
	w.pass(2 * time.Minute)
	w.wantReady()
}

func TestRenewTime(t *testing.T) {
	began := time.Unix(0, 0)
	for _, c := range []struct{ ttl, margin, want time.Duration }{
		{24 * time.Hour, time.Hour, 8 * time.Hour},
		{24 * time.Hour, 23 * time.Hour, time.Hour},
		{30 * time.Second, time.Hour, 10 * time.Second},
	} {
		if got := renewTime(began, c.ttl, c.margin).Sub(began); got != c.want {
			t.Errorf("ttl %s margin %s: after %s, want %s", c.ttl, c.margin, got, c.want)
		}
	}
}

// A lease ends when it ends: neither a request without an answer nor a pause
// before the next one puts off being fenced.
func TestWakesToBeFenced(t *testing.T) {
	at := func(s int) time.Time { return time.Unix(int64(s), 0) }
	held := &lease.Grant{Expires: at(30)}
	for _, c := range []struct {
		name string
		now  int
		l    leaseState
		want time.Time
	}{
		{"idle", 0, leaseState{}, time.Time{}},
		{"held", 0, leaseState{grant: held, renewAt: at(10)}, at(10)},
		{"retrying", 11, leaseState{grant: held, renewAt: at(10), retryAt: at(12)}, at(12)},
		{"waiting for an answer", 11, leaseState{grant: held, renewAt: at(10), busy: true}, at(30)},
		{"waiting for a snapshot", 20, leaseState{grant: held, renewAt: at(10), retryAt: at(12)}, at(30)},
		{"retrying late", 11, leaseState{grant: held, renewAt: at(10), retryAt: at(300)}, at(30)},
		{"fenced", 30, leaseState{grant: held, renewAt: at(10), retryAt: at(31), expired: true}, at(31)},
		{"a reservation", 0, leaseState{grant: &lease.Grant{}, busy: true}, time.Time{}},
	} {
		n := New(Options{})
		n.now, n.lease = at(c.now), c.l
		if got := n.wake(); !got.Equal(c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}
