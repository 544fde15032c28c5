package node

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/driver"
	"github.com/flanneld/flannel/core/lease"
)

// foreignRoute adds a route of another program to the host.
func (w *world) foreignRoute(dst string) {
	w.host.AddRoute(dataplane.Route{
		RouteKey: dataplane.RouteKey{Dst: netip.MustParsePrefix(dst)},
		Via:      netip.MustParseAddr("192.168.64.9"), Link: "eth0", Protocol: dataplane.ProtocolBoot,
	})
}

// guardedWorld is the world of a ready node with WireGuard and a peer with 10.5.3.0/24.
func guardedWorld(t *testing.T) *world {
	w := wireguardWorld(t)
	w.put(lease.Lease{Key: mustKey("10.5.3.0-24"), Attrs: lease.Attrs{
		PublicIP: netip.MustParseAddr("192.168.64.4"), BackendType: "wireguard",
		BackendData: []byte(`{"PublicKey":"AgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4fICE=","Port":51820}`),
	}})
	w.tell()
	w.pass(time.Second)
	w.wantReady()
	return w
}

// A foreign route to a peer's subnet leads no packet past WireGuard: narrower routes of
// the node take precedence, and go when the foreign one goes.
func TestNarrowerRoutesKeepPacketsEncrypted(t *testing.T) {
	w := guardedWorld(t)
	has := func(dst string) bool {
		r, ok := w.host.Routes.Get(dataplane.RouteKey{Dst: netip.MustParsePrefix(dst)})
		return ok && r.Link == "flannel-wg"
	}
	w.foreignRoute("10.5.3.0/24")
	w.pass(time.Minute)
	w.wantReady()
	if !has("10.5.3.0/25") || !has("10.5.3.128/25") || has("10.5.3.0/24") {
		t.Errorf("the host has\n%s", w.host.Dump())
	}
	const note = "foreign route 10.5.3.0/24 via 192.168.64.9 dev eth0 proto 3 would lead packets past flannel-wg " +
		"unencrypted, and narrower routes of flannel prevent that; " +
		"remove it: ip route del 10.5.3.0/24 via 192.168.64.9 dev eth0"
	if s := w.status(); !slices.Contains(s.Notes, note) || len(s.Problems) > 0 || s.PeersBy.Served != 1 {
		t.Errorf("notes %q, problems %q, peers %+v", s.Notes, s.Problems, s.PeersBy)
	}
	w.host.Routes.DeleteFunc(func(_ dataplane.RouteKey, r dataplane.Route) bool { return r.Link == "eth0" })
	w.pass(time.Minute)
	w.wantReady()
	if has("10.5.3.0/25") || has("10.5.3.128/25") || len(w.status().Notes) > 0 {
		t.Errorf("notes %q, and the host has\n%s", w.status().Notes, w.host.Dump())
	}
}

// No route is narrower than one to a single address: the node is not ready.
func TestClearPacketsKeepTheNodeFromBeingReady(t *testing.T) {
	w := guardedWorld(t)
	w.foreignRoute("10.5.3.7/32")
	w.pass(time.Minute)
	const text = "foreign route 10.5.3.7/32 via 192.168.64.9 dev eth0 proto 3 leads packets past flannel-wg " +
		"unencrypted; remove it: ip route del 10.5.3.7/32 via 192.168.64.9 dev eth0"
	s := w.status()
	if s.Ready || !slices.Contains(s.Reasons, text) || len(s.Problems) != 1 || !strings.HasSuffix(s.Problems[0], text) {
		t.Errorf("ready %t, reasons %q, problems %q", s.Ready, s.Reasons, s.Problems)
	}
	if p := w.peer("10.5.3.0-24"); p.State != PeerRefused {
		t.Errorf("peer %+v", p)
	}
	_, reason, _ := strings.Cut(text, "proto 3 ")
	w.wantLines("- route 10.5.3.7/32 via 192.168.64.9 dev eth0 proto 3 # " + reason)
}

// Without encryption such a route is a problem of its peer alone.
func TestForeignRouteIsAProblemOfItsPeer(t *testing.T) {
	w := readyWorld(t)
	w.foreignRoute("10.5.3.0/25")
	w.pass(time.Minute)
	w.wantReady()
	if s := w.status(); s.PeersBy.Refused != 1 || s.PeersBy.Served != 1 || len(s.Problems) != 1 {
		t.Errorf("problems %q, peers %+v", s.Problems, s.PeersBy)
	}
	if w.count("foreign-route-wins") != 1 {
		t.Errorf("events %v", w.events)
	}
}

// A record that the backend refuses guards nothing: a subnet that overlaps the node's own
// must lead no packet away from the node's pods, and one of another backend none into a
// device that would drop it.
func TestRefusedRecordsGuardNothing(t *testing.T) {
	for _, c := range []struct{ what, key, backend, dst, link string }{
		{"part of the own subnet", "10.5.157.0-25", "wireguard", "10.5.157.0/24", "cni0"},
		{"around the own subnet", "10.5.144.0-20", "wireguard", "10.5.157.0/24", "cni0"},
		{"a pod of this host", "10.5.157.0-25", "wireguard", "10.5.157.7/32", "veth1"},
		{"another backend", "10.5.77.0-24", "host-gw", "10.5.77.0/24", "eth0"},
	} {
		w := guardedWorld(t)
		before := w.host.Routes.Len()
		w.put(lease.Lease{Key: mustKey(c.key), Attrs: lease.Attrs{
			PublicIP: netip.MustParseAddr("192.168.64.7"), BackendType: c.backend,
			BackendData: []byte(`{"PublicKey":"AwMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4fICE=","Port":51820}`),
		}})
		w.host.AddRoute(dataplane.Route{
			RouteKey: dataplane.RouteKey{Dst: netip.MustParsePrefix(c.dst)}, Link: c.link,
			Scope: dataplane.ScopeLink, Protocol: dataplane.ProtocolBoot,
		})
		w.tell()
		w.pass(time.Minute)
		if got := w.host.Routes.Len(); got != before+1 {
			t.Errorf("%s: the host has\n%s", c.what, w.host.Dump())
		}
		if s := w.status(); !s.Ready || len(s.Notes) > 0 {
			t.Errorf("%s: reasons %q, notes %q", c.what, s.Reasons, s.Notes)
		}
	}
}

// Pods of another network on the same host take no packet out of it: a route to them is a
// problem of the peer alone, and no route of the node leads packets away from those pods.
// A link that leads to other hosts is never taken for one to pods.
func TestRouteToPodsOfThisHost(t *testing.T) {
	for _, c := range []struct {
		link  string
		ready bool
	}{{"br-other", true}, {"eth0", false}, {"eth1", false}} {
		w := guardedWorld(t)
		w.facts.Links[0].Inside = true // as on a host that is a container
		w.facts.Links = append(w.facts.Links, driver.Link{Name: "br-other", Index: 7, Up: true, Inside: true},
			driver.Link{Name: "eth1", Index: 8, Up: true, Inside: true})
		w.facts.Routes = append(w.facts.Routes, driver.Route{Dst: netip.MustParsePrefix("0.0.0.0/0"), Metric: 9,
			Hops: []driver.Hop{{Link: "eth1", Via: netip.MustParseAddr("192.168.65.1")}}})
		before := w.host.Routes.Len()
		w.host.AddRoute(dataplane.Route{
			RouteKey: dataplane.RouteKey{Dst: netip.MustParsePrefix("10.5.3.7/32")}, Link: c.link,
			Scope: dataplane.ScopeLink, Protocol: dataplane.ProtocolBoot,
		})
		w.pass(time.Minute)
		s := w.status()
		if s.Ready != c.ready || s.PeersBy.Refused != 1 || len(s.Problems) != 1 || w.host.Routes.Len() != before+1 {
			t.Errorf("%s: ready %t, reasons %q, problems %q, and the host has\n%s", c.link, s.Ready, s.Reasons, s.Problems,
				w.host.Dump())
		}
	}
}

// A bridge that gets a port to other hosts leads packets out of the host from then on.
func TestRouteFollowsTheLinksOfTheHost(t *testing.T) {
	w := guardedWorld(t)
	w.facts.Links = append(w.facts.Links, driver.Link{Name: "br0", Index: 7, Up: true, Inside: true})
	w.host.AddRoute(dataplane.Route{
		RouteKey: dataplane.RouteKey{Dst: netip.MustParsePrefix("10.5.3.7/32")}, Link: "br0",
		Scope: dataplane.ScopeLink, Protocol: dataplane.ProtocolBoot,
	})
	w.pass(time.Minute)
	w.wantReady()
	w.facts.Links[1].Inside = false
	w.pass(time.Minute)
	if s := w.status(); s.Ready {
		t.Errorf("ready, with the problems %q", s.Problems)
	}
}

// Thousands of foreign routes make a few notes, reasons and problems.
func TestManyForeignRoutesAreCounted(t *testing.T) {
	w := guardedWorld(t)
	for i := range 100 {
		w.foreignRoute(fmt.Sprintf("10.5.3.%d/32", i))
		w.foreignRoute(fmt.Sprintf("10.5.3.%d/31", 100+2*(i%70)))
	}
	w.pass(time.Minute)
	s := w.status()
	counted := func(texts []string, n int, last string) {
		t.Helper()
		if len(texts) != n || texts[n-1] != last {
			t.Errorf("%d texts %q, want %d, the last of them %q", len(texts), texts, n, last)
		}
	}
	counted(s.Notes, 6, "the same for 65 more foreign routes")
	counted(s.Reasons, 6, "the same for 95 more foreign routes")
	if len(s.Problems) != 1 || !strings.HasSuffix(s.Problems[0], "; the same for 99 more foreign routes") {
		t.Errorf("problems %q", s.Problems)
	}
}
