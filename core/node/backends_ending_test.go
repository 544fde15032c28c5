package node

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/driver"
	"github.com/flanneld/flannel/core/lease"
	"github.com/flanneld/flannel/core/node/transition"
)

// TestEndingDeviceKeepsItsPeers: a peer has published that it no longer offers wireguard, and may send by it until its
// routes have changed. The node decrypts that as long as its device lasts.
func TestEndingDeviceKeepsItsPeers(t *testing.T) {
	w := newWorld(t, wireguardConfig, func(*Options) {})
	w.facts.Keys = map[dataplane.SecretName]driver.Key{dataplane.WireGuardKey: {Public: dataplane.PublicKey{7}}}
	w.applyErr = func(op dataplane.Op) error {
		if _, is := op.Object.(dataplane.WGPeer); is && op.Verb == dataplane.Delete {
			t.Errorf("%s", op)
		}
		return nil
	}
	peer := vxlanPeer("10.5.3.0-24", 4)
	both := peer
	both.Attrs.Ways.Former = []lease.FormerWay{{Backend: json.RawMessage(wireguardID),
		Data: json.RawMessage(`{"PublicKey":"CQAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="}`)}}
	w.put(both)
	w.tell()
	w.pass(time.Second)
	w.configure(`{"Network":"10.5.0.0/16","Backend":{"Type":"vxlan"},"Formerly":[` + wireguardID + `]}`)
	w.pass(time.Minute)
	w.wantRouteBy("before the end", "10.5.3.0/24", "flannel-wg")
	w.configure(`{"Network":"10.5.0.0/16","Backend":{"Type":"vxlan"},"Formerly":[]}`)
	w.put(peer)
	w.tell()
	w.pass(time.Second)
	w.wantRouteBy("at the end", "10.5.3.0/24", "flannel.1")
	w.tell()
	w.pass(transition.Linger + time.Second)
	if _, there := w.host.Links["flannel-wg"]; there {
		t.Error("flannel-wg outlives the change")
	}
}

// TestClockThatGoesBack restarts a node whose clock is ten hours behind, in a change to an encrypting backend: the
// change ends after its limit all the same.
func TestClockThatGoesBack(t *testing.T) {
	w, _ := changingToWireGuard(t)
	w.pass(transition.PrepareFor)
	w.tell()
	w.pass(time.Minute) // the state file is written
	w.now = w.now.Add(-10 * time.Hour)
	w.start()
	w.tell()
	for range 62 {
		w.pass(time.Minute)
		w.tell()
	}
	w.wantChange("after the limit", "null")
	w.wantDevice("after the limit", false)
}
