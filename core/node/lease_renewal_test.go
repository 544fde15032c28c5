package node

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/flanneld/flannel/core/lease"
	"github.com/flanneld/flannel/core/uplink"
)

// asked counts the requests of one kind since the first so many.
func (w *world) asked(verb Verb, since int) int {
	count := 0
	for _, r := range w.requests[since:] {
		if r.Verb == verb {
			count++
		}
	}
	return count
}

// A reservation that gets a TTL again is a lease like any other.
func TestReservationBecomesLease(t *testing.T) {
	w, rec := reservedWorld(t)
	w.pass(time.Hour)
	rec.ID, w.ttl = 77, time.Minute
	w.put(rec)
	requests := len(w.requests)
	w.tell()
	w.pass(time.Second)
	if got := w.requests[requests:]; len(got) != 1 || got[0].Verb != Renew || got[0].Grant.ID != 77 {
		t.Fatalf("requests %v, want one renewal, which tells when the lease ends", got)
	}
	w.pass(10 * time.Minute)
	w.wantReady()
	if got := w.asked(Renew, requests); got < 20 || got > 40 {
		t.Errorf("%d renewals of a lease of a minute in ten minutes", got)
	}
}

// The store does not answer after an operator gave a reservation a TTL again: the node is
// fenced at the latest after a TTL of its own.
func TestReservationBecomesLeaseWithoutAnAnswer(t *testing.T) {
	w, rec := reservedWorld(t)
	w.pass(time.Hour)
	rec.ID = 77
	w.put(rec)
	w.answer = func(Request) (lease.Grant, error) { return lease.Grant{}, errors.New("no answer") }
	w.tell()
	w.pass(23 * time.Hour)
	if w.status().Fenced {
		t.Errorf("fenced too early\n%s", w.log())
	}
	w.pass(2 * time.Hour)
	if !w.status().Fenced {
		t.Errorf("holds a lease that nothing confirms\n%s", w.log())
	}
}

// Another program puts the record on another TTL, as a former release with our
// address does. The node learns the end of that one by a renewal.
func TestAnotherTTLUnderTheRecord(t *testing.T) {
	w := newWorld(t, vxlanConfig)
	w.tell()
	w.pass(time.Second)
	rec := w.own()
	rec.ID, w.ttl = 77, time.Minute
	w.put(rec)
	requests := len(w.requests)
	w.tell()
	w.pass(30 * time.Second)
	if w.asked(Renew, requests) == 0 || w.requests[requests].Grant.ID != 77 {
		t.Errorf("requests %v", w.requests[requests:])
	}
}

// A node renews its lease under a config that it cannot follow.
func TestRenewsUnderAConfigItCannotFollow(t *testing.T) {
	w := newWorld(t, vxlanConfig, func(o *Options) {
		o.Uplink = uplink.Options{Ifaces: []string{"eth0"}, PublicIP: "203.0.113.7"}
	})
	w.tell()
	w.pass(time.Second)
	w.wantReady()
	w.rev++
	w.snap.Revision = w.rev
	w.snap.Config = lease.Document{Data: []byte(`{"Network":"10.5.0.0/16","Backend":{"Type":"host-gw"}}`), Revision: w.rev}
	requests := len(w.requests)
	w.tell()
	w.pass(25 * time.Hour)
	if s := w.status(); s.Fenced || s.Ready || w.asked(Renew, requests) < 2 {
		t.Errorf("requests %v, status %+v\n%s", w.requests[requests:], s, w.log())
	}
	if w.exit != nil {
		t.Errorf("exit %v", w.exit)
	}
}

// The pauses before the repairs of a disputed record delay no renewal.
func TestDisputesHoldBackNoRenewal(t *testing.T) {
	w := newWorld(t, vxlanConfig, func(o *Options) { o.LeaseTTL = time.Minute })
	w.ttl = time.Minute
	w.tell()
	w.pass(time.Second)
	requests, first := len(w.requests), w.own().Attrs
	for range 60 {
		w.overwrite()
		w.pass(10 * time.Second)
		if s := w.status(); s.Fenced || w.count("lease-expired") != 0 {
			t.Fatalf("status %+v\n%s", s, w.log())
		}
	}
	if renewals, updates := w.asked(Renew, requests), w.asked(Update, requests); renewals < 20 || updates > 12 {
		t.Errorf("%d renewals and %d updates in ten minutes of dispute", renewals, updates)
	}
	w.pass(10 * time.Minute)
	w.wantReady()
	if !w.own().Attrs.Equal(first) {
		t.Errorf("record %v", w.own())
	}
}

// overwrite puts other data in our record.
func (w *world) overwrite() {
	rec := w.own()
	rec.Attrs.BackendData = []byte(`{"VNI":1,"VtepMAC":"c6:00:00:00:00:77"}`)
	w.put(rec)
	w.tell()
}

// A dispute that is over is forgotten: the next one is settled as fast as the
// first. Neither renewals nor what puts the record right end it.
func TestDisputesAreForgotten(t *testing.T) {
	w := newWorld(t, vxlanConfig)
	w.tell()
	w.pass(time.Second)
	for range 10 {
		w.overwrite()
		w.pass(9 * time.Minute)
	}
	if got := w.n.lease.dispute.count; got != 10 {
		t.Errorf("%d disputes are remembered of ten", got)
	}
	w.pass(time.Hour)
	w.wantReady()
	w.overwrite()
	w.pass(2 * time.Second)
	w.wantReady()
}

// Whatever the TTL, several attempts to renew fit before its end.
func TestFailedRenewalsFitTheTTL(t *testing.T) {
	for _, ttl := range []time.Duration{5 * time.Second, 30 * time.Second, 10 * time.Minute, 24 * time.Hour} {
		w := newWorld(t, vxlanConfig, func(o *Options) { o.LeaseTTL = ttl })
		w.ttl = ttl
		w.tell()
		w.pass(ttl / 10)
		requests := len(w.requests)
		w.answer = func(Request) (lease.Grant, error) { return lease.Grant{}, errors.New("connection refused") }
		w.pass(ttl * 85 / 100)
		if got := w.asked(Renew, requests); got < 5 || w.status().Fenced {
			t.Errorf("TTL %s: %d attempts before its end", ttl, got)
		}
		w.answer = nil
		w.pass(ttl / 20)
		w.pass(ttl / 10)
		if w.status().Fenced {
			t.Errorf("TTL %s: fenced although the datastore came back in time", ttl)
		}
	}
}

// A restart without a datastore relies on what a former run was granted, and
// no longer than that: to the second.
func TestStaleRestartIsFencedInTime(t *testing.T) {
	w := newWorld(t, vxlanConfig, func(o *Options) { o.LeaseTTL = time.Minute })
	w.ttl = time.Minute
	w.tell()
	w.pass(10 * time.Second)
	end := w.status().Expires
	w.start()
	w.down = true
	w.run(Input{})
	w.pass(end.Sub(w.now) - time.Millisecond)
	if s := w.status(); !s.Stale || s.Fenced {
		t.Fatalf("before the end of the lease: %+v\n%s", s, w.log())
	}
	for w.now.Before(end.Add(time.Second)) && w.count("lease-expired") == 0 {
		w.pass(time.Millisecond)
	}
	if s := w.status(); !s.Fenced || w.count("lease-expired") != 1 || !w.now.Equal(end) {
		t.Errorf("%s after the end of the lease: %+v\n%s", w.now.Sub(end), s, w.log())
	}
}

// A lease that ended while the store did not answer is acquired again, and the log
// says so.
func TestAcquiresAfterTheEnd(t *testing.T) {
	w := readyWorld(t)
	w.answer = func(Request) (lease.Grant, error) { return lease.Grant{}, errors.New("timeout") }
	w.pass(25 * time.Hour)
	if s := w.status(); !s.Fenced || w.count("lease-expired") != 1 {
		t.Fatalf("fenced %t after the end of the lease\n%s", s.Fenced, w.log())
	}
	w.answer = nil
	w.pass(2 * time.Minute)
	w.wantReady()
	if got := w.count("lease-acquired"); got != 2 {
		t.Errorf("logged %d times that the lease is held, want twice\n%s", got, w.log())
	}
}

// A store that answers again ends the pauses that have grown without it. The nodes' requests
// are spread over a time that grows with their number.
func TestStoreAnswersAgain(t *testing.T) {
	w := readyWorld(t)
	w.down = true
	w.tell()
	w.pass(25 * time.Hour)
	before := len(w.requests)
	if l := w.n.lease; !w.status().Fenced || l.attempts < 10 || l.retryAt.Sub(w.now) > 72*time.Second {
		t.Fatalf("after the end of the lease: %d attempts, the next one after %s", l.attempts, l.retryAt.Sub(w.now))
	}
	w.down = false
	for i := range 2000 {
		w.put(vxlanPeer(fmt.Sprintf("10.5.%d.%d-28", 100+i/16, i%16*16), byte(10+i%200)))
	}
	w.tell()
	latest := answersFirst + 2001*answersPeer
	pause := w.n.lease.retryAt.Sub(w.now)
	if len(w.requests) > before || pause <= 0 || pause > latest || w.n.lease.attempts != 0 {
		t.Errorf("%d requests, the next one after %s, want within %s", len(w.requests)-before, pause, latest)
	}
	w.pass(latest)
	if w.status().Fenced || len(w.requests) == before {
		t.Errorf("no lease\n%s", w.log())
	}
}

// TestAdoptsOnce gives the node a record of its own with other backend data: one
// update makes it as desired.
func TestAdoptsOnce(t *testing.T) {
	w := newWorld(t, vxlanConfig)
	former := vxlanPeer("10.5.9.0-24", 3)
	former.Attrs.BackendType = "extension"
	w.put(former)
	w.tell()
	w.pass(time.Minute)
	w.wantReady()
	if len(w.requests) != 1 || w.requests[0].Verb != Update || w.own().Attrs.BackendType != "vxlan" ||
		w.own().Key != former.Key {
		t.Errorf("requests %v, record %v, want one update of the record", w.requests, w.own())
	}
}

// A request for a lease that is about to end gets half of the time left, so another one fits.
// Other requests have the time limit of the store.
func TestRequestsLeaveTimeForAnother(t *testing.T) {
	w := newWorld(t, vxlanConfig, func(o *Options) { o.LeaseTTL = 6 * time.Second })
	w.ttl = 6 * time.Second
	w.tell()
	if got := w.requests[0]; got.Verb != Create || got.Limit != 0 {
		t.Errorf("request %v with limit %s, want a create with that of the store", got.Verb, got.Limit)
	}
	requests := len(w.requests)
	w.held = true
	end := w.status().Expires
	for w.asked(Renew, requests) == 0 {
		w.pass(10 * time.Millisecond)
	}
	for range 2 {
		limit, left := w.requests[len(w.requests)-1].Limit, end.Sub(w.now)
		if limit < time.Second || limit > max(left/2, time.Second) {
			t.Fatalf("limit %s with %s left", limit, left)
		}
		w.pass(limit)
		before := len(w.requests)
		w.run(Input{Requested: &Requested{Err: errors.New("no answer in time")}})
		for len(w.requests) == before {
			w.pass(10 * time.Millisecond)
		}
	}
	if !w.now.Before(end) {
		t.Errorf("the third attempt comes %s after the end of the lease", w.now.Sub(end))
	}
}

func TestRequestLimit(t *testing.T) {
	now := time.Unix(1000, 0)
	for left, want := range map[time.Duration]time.Duration{
		-time.Second: 0, time.Millisecond: time.Second, 2 * time.Second: time.Second, 4 * time.Second: 2 * time.Second,
		9 * time.Second: 4500 * time.Millisecond, 10 * time.Second: 0, time.Hour: 0,
	} {
		if got := requestLimit(lease.Grant{Expires: now.Add(left)}, now); got != want {
			t.Errorf("%s left: limit %s, want %s", left, got, want)
		}
	}
	if got := requestLimit(lease.Grant{}, now); got != 0 {
		t.Errorf("no end known: limit %s, want 0", got)
	}
}

// A store whose changes arrive though it grants nothing gives no sign when it does again. A node
// without a lease asks every few seconds, and less often the more nodes there are.
func TestAsksAFollowedStore(t *testing.T) {
	for peers, longest := range map[int]time.Duration{0: 6 * time.Second, 2000: 30 * time.Second, 9000: 72 * time.Second} {
		w := newWorld(t, vxlanConfig)
		for i := range peers {
			w.put(vxlanPeer(fmt.Sprintf("10.5.%d.%d-30", 64+i/64, i%64*4), byte(10+i%200)))
		}
		w.answer = func(Request) (lease.Grant, error) { return lease.Grant{}, errors.New("no space") }
		w.tell()
		w.pass(20 * time.Minute)
		pause := w.n.lease.retryAt.Sub(w.now)
		requests := len(w.requests)
		w.pass(20 * time.Minute)
		asked := len(w.requests) - requests
		if most := 20 * time.Minute / longest; pause > longest || time.Duration(asked) < most {
			t.Errorf("%d peers: the next request after %s, %d in twenty minutes", peers, pause, asked)
		}
		if least := longest / 2; asked > int(20*time.Minute/least) {
			t.Errorf("%d peers: %d requests in twenty minutes", peers, asked)
		}
	}
}

// The repair of a disputed record meets a conflict, and no snapshot explains it, as when the
// stream of changes is late. Renewals do not wait for it.
func TestRenewsBeforeTheConflictIsExplained(t *testing.T) {
	w := newWorld(t, vxlanConfig, func(o *Options) { o.LeaseTTL = time.Minute })
	w.ttl = time.Minute
	w.tell()
	w.pass(time.Second)
	rec := w.own()
	rec.Attrs.BackendData = []byte(`{"VNI":1,"VtepMAC":"c6:00:00:00:00:99"}`)
	w.put(rec)
	w.answer = func(r Request) (lease.Grant, error) {
		if r.Verb == Update {
			return lease.Grant{}, &lease.ConflictError{Key: keyOf(r), Revision: w.rev + 50}
		}
		return lease.Grant{}, nil
	}
	requests := len(w.requests)
	w.tell()
	w.pass(10 * time.Minute)
	updates, renewals := w.asked(Update, requests), w.asked(Renew, requests)
	if updates != 1 || renewals < 20 || renewals > 40 {
		t.Errorf("%d updates and %d renewals of a lease of a minute in ten minutes\n%s", updates, renewals, w.log())
	}
	if w.status().Fenced {
		t.Errorf("fenced\n%s", w.log())
	}
}
