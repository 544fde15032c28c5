package linux

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/internal/pace"
)

// otherSecrets holds another key than the secrets of the test's world.
type otherSecrets struct{ secret dataplane.Secret }

func (s otherSecrets) Secret(dataplane.SecretName) (dataplane.Secret, error) { return s.secret, nil }

// TestWireGuardTellsItsPort gives one of two devices with a session another port. No
// packet of a pod is under way, and the other device learns the port all the same. The
// session stays: when both ends of one lose it, the handshakes with which they begin
// the next one may cross, and undo each other for five seconds.
func TestWireGuardTellsItsPort(t *testing.T) {
	for _, keepalive := range []uint16{0, 60} {
		t.Run(fmt.Sprint("keepalive ", keepalive), func(t *testing.T) {
			eachImplementation(t, func(t *testing.T, w *world, userspace bool) { tellsItsPort(t, w, userspace, keepalive) })
		})
	}
}

func tellsItsPort(t *testing.T, w *world, userspace bool, keepalive uint16) {
	pair := newWGPair(t, w, userspace, keepalive)
	handshake := func() time.Time {
		links := newLinks(w.d.query, w.d.wg)
		return must(w.d.wg.read(must(links.named(wgLink)))).Peers[0].Handshake
	}
	before := handshake()
	device := wgDevice(t, userspace)
	params := device.Params.(dataplane.WireGuard)
	params.ListenPort = 51900
	device.Params = params
	apply(t, w.d, wgOps(dataplane.Replace, device))
	eventually(t, "the peer knows the new port", pair.sees(pair.otherDriver, pair.back.WGPeerKey, "127.0.0.1:51900"))
	if after := handshake(); !after.Equal(before) {
		t.Errorf("a handshake at %v, after that of the session at %v", after, before)
	}
	want := pair.toOther
	if peer, _ := must(w.d.Look(t.Context(), pair.extent)).State.WGPeers.Get(want.WGPeerKey); peer != want {
		t.Errorf("the peer is %s, want %s", peer, want)
	}
}

// wgPair is two devices of one host with a session.
type wgPair struct {
	t           *testing.T
	otherDriver *Driver
	other       dataplane.Link   // beside wgLink
	toOther     dataplane.WGPeer // of wgLink
	back        dataplane.WGPeer // of the other device
	extent      dataplane.Extent
}

func newWGPair(t *testing.T, w *world, userspace bool, keepalive uint16) *wgPair {
	t.Helper()
	secret := must(dataplane.SecretOf([]byte("thirty-two bytes of another key.")))
	pair := &wgPair{t: t, otherDriver: must(Open(t.Context(), w.NS, otherSecrets{secret})), extent: wgExtent}
	t.Cleanup(func() {
		if err := pair.otherDriver.Close(); err != nil {
			t.Error(err)
		}
	})
	device := wgDevice(t, userspace)
	pair.other = device
	pair.other.Name, pair.other.Params = "flannel-wg-b", dataplane.WireGuard{
		ListenPort: 51821, PublicKey: secret.PublicKey(), Userspace: userspace,
	}
	pair.toOther = dataplane.WGPeer{
		WGPeerKey: dataplane.WGPeerKey{Link: wgLink, Public: secret.PublicKey()},
		Endpoint:  netip.MustParseAddrPort("127.0.0.1:51821"), Keepalive: keepalive,
		Allowed: [2]netip.Prefix{cidr.V4: netip.MustParsePrefix("10.2.0.0/24")},
	}
	pair.back = dataplane.WGPeer{
		WGPeerKey: dataplane.WGPeerKey{Link: pair.other.Name, Public: device.Params.(dataplane.WireGuard).PublicKey},
		Endpoint:  netip.MustParseAddrPort("127.0.0.1:51820"),
		Allowed:   [2]netip.Prefix{cidr.V4: netip.MustParsePrefix("10.1.0.0/24")},
	}
	pair.extent.Links = append(slices.Clone(pair.extent.Links), pair.other.Name)
	apply(t, pair.otherDriver, wgOps(dataplane.Create, pair.other, pair.back))
	apply(t, w.d, wgOps(dataplane.Create, device))
	first := pair.toOther
	first.Keepalive = 1 // begins a session
	apply(t, w.d, wgOps(dataplane.Replace, first, pair.toOther))
	eventually(t, "both have a session", pair.sees(pair.otherDriver, pair.back.WGPeerKey, "127.0.0.1:51820"))
	eventually(t, "both have a session", pair.sees(w.d, pair.toOther.WGPeerKey, "127.0.0.1:51821"))
	return pair
}

// sees returns a condition: the driver's device has a session with the peer at an endpoint.
func (pair *wgPair) sees(d *Driver, key dataplane.WGPeerKey, at string) func() bool {
	return func() bool {
		state := must(d.Look(pair.t.Context(), pair.extent)).State
		_, alive := state.Alive[key]
		peer, _ := state.WGPeers.Get(key)
		return alive && peer.Endpoint.String() == at && time.Since(state.Handshakes[key]) < dataplane.SessionLife
	}
}

// eventually waits for a condition.
func eventually(t *testing.T, what string, cond func() bool) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(pace.Scale(5 * time.Second)); !cond(); <-tick.C {
		if time.Now().After(end) {
			t.Fatal("not within the time: " + what)
		}
	}
}
