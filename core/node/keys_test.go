package node

import (
	"errors"
	"testing"
	"time"

	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/driver"
	"github.com/flanneld/flannel/core/lease"
)

// The host's key file is new, and the datastore takes no write. The device keeps the key by which
// peers know it until the record holds the new one.
func TestDeviceKeepsThePublishedKey(t *testing.T) {
	w := wireguardWorld(t)
	w.wantReady()
	key := func() dataplane.PublicKey {
		return w.n.host.want.state.Links["flannel-wg"].Params.(dataplane.WireGuard).PublicKey
	}
	w.answer = func(r Request) (lease.Grant, error) {
		if r.Verb == Update {
			return lease.Grant{}, errors.New("read-only")
		}
		return lease.Grant{}, nil
	}
	w.facts.Keys = map[dataplane.SecretName]driver.Key{dataplane.WireGuardKey: {Public: dataplane.PublicKey{8}}}
	w.run(hint(HostLane))
	w.pass(time.Minute)
	if got := key(); got != (dataplane.PublicKey{7}) {
		t.Errorf("the device has %s, want the key of the record", got)
	}
	w.answer = nil
	w.pass(time.Minute)
	w.tell()
	w.pass(time.Minute)
	w.wantReady()
	if got := key(); got != (dataplane.PublicKey{8}) {
		t.Errorf("the device has %s, want the new key", got)
	}
}
