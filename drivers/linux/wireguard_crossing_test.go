package linux

import (
	"errors"
	"net/netip"
	"testing"

	"github.com/flanneld/flannel/core/dataplane"
)

// TestWireGuardAsksCross lets two devices ask each other for a session at once, many times. Each time both
// have the same session soon, and packets arrive in both directions.
func TestWireGuardAsksCross(t *testing.T) {
	needTUN(t)
	w := newWorld(t)
	pair := newWGPair(t, w, true, 0)
	there, back := wgEnds{dst: [4]byte{10, 2, 0, 7}}, wgEnds{dst: [4]byte{10, 1, 0, 7}}
	for link, prefixes := range map[string][2]string{
		wgLink: {"10.1.0.1/32", "10.2.0.0/24"}, pair.other.Name: {"10.2.0.1/32", "10.1.0.0/24"},
	} {
		apply(t, w.d, wgOps(dataplane.Create,
			dataplane.Addr{Link: link, Prefix: netip.MustParsePrefix(prefixes[0])},
			dataplane.Route{RouteKey: dataplane.RouteKey{Dst: netip.MustParsePrefix(prefixes[1])}, Link: link,
				Scope: dataplane.ScopeLink}))
	}
	err := w.d.ns.Do(func() error { return errors.Join(there.open(pair.other.Name), back.open(wgLink)) })
	if err != nil {
		t.Fatal(err)
	}
	defer there.close(t)
	defer back.close(t)
	toOther, toUs := pair.toOther, pair.back
	toOther.Keepalive, toUs.Keepalive = 60, 60 // each asks for a session when it is given the peer
	for range 100 {
		apply(t, pair.otherDriver, wgOps(dataplane.Delete, toUs))
		apply(t, w.d, wgOps(dataplane.Delete, toOther))
		others := make(chan []error)
		go func() { others <- pair.otherDriver.Apply(t.Context(), wgOps(dataplane.Create, toUs)) }()
		apply(t, w.d, wgOps(dataplane.Create, toOther))
		if err := errors.Join(<-others...); err != nil {
			t.Fatal(err)
		}
		eventually(t, "both have a session", pair.sees(pair.otherDriver, toUs.WGPeerKey, "127.0.0.1:51820"))
		eventually(t, "both have a session", pair.sees(w.d, toOther.WGPeerKey, "127.0.0.1:51821"))
		if lost := there.loss(t) + back.loss(t); lost > 0 {
			t.Fatal("both have a session, and packets get lost")
		}
	}
}
