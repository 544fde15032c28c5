package node

import (
	"testing"
	"time"

	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/lease"
)

// Another writer of the datastore cannot bring a node back to the preparation: that the node has begun, it knows from
// its own memory, whatever its record says.
func TestForgedOwnRecordBringsNoClearText(t *testing.T) {
	w, _ := changingToWireGuard(t)
	forged := w.own()
	forged.Attrs.Ways.Next = nil
	w.pass(prepareFor)
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
