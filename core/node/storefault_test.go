package node

import (
	"errors"
	"testing"

	"github.com/flanneld/flannel/core/lease"
)

// TestStoreFault checks that the status names the cause of the datastore's failure until it ends.
func TestStoreFault(t *testing.T) {
	w := readyWorld(t)
	for _, fault := range []lease.Fault{lease.FaultExpired, lease.FaultPassword} {
		v := w.view()
		v.Synced = false
		v.Err = lease.FaultError{Fault: fault, Err: errors.New("no")}
		w.run(Input{View: v})
		if got := w.status().StoreFault; got != fault {
			t.Errorf("%q, want %q", got, fault)
		}
	}
	w.tell()
	if got := w.status().StoreFault; got != "" {
		t.Errorf("%q, though the datastore answers", got)
	}
	w.n.lease.trouble = lease.FaultError{Fault: lease.FaultSpace, Err: errors.New("full")}
	if got := w.status().StoreFault; got != lease.FaultSpace {
		t.Errorf("%q of a refused lease", got)
	}
}
