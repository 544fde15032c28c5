package node

import (
	"testing"
)

// TestStartsWithoutAPause starts a node whose datastore and host answer at once. It is ready at the
// same moment: nothing between the first step and readiness waits for time to pass.
func TestStartsWithoutAPause(t *testing.T) {
	for _, backend := range []string{"vxlan", "host-gw"} {
		w := newWorld(t, `{"Network":"10.5.0.0/16","Backend":{"Type":"`+backend+`"}}`)
		peer := vxlanPeer("10.5.200.0-24", 4)
		if backend == "host-gw" {
			peer.Attrs.BackendType, peer.Attrs.BackendData = backend, nil
		}
		w.put(peer)
		began := w.now
		w.tell()
		w.wantReady()
		if !w.now.Equal(began) {
			t.Errorf("%s: ready after %s", backend, w.now.Sub(began))
		}
	}
}
