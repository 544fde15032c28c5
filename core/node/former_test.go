package node

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/flanneld/flannel/core/lease"
)

// The node forgets former devices and networks once the host holds nothing of them.
// Until then they are its own.
func TestForgetsFormerNetworks(t *testing.T) {
	const dual = `{"Network":"10.%d.0.0/16","EnableIPv6":true,"IPv6Network":"fd00:%d::/48",` +
		`"Backend":{"Type":"vxlan","VNI":%d}}`
	w := newWorld(t, fmt.Sprintf(dual, 5, 5, 5))
	w.tell()
	w.pass(time.Minute)
	w.wantReady()
	w.rev++
	w.snap.Revision = w.rev
	w.snap.Config = lease.Document{Data: fmt.Appendf(nil, dual, 6, 6, 6), Revision: w.rev}
	w.tell()
	w.pass(time.Minute)
	w.tell() // the node's own record
	w.pass(time.Minute)
	w.wantReady()
	networks := []netip.Prefix{netip.MustParsePrefix("10.6.0.0/16"), netip.MustParsePrefix("fd00:6::/48")}
	links := slices.Sorted(maps.Keys(w.n.host.links))
	if !slices.Equal(w.n.host.networks, networks) || !slices.Equal(links, []string{"flannel-v6.6", "flannel.6"}) {
		t.Errorf("the node owns %s and %s, want only the present networks and devices", w.n.host.networks, links)
	}
}

// A peer's record is older than the node's own, and the node's snapshot shows neither: the
// former device stays for that peer, which has not read that the node has changed.
func TestFormerWayWaitsForTheOwnRecord(t *testing.T) {
	w := newWorld(t, vxlanConfig)
	w.tell()
	w.pass(time.Second)
	w.tell()
	w.wantReady()
	w.rev++
	w.snap.Revision = w.rev
	other := strings.Replace(vxlanConfig, `"vxlan"`, `"vxlan","VNI":7`, 1)
	w.snap.Config = lease.Document{Data: []byte(other), Revision: w.rev}
	view := w.view()
	w.put(vxlanPeer("10.5.99.0-24", 99))
	w.decorate = func(v *lease.View) { *v = *view } // the node's events are late
	w.tell()
	w.pass(time.Second)
	wantBoth := func(when string) {
		t.Helper()
		for _, name := range []string{"flannel.1", "flannel.7"} {
			if _, has := w.host.Links[name]; !has {
				t.Errorf("%s, the host lacks %s", when, name)
			}
		}
	}
	wantBoth("before the node has seen its own record")
	w.decorate = nil
	w.tell()
	w.pass(time.Minute)
	wantBoth("with a peer that has not changed")
}

// A look reads the devices of the backend and the former ones, each once.
func TestLooksAtFormerDevices(t *testing.T) {
	w := readyWorld(t)
	w.n.host.links["flannel.9"] = true
	want := []string{"flannel.1", "flannel-v6.1", "flannel.9"}
	if got := w.n.hostLane().part.look().Extent.Links; !slices.Equal(got, want) {
		t.Errorf("the look reads %q, want %q", got, want)
	}
}
