package node

import (
	"testing"
	"time"
)

// wipe takes all records out of the store.
func (w *world) wipe() {
	w.snap.Leases = nil
	w.rev++
	w.snap.Revision = w.rev
	w.tell()
	w.pass(time.Second)
}

// A datastore that is wiped, or loses most records, has had an accident. The
// node's lease was not lost to another node, so it does not exit.
func TestNoExitAfterAnAccident(t *testing.T) {
	w := newWorld(t, vxlanConfig, func(o *Options) { o.ExitOnLoss = true })
	w.put(vxlanPeer("10.5.3.0-24", 4))
	w.put(vxlanPeer("10.5.4.0-24", 5))
	w.tell()
	w.pass(time.Second)
	own := w.own().Key
	w.wipe()
	if w.exit != nil || w.own().Key != own || w.host.Routes.Len() != 2 {
		t.Errorf("exit %v, %d routes, want none and two\n%s", w.exit, w.host.Routes.Len(), w.log())
	}
	w.pass(2 * keepFor)
	w.remove(own)
	w.tell()
	if w.exit == nil {
		t.Errorf("the lease is lost long after the accident, and the node does not exit\n%s", w.log())
	}
}

// TestExitWhenTakenAfterAnAccident gives the node's subnet to another host soon
// after an accident. The node cannot write its record again then.
func TestExitWhenTakenAfterAnAccident(t *testing.T) {
	w := newWorld(t, vxlanConfig, func(o *Options) { o.ExitOnLoss = true })
	w.put(vxlanPeer("10.5.3.0-24", 4))
	w.put(vxlanPeer("10.5.4.0-24", 5))
	w.tell()
	w.pass(time.Second)
	own := w.own().Key
	w.wipe()
	w.pass(30 * time.Second)
	if w.exit != nil {
		t.Fatalf("exit %v after an accident\n%s", w.exit, w.log())
	}
	w.put(vxlanPeer(own.String(), 77))
	w.tell()
	if w.exit == nil {
		t.Errorf("another host has taken the lease, and the node does not exit\n%s", w.log())
	}
}

// Restarts within the period do not forget the kept peers, nor the period's end.
func TestRestartsKeepLostPeers(t *testing.T) {
	w := readyWorld(t)
	w.pass(time.Minute)
	w.wipe()
	for range 2 {
		w.pass(30 * time.Second)
		w.start()
		w.tell()
		w.pass(time.Second)
		w.wantReady()
		if got := w.host.Routes.Len(); got != 2 {
			t.Fatalf("%d routes after a restart, want those of both peers\n%s", got, w.log())
		}
	}
	w.pass(keepFor)
	if got := w.host.Routes.Len(); got != 0 {
		t.Errorf("%d routes after the period\n%s", got, w.log())
	}
}
