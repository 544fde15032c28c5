package backends

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/flanneld/flannel/core/backend"
	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/lease"
)

// self is the node's own lease, which offers no backend.
func self() backend.Self {
	l := record(1, "", "", lease.Ways{})
	return backend.Self{Key: l.Key, Attrs: l.Attrs}
}

// routes returns the routes of a state, in its text form.
func routes(state *dataplane.State) []string {
	var lines []string
	for line := range strings.Lines(state.Dump()) {
		if strings.HasPrefix(line, "route ") {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	return lines
}

// Each peer has one route in each family, by the backend by which to send to it.
func TestRoutesByTheChosenBackends(t *testing.T) {
	s := opened(t, true, hostGW, vxlan7, udp)
	byUDP := record(4, "", "", lease.Ways{Present: json.RawMessage(udp)})
	peers := []*lease.Lease{
		record(2, "host-gw", "", lease.Ways{}), record(3, "vxlan", vtep(7, 3), lease.Ways{}), byUDP,
	}
	state, problems := s.Render(environment(s), self(), peers)
	if len(problems) > 0 {
		t.Errorf("problems %v", problems)
	}
	want := []string{
		"route 10.5.2.0/24 via 192.168.64.2 dev eth0",
		"route 10.5.3.0/24 via 10.5.3.0 dev flannel.7 onlink",
		"route 10.5.4.0/24 dev flannel0",
		"route fd00:10:5:2::/64 via fd00:64::2 dev eth0",
		"route fd00:10:5:3::/64 via fd00:10:5:3:: dev flannel-v6.7 onlink",
	}
	if got := routes(state); !slices.Equal(got, want) {
		t.Errorf("routes\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	// The device of udp knows all three: a peer may send by it before its record says so.
	for _, p := range peers {
		line := fmt.Sprintf("peer %s to %s dev flannel0\n", p.Key.V4, p.Attrs.PublicIP)
		if !strings.Contains(state.Dump(), line) {
			t.Errorf("no %s", line)
		}
	}
}

// While a backend encrypts, a route for the whole network keeps packets to other subnets from leaving in the clear. In
// IPv6 it leads nowhere as long as a peer is reached by another device.
func TestCatchAll(t *testing.T) {
	behind := record(2, "vxlan", vtep(1, 2), lease.Ways{})
	ahead := record(3, "wireguard", wgPort(51820), lease.Ways{})
	ahead.Attrs.BackendV6Data = json.RawMessage(wgPort(51821))
	for _, c := range []struct {
		what     string
		present  string
		previous string
		ending   []string
		peers    []*lease.Lease
		v4, v6   string
	}{
		{"one is behind", wireguard, vxlan, nil, []*lease.Lease{ahead, behind}, "flannel-wg", ""},
		{"all have followed", wireguard, vxlan, nil, []*lease.Lease{ahead}, "flannel-wg", "flannel-wg-v6"},
		{"a change from wireguard", vxlan, wireguard, nil, []*lease.Lease{ahead}, "flannel-wg", "flannel-wg-v6"},
		{"one has left wireguard", vxlan, wireguard, nil, []*lease.Lease{ahead, behind}, "flannel-wg", ""},
		{"the end of wireguard", vxlan, wireguard, []string{wireguard}, []*lease.Lease{behind}, "none", "none"},
	} {
		s := opened(t, true, c.present, c.previous).ending(c.ending...)
		state, problems := s.Render(environment(s), self(), c.peers)
		for f, want := range map[cidr.Family]string{cidr.V4: c.v4, cidr.V6: c.v6} {
			r, ok := state.Routes.Get(dataplane.RouteKey{Dst: s.network().Of(f).Network})
			if !ok {
				r.Link = "none"
			}
			if r.Link != want || ok && (r.Kind == dataplane.Blackhole) != (want == "") || len(problems) > 0 {
				t.Errorf("%s: %s %s, want %q; %v", c.what, f, r, want, problems)
			}
		}
	}
}

// Peers with which keys are not yet exchanged are greeted, those with an interval of their own are not.
func TestGreeting(t *testing.T) {
	for options, want := range map[string]uint16{
		wireguard: greetEvery, `{"Type":"wireguard","PersistentKeepaliveInterval":7}`: 7,
	} {
		s := opened(t, false, options, vxlan)
		key := dataplane.PublicKey{1}
		state, _ := s.Render(environment(s), self(), []*lease.Lease{changed(9, key)})
		p, ok := state.WGPeers.Get(dataplane.WGPeerKey{Link: "flannel-wg", Public: key})
		if !ok || p.Keepalive != want {
			t.Errorf("%s: keepalives every %d s (%t), want %d", options, p.Keepalive, ok, want)
		}
	}
}

// Two modes of wireguard stand side by side. Both have flannel-wg, which takes from each peer what either mode sends.
func TestModesOfWireGuard(t *testing.T) {
	for present, previous := range map[string]string{wgAuto: wireguard, wireguard: wgAuto} {
		s := opened(t, true, present, previous)
		if len(s.members) != 2 {
			t.Fatalf("%s beside %s: %d backends", previous, present, len(s.members))
		}
		key := dataplane.PublicKey{2}
		data := fmt.Sprintf(`{"PublicKey":%q,"Port":51820}`, key)
		peer := record(2, "wireguard", data, lease.Ways{Present: json.RawMessage(present), Former: []lease.FormerWay{
			{Backend: json.RawMessage(previous), Data: json.RawMessage(data), V6Data: json.RawMessage(data)},
		}})
		state, problems := s.Render(environment(s), self(), []*lease.Lease{peer})
		if len(problems) > 0 {
			t.Errorf("problems %v", problems)
		}
		p, _ := state.WGPeers.Get(dataplane.WGPeerKey{Link: "flannel-wg", Public: key})
		if want := [2]netip.Prefix{peer.Key.V4, peer.Key.V6}; p.Allowed != want {
			t.Errorf("%s beside %s: flannel-wg takes %v, want %v", previous, present, p.Allowed, want)
		}
	}
}

// Of two records with one key, each of which offers another mode, the older one says where the host is. Packets to both
// subnets go to it, and the other record is a problem.
func TestCopiedKeyOfAnotherMode(t *testing.T) {
	one, two := json.RawMessage(wgAuto), json.RawMessage(wireguard)
	for _, c := range []struct{ older, younger json.RawMessage }{{one, two}, {two, one}} {
		for present, previous := range map[string]string{wgAuto: wireguard, wireguard: wgAuto} {
			s := opened(t, true, present, previous)
			older := record(2, "wireguard", wgPort(51820), lease.Ways{Present: c.older})
			younger := record(3, "wireguard", wgPort(51820), lease.Ways{Present: c.younger})
			state, problems := s.Render(environment(s), self(), []*lease.Lease{younger, older})
			if len(problems) != 1 || problems[0].Key != younger.Key || !problems[0].Served {
				t.Errorf("%s beside %s: problems %v, want one about %s", previous, present, problems, younger.Key)
			}
			for key, p := range state.WGPeers.All {
				if key.Link == "flannel-wg" && (p.Endpoint.Addr() != older.Attrs.PublicIP ||
					!strings.Contains(string(p.Others), younger.Attrs.PublicIP.String()) ||
					!p.Allows(older.Key.V4) || !p.Allows(younger.Key.V4)) {
					t.Errorf("%s beside %s: %s, want the older record's endpoint, the other's and both subnets",
						previous, present, p)
				}
			}
		}
	}
}

// A peer that two backends refuse for the same reason is one problem, and so is one of two
// peers that overlap. Its other half is served.
func TestProblemsOnce(t *testing.T) {
	s := opened(t, true, hostGW, vxlan7)
	older, younger := record(2, "host-gw", "", lease.Ways{}), record(3, "host-gw", "", lease.Ways{})
	younger.Key.V4 = older.Key.V4
	state, problems := s.Render(environment(s), self(), []*lease.Lease{older, younger})
	if len(problems) != 1 || problems[0].Key != younger.Key {
		t.Errorf("problems %v, want one about %s", problems, younger.Key)
	}
	want := []string{
		"route 10.5.2.0/24 via 192.168.64.2 dev eth0",
		"route fd00:10:5:2::/64 via fd00:64::2 dev eth0",
		"route fd00:10:5:3::/64 via fd00:64::3 dev eth0",
	}
	if got := routes(state); !slices.Equal(got, want) {
		t.Errorf("routes\n%s", strings.Join(got, "\n"))
	}

	far := record(4, "host-gw", "", lease.Ways{Former: []lease.FormerWay{formerly(vxlan7)}})
	far.Attrs.PublicIP = far.Attrs.PublicIPv6 // no IPv4 address
	_, problems = s.Render(environment(s), self(), []*lease.Lease{far})
	seen := map[string]bool{}
	for _, p := range problems {
		if seen[p.String()] {
			t.Errorf("twice: %s", p)
		}
		seen[p.String()] = true
	}
	if len(problems) == 0 {
		t.Error("no problem with a peer without an IPv4 address")
	}
}

// A backend sees the node's lease, and those of the peers, as if there were no other backend.
func TestFaces(t *testing.T) {
	s, a := offering(t)
	own := backend.Self{Attrs: a}
	if got := text(s.self(1, own).Attrs); got != addresses+`"vxlan",`+data1+`}` {
		t.Errorf("vxlan sees the own record %s", got)
	}
	if got := text(s.self(1, self()).Attrs); got != `{"PublicIP":"192.168.64.1","PublicIPv6":"fd00:64::1"}` {
		t.Errorf("vxlan sees the own record %s", got)
	}
	alone := opened(t, true, vxlan)
	if got := text(alone.self(0, own).Attrs); got != addresses+`"vxlan",`+data1+`}` {
		t.Errorf("alone, vxlan sees the own record %s", got)
	}
	other := backend.Self{Attrs: record(1, "udp", "", lease.Ways{}).Attrs}
	if got := text(s.self(1, other).Attrs); got != `{"PublicIP":"192.168.64.1","PublicIPv6":"fd00:64::1"}` {
		t.Errorf("vxlan sees the own record %s of another backend", got)
	}
	if got := alone.self(0, other).Attrs; !got.Equal(other.Attrs) {
		t.Errorf("alone, vxlan sees the own record %s", text(got))
	}

	plain, offers := record(2, "vxlan", vtep(1, 2), lease.Ways{}), &lease.Lease{Key: self().Key, Attrs: a}
	none := record(3, "wireguard", "", lease.Ways{Present: json.RawMessage(wireguard)})
	for _, c := range []struct {
		peers []*lease.Lease
		want  string // the owner's data, for each that vxlan sees
	}{
		{[]*lease.Lease{plain}, vtep(1, 2)},
		{[]*lease.Lease{plain, offers, none, plain}, vtep(1, 2) + vtep(1, 1) + vtep(1, 2)},
		{[]*lease.Lease{none, plain}, vtep(1, 2)},
		{[]*lease.Lease{none}, ""},
	} {
		for _, set := range []*Set{alone, s} {
			at := slices.IndexFunc(set.members, func(w member) bool { return w.id == vxlan })
			got := ""
			for _, f := range set.facesFor(at, c.peers) {
				got += string(f.Attrs.BackendData)
			}
			if got != c.want {
				t.Errorf("%d backends: vxlan sees %s, want %s", len(set.members), got, c.want)
			}
		}
	}
}

// By a backend that has a route for the whole network, each peer has one of its own beside it.
func TestWholeRoute(t *testing.T) {
	s := opened(t, false, wireguard, vxlan)
	state, _ := s.Render(environment(s), self(), []*lease.Lease{changed(9, dataplane.PublicKey{1})})
	const last = "route 10.5.0.0/16 blackhole metric 4294967295"
	want := []string{last, "route 10.5.0.0/16 dev flannel-wg scope 253", "route 10.5.9.0/24 dev flannel-wg scope 253"}
	if got := routes(state); !slices.Equal(got, want) {
		t.Errorf("routes %s, want %s", got, want)
	}
	plain := opened(t, false, udp, vxlan)
	state, _ = plain.Render(environment(plain), self(), []*lease.Lease{record(9, "", "", lease.Ways{})})
	if _, ok := wholeRoute(state, s.network().Of(cidr.V4).Network); ok {
		t.Error("udp keeps its route for the whole network beside vxlan")
	}
}

// The uses of previous backends name the peers to which this node sends by them.
func TestUses(t *testing.T) {
	s := opened(t, true, hostGW, vxlan7, wireguard)
	sends := record(2, "vxlan", vtep(7, 2), lease.Ways{})
	followed := record(3, "host-gw", "", lease.Ways{Former: []lease.FormerWay{formerly(vxlan7)}})
	replaced := record(5, "vxlan", vtep(1, 5), lease.Ways{}) // taken for one of vxlan7, which it does not offer
	uses := s.Uses(environment(s), self(), []*lease.Lease{sends, followed, replaced})
	if len(uses) != 2 || uses[0].ID != vxlan7 || uses[1].ID != wireguard {
		t.Fatalf("uses %v", uses)
	}
	if !slices.Equal(uses[0].Sends, []lease.Key{sends.Key, replaced.Key}) || len(uses[1].Sends) > 0 {
		t.Errorf("uses %v", uses)
	}
	if got := opened(t, true, hostGW).Uses(environment(s), self(), []*lease.Lease{sends}); got != nil {
		t.Errorf("without a previous backend: %v", got)
	}
}
