package node

import (
	"testing"
	"time"

	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/lease"
	"github.com/flanneld/flannel/core/node/transition"
)

// Another writer of the datastore cannot bring a node back to the preparation: that the node has begun, it knows from
// its own memory, whatever its record says.
func TestForgedOwnRecordBringsNoClearText(t *testing.T) {
	w, _ := changingToWireGuard(t)
	forged := w.own()
	forged.Attrs.Ways.Next = nil
	w.pass(transition.PrepareFor)
	w.tell()
	w.pass(time.Minute) // the state file is written
	w.wantRouteBy("after the preparation", "10.5.3.0/24", "flannel-wg")
	w.put(forged)
	w.applyErr = func(op dataplane.Op) error {
		if r, ok := op.Object.(dataplane.Route); ok && r.Dst.String() == "10.5.3.0/24" && r.Link == "flannel.1" {
			t.Errorf("with a forged record: %s", op)
		}
		return nil
	}
	w.start()
	w.tell()
	w.pass(time.Second)
	w.put(forged)
	w.tell()
	w.pass(time.Minute)
	w.wantRouteBy("after a restart", "10.5.3.0/24", "flannel-wg")
	if a := w.own().Attrs; a.BackendType != "wireguard" {
		t.Errorf("the record says %s", lease.EncodeAttrs(a))
	}
}

// Another writer of the datastore cannot make a peer of a change send in the clear: that a subnet has had a record that
// offers wireguard, the peer knows from its own memory, also after a restart, and whatever is written in its place.
func TestForgedRecordOfAPeerBringsNoClearText(t *testing.T) {
	w, _ := changingToWireGuard(t)
	w.pass(transition.PrepareFor)
	w.tell()
	w.pass(time.Minute) // the state file is written
	w.wantRouteBy("after the preparation", "10.5.3.0/24", "flannel-wg")
	w.applyErr = func(op dataplane.Op) error {
		if r, ok := op.Object.(dataplane.Route); ok && r.Link == "flannel.1" && op.Verb != dataplane.Delete {
			t.Errorf("with a forged record: %s", op)
		}
		return nil
	}
	forge := func(subnet string) {
		w.remove(vxlanPeer("10.5.3.0-24", 4).Key)
		w.put(vxlanPeer(subnet, 4))
		w.tell()
		w.pass(transition.Linger + time.Minute)
		for k, r := range w.host.Routes.All {
			if k.Dst.String() == "10.5.3.0/24" {
				t.Errorf("with a record of %s, a route %+v", subnet, r)
			}
		}
		w.guardIs(t, "of 10.5.0.0/16 in lo return; of 10.5.0.0/16 udp 8472 drop", true)
	}
	forge("10.5.3.0-24")
	w.start()
	w.tell()
	forge("10.5.3.0-24")
	w.remove(vxlanPeer("10.5.3.0-24", 4).Key)
	forge("10.5.2.0-23")
}

// The memory of the peers that have followed a change to wireguard ends when the operator changes back.
func TestChangeBackAfterAllHaveFollowed(t *testing.T) {
	w, _ := changingToWireGuard(t)
	w.pass(transition.PrepareFor)
	w.tell()
	w.pass(time.Second)
	w.configure(vxlanConfig)
	w.put(vxlanPeer("10.5.3.0-24", 4))
	w.tell()
	w.pass(time.Second)
	w.wantRouteBy("after the change back", "10.5.3.0/24", "flannel.1")
	if w.n.transition.Set().Followed() != nil {
		t.Errorf("the node recalls %s", w.n.transition.Set().Followed())
	}
}
