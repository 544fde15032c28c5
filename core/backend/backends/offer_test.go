package backends

import (
	"encoding/json"
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/firewall"
	"github.com/flanneld/flannel/core/lease"
)

// A record that names no backend implies one by its type and data, of either family.
func TestIdentityOfARecord(t *testing.T) {
	for _, c := range []struct {
		backendType, v4, v6 string
		w                   lease.Ways
		want                string
	}{
		{"vxlan", vtep(7, 2), "", lease.Ways{}, vxlan7},
		{"vxlan", "", vtep(7, 2), lease.Ways{}, vxlan7},
		{"vxlan", vtep(1, 2), vtep(7, 2), lease.Ways{}, vxlan},
		{"vxlan", `"text"`, "", lease.Ways{}, vxlan},
		{"vxlan", ``, "", lease.Ways{}, vxlan},
		{"host-gw", "", "", lease.Ways{}, hostGW},
		{"wireguard", wgPort(51820), "", lease.Ways{}, wireguard},
		{"wireguard", wgPort(51820), wgPort(51821), lease.Ways{}, wireguard},
		{"wireguard", wgPort(51820), wgPort(51820), lease.Ways{}, wgAuto},
		{"unheard-of", vtep(7, 2), "", lease.Ways{}, ""},
		{"vxlan", vtep(7, 2), "", lease.Ways{Present: json.RawMessage(hostGW)}, hostGW},
	} {
		a := lease.Attrs{BackendType: c.backendType, Ways: c.w}
		if c.v4 != "" {
			a.BackendData = json.RawMessage(c.v4)
		}
		if c.v6 != "" {
			a.BackendV6Data = json.RawMessage(c.v6)
		}
		if got := identityOf(&a); got != c.want {
			t.Errorf("%s %s %s: %s, want %s", c.backendType, c.v4, c.v6, got, c.want)
		}
	}
}

// A record offers its own backend and those that it names as previous ones, not one that it announces.
func TestOffers(t *testing.T) {
	next := formerly(udp)
	l := record(2, "vxlan", vtep(7, 2),
		lease.Ways{Former: []lease.FormerWay{formerly(vxlan), formerly(hostGW)}, Next: &next})
	for id, want := range map[string]bool{vxlan7: true, vxlan: true, hostGW: true, udp: false, wireguard: false} {
		if got := Offers(&l.Attrs, id); got != want {
			t.Errorf("%s: offered %t, want %t", id, got, want)
		}
	}
}

// To each peer the node sends by the first backend that the peer's record offers and that
// works. The number is that of the backend, or -1.
func TestChoose(t *testing.T) {
	key := dataplane.PublicKey{1}
	wgData := `{"PublicKey":"` + key.String() + `","Port":51820}`
	alone, during := opened(t, true, vxlan), opened(t, true, wireguard, vxlan, vxlan7)
	ends := func(s *Set, ids ...string) *Set { return s.ending(ids...) }
	plain := opened(t, true, hostGW, vxlan, vxlan7)
	next := formerly(wireguard)
	for _, c := range []struct {
		what   string
		set    *Set
		l      *lease.Lease
		v4, v6 int
	}{
		{"one backend and a record of any type", alone, record(2, "host-gw", "", lease.Ways{}), 0, 0},
		{"one backend and a record that names another", alone, record(2, "host-gw", "",
			lease.Ways{Former: []lease.FormerWay{formerly(udp)}}), -1, -1},
		{"one backend, which the record names as a previous one", alone, record(2, "host-gw", "",
			lease.Ways{Former: []lease.FormerWay{formerly(vxlan)}}), 0, 0},
		{"the second backend", during, record(2, "vxlan", vtep(1, 2), lease.Ways{}), 1, 1},
		{"the third backend", during, record(2, "vxlan", vtep(7, 2), lease.Ways{}), 2, 2},
		{"one that encrypts, and nothing else", during, record(2, "wireguard", wgData, lease.Ways{}), 0, 0},
		{"one that encrypts, and another", during, record(2, "wireguard", wgData,
			lease.Ways{Present: json.RawMessage(wireguard), Former: []lease.FormerWay{formerly(vxlan7)}}), 0, 0},
		{"one that is only announced", during, record(2, "vxlan", vtep(1, 2), lease.Ways{Next: &next}), 1, 1},
		{"one that ends, and another", ends(plain, vxlan), record(2, "vxlan", vtep(1, 2),
			lease.Ways{Former: []lease.FormerWay{formerly(vxlan7)}}), 2, 2},
		{"nothing but one that ends", ends(plain, vxlan), record(2, "vxlan", vtep(1, 2), lease.Ways{}), 1, 1},
		{"one that the host lacks, and another", plain.in(Role{Down: true}, hostGW), record(2, "host-gw", "",
			lease.Ways{Former: []lease.FormerWay{formerly(vxlan7)}}), 2, 2},
		{"nothing but one that the host lacks", plain.in(Role{Down: true}, hostGW), record(2, "host-gw", "",
			lease.Ways{}), 0, 0},
		{"another port of vxlan, which the device stands for", opened(t, true, port4789, hostGW), record(2, "vxlan",
			vtep(1, 2), lease.Ways{Present: json.RawMessage(`{"Type":"vxlan","Port":8473}`)}), 0, 0},
		{"the same beside wireguard", opened(t, true, wireguard, port4789), record(2, "vxlan",
			vtep(1, 2), lease.Ways{Present: json.RawMessage(`{"Type":"vxlan","Port":8473}`)}), -1, -1},
		{"a record of upstream's beside wireguard", opened(t, true, wireguard, port4789), record(2, "vxlan",
			vtep(1, 2), lease.Ways{}), 1, 1},
		{"the same when vxlan ends", ends(opened(t, true, wireguard, port4789), port4789), record(2, "vxlan",
			vtep(1, 2), lease.Ways{}), -1, -1},
		{"no backend of the node", during, record(2, "host-gw", "", lease.Ways{}), -1, -1},
		{"an IPv4 backend beside", opened(t, true, vxlan7, udp), record(2, "", "",
			lease.Ways{Present: json.RawMessage(udp)}), 1, -1},
		{"a record of the same type without the value", opened(t, true, hostGW, vxlan7),
			record(2, "vxlan", vtep(1, 2), lease.Ways{}), 1, 1},
		{"a previous backend without types serves no record of any type", opened(t, false, hostGW, udp),
			record(2, "quantum", "", lease.Ways{}), -1, -1},
	} {
		for f, want := range map[cidr.Family]int{cidr.V4: c.v4, cidr.V6: c.v6} {
			got, ok := c.set.choose(c.l, f)
			if ok != (want >= 0) || ok && got != want {
				t.Errorf("%s: %s by backend %d (%t), want %d", c.what, f, got, ok, want)
			}
		}
	}
}

// If no backend works, the first one that the record offers is the one.
func TestChooseAmongRefusedBackends(t *testing.T) {
	s := opened(t, false, hostGW, vxlan7, vxlan)
	previous := []lease.FormerWay{formerly(vxlan7), formerly(vxlan)}
	for want, present := range []string{hostGW, udp} { // udp is none of the node's backends
		l := record(2, "host-gw", "", lease.Ways{Present: json.RawMessage(present), Former: previous})
		refused := map[refusal]bool{}
		for i := range s.members {
			refused[refusal{i, l.Key}] = true
		}
		set := &Set{members: s.members, refused: refused}
		if got, ok := set.choose(l, cidr.V4); !ok || got != want {
			t.Errorf("backend %d (%t), want %d", got, ok, want)
		}
	}
}

// A node accepts each peer that may send by a backend.
func TestAccepts(t *testing.T) {
	s := opened(t, false, hostGW, vxlan7, udp)
	for _, c := range []struct {
		l    *lease.Lease
		want [3]bool
	}{
		{record(2, "host-gw", "", lease.Ways{}), [3]bool{true, false, true}},
		{record(2, "vxlan", vtep(7, 2), lease.Ways{}), [3]bool{false, true, true}},
		{record(2, "vxlan", vtep(1, 2), lease.Ways{}), [3]bool{false, true, true}}, // taken for one of this type
		{record(2, "wireguard", "", lease.Ways{}), [3]bool{false, false, true}},
	} {
		for i, want := range c.want {
			if got := s.accepts(i, c.l); got != want {
				t.Errorf("%s by %s: accepted %t, want %t", text(c.l.Attrs), s.members[i].id, got, want)
			}
		}
	}
}

// A node with one WireGuard device for both families accepts a peer that has two: its device has a session with one
// of these, through which the peer sends as soon as it has followed. Not the other way round: the second device needs
// a session of its own.
func TestAcceptsOnSharedDevices(t *testing.T) {
	separate := record(2, "wireguard", wgPort(51820), lease.Ways{})
	separate.Attrs.BackendV6Data = json.RawMessage(wgPort(51821))
	formerly := separate.Attrs
	formerly.BackendType = "vxlan"
	other := record(2, "vxlan", vtep(1, 2), lease.Ways{Former: []lease.FormerWay{
		{Backend: json.RawMessage(wireguard), Data: formerly.BackendData, V6Data: formerly.BackendV6Data}}})
	for _, c := range []struct {
		name string
		set  *Set
		l    *lease.Lease
		want [2]bool
	}{
		{"two devices, by one", opened(t, true, wgAuto, wireguard), separate, [2]bool{true, true}},
		{"two previous devices, by one", opened(t, true, wgAuto, wireguard), other, [2]bool{true, true}},
		{"one device, by two", opened(t, true, wireguard, wgAuto), record(2, "wireguard", wgPort(51820), lease.Ways{}),
			[2]bool{false, true}},
	} {
		for i, want := range c.want {
			got := c.set.accepts(i, c.l)
			if face := c.set.faceOf(i, c.l); got != want || want && face.Attrs.BackendType != "wireguard" {
				t.Errorf("%s: accepted by %s %t as %s, want %t", c.name, c.set.members[i].id, got, text(face.Attrs), want)
			}
		}
	}
}

// A peer of another backend is left out without a word.
func TestLeavesOut(t *testing.T) {
	for _, c := range []struct {
		s    *Set
		l    *lease.Lease
		want bool
	}{
		{opened(t, false, vxlan), record(2, "vxlan", vtep(1, 2), lease.Ways{}), false},
		{opened(t, false, vxlan), record(2, "host-gw", "", lease.Ways{}), true},
		{opened(t, false, vxlan), record(2, "host-gw", "", lease.Ways{Former: []lease.FormerWay{formerly(vxlan)}}), false},
		{opened(t, false, vxlan), record(2, "host-gw", "", lease.Ways{Former: []lease.FormerWay{formerly(udp)}}), true},
		{opened(t, false, udp), record(2, "host-gw", "", lease.Ways{}), false},
		{opened(t, false, `{"Type":"alloc"}`), record(2, "host-gw", "", lease.Ways{}), false},
		{opened(t, false, hostGW, vxlan), record(2, "vxlan", vtep(1, 2), lease.Ways{}), false},
		{opened(t, false, hostGW, vxlan), record(2, "wireguard", "", lease.Ways{}), true},
	} {
		if got := c.s.LeavesOut(c.l); got != c.want {
			t.Errorf("%s: left out by %s %t, want %t", text(c.l.Attrs), c.s.Present(), got, c.want)
		}
	}
	v4 := record(2, "", "", lease.Ways{Present: json.RawMessage(udp)})
	s := opened(t, true, vxlan, udp)
	if s.LeavesOut(v4) {
		t.Error("a peer that is reached in one family is left out")
	}
	v4.Key.V4 = lease.Key{}.V4
	if !s.LeavesOut(v4) {
		t.Error("a peer without a subnet in the only family of its backend is not left out")
	}
}

// Named are the backends of a record that a config could have said, the present one first.
func TestNamed(t *testing.T) {
	a := record(2, "vxlan", vtep(7, 2), lease.Ways{Former: []lease.FormerWay{
		formerly(`{}`), formerly(`{"Type":"unheard-of"}`), formerly(`{"Type":"vxlan","VNI":1}`), formerly(`17`),
		formerly(hostGW),
	}}).Attrs
	named := Named(&a)
	if len(named) != 2 || named[0].Type != "vxlan" || string(named[0].Options) != vxlan7 || named[1].Type != "host-gw" {
		t.Errorf("named %v", named)
	}
}

// Beside a present backend that encrypts, plain ones accept packets of the peers that have not followed, and no others,
// except while peers may not know yet that the node encrypts.
func TestPlainBackendsAcceptThoseBehind(t *testing.T) {
	s := opened(t, false, wireguard, vxlan, udp, `{"Type":"ipip"}`)
	behind := record(2, "vxlan", vtep(1, 2), lease.Ways{})
	ahead := record(3, "wireguard", wgPort(51820), lease.Ways{
		Present: json.RawMessage(wireguard),
		Former:  []lease.FormerWay{formerly(vxlan), formerly(udp)},
	})
	for i, want := range [][2]bool{{false, true}, {true, false}, {true, false}, {false, false}} {
		if got := [2]bool{s.accepts(i, behind), s.accepts(i, ahead)}; got != want {
			t.Errorf("%s accepts the one behind %t, the other %t; want %t", s.members[i].id, got[0], got[1], want)
		}
	}
	all := s.in(Role{Admits: true}, vxlan)
	if !all.accepts(1, ahead) || !s.in(Role{Down: true}, wireguard).accepts(1, ahead) {
		t.Error("vxlan does not accept a peer that may not know yet that the node encrypts")
	}
	from := func(i byte) netip.Addr { return netip.AddrFrom4([4]byte{192, 168, 64, i}) }
	for set, want := range map[*Set][]netip.Addr{s: {from(2)}, all: {from(2), from(3)}} {
		got := set.Guards([]*lease.Lease{ahead, behind})
		wantGuards := []firewall.Guard{{Proto: 17, Port: 8472, From: want}, {Proto: 4}}
		if d := cmp.Diff(wantGuards, got[cidr.V4], cmpopts.EquateEmpty(), cmpopts.EquateComparable(netip.Addr{})); d != "" {
			t.Errorf("guards (-want +got):\n%s", d)
		}
		if len(got[cidr.V6]) > 0 {
			t.Errorf("guards of IPv6 %v", got[cidr.V6])
		}
	}
	if got := opened(t, false, vxlan, wireguard).Guards([]*lease.Lease{ahead}); len(got[cidr.V4]) > 0 {
		t.Errorf("a node that leaves wireguard has the guards %v", got)
	}
}
