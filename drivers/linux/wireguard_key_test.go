package linux

import (
	"net/netip"
	"testing"

	"github.com/flanneld/flannel/core/dataplane"
)

// TestWireGuardGreetsWithANewKey gives one of two devices with a session another key. The
// other device knows that key already, but not the endpoint, so it cannot begin the next
// session. The device with the new key begins it, although no pod sends a packet.
func TestWireGuardGreetsWithANewKey(t *testing.T) { eachImplementation(t, greetsWithANewKey) }

func greetsWithANewKey(t *testing.T, w *world, userspace bool) {
	pair := newWGPair(t, w, userspace, 0)
	key := must(dataplane.SecretOf([]byte("thirty-two bytes of the new key.")))
	changed := pair.back
	changed.Public, changed.Endpoint = key.PublicKey(), netip.AddrPort{}
	apply(t, pair.otherDriver, wgOps(dataplane.Replace, changed))
	apply(t, pair.otherDriver, wgOps(dataplane.Delete, pair.back))
	w.d.wg.secrets = otherSecrets{key}
	device := wgDevice(t, userspace)
	params := device.Params.(dataplane.WireGuard)
	params.PublicKey = key.PublicKey()
	device.Params = params
	apply(t, w.d, wgOps(dataplane.Replace, device))
	eventually(t, "both have a session with the new key",
		pair.sees(pair.otherDriver, changed.WGPeerKey, "127.0.0.1:51820"))
}

// TestWireGuardKeepsALostKey changes the MTU of a device whose key the node has lost. The device keeps key and session.
func TestWireGuardKeepsALostKey(t *testing.T) { eachImplementation(t, keepsALostKey) }

func keepsALostKey(t *testing.T, w *world, userspace bool) {
	pair := newWGPair(t, w, userspace, 0)
	w.d.wg.secrets = otherSecrets{must(dataplane.SecretOf([]byte("thirty-two bytes of the new key.")))}
	device := wgDevice(t, userspace)
	device.MTU = 1300
	apply(t, w.d, wgOps(dataplane.Replace, device))
	if state := w.look(t, wgExtent); state.Links[wgLink] != device {
		t.Errorf("link %s, want %s", state.Links[wgLink], device)
	}
	if !pair.sees(w.d, pair.toOther.WGPeerKey, "127.0.0.1:51821")() {
		t.Error("the session has ended")
	}
}
