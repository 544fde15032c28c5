package ways

import (
	"encoding/json"
	"testing"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/lease"
)

// A record that names no way implies one by its type and data, of either family.
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

// A record offers its own way and those that it names, which it may have ceased to use.
func TestOffers(t *testing.T) {
	unused := formerly(hostGW)
	unused.Unused = true
	l := record(2, "vxlan", vtep(7, 2), lease.Ways{Former: []lease.FormerWay{formerly(vxlan), unused}})
	for id, want := range map[string][2]bool{
		vxlan7: {true, true}, vxlan: {true, true}, hostGW: {true, false}, udp: {false, false},
	} {
		offered, inUse := Offers(&l.Attrs, id)
		if offered != want[0] || inUse != want[1] {
			t.Errorf("%s: offered %t, in use %t; want %t", id, offered, inUse, want)
		}
	}
}

// To each peer the node sends by the first way that the peer's record offers and that
// works. The number is that of the way, or -1.
func TestChoose(t *testing.T) {
	key := dataplane.PublicKey{1}
	wgData := `{"PublicKey":"` + key.String() + `","Port":51820}`
	alone, during := opened(t, true, vxlan), opened(t, true, wireguard, vxlan, vxlan7)
	ended := formerly(vxlan)
	ended.Unused = true
	endedToo := formerly(vxlan7)
	endedToo.Unused = true
	left := during.Leaving(map[string]bool{vxlan: true})
	for _, c := range []struct {
		what   string
		set    *Set
		l      *lease.Lease
		v4, v6 int
	}{
		{"one way and a record of any type", alone, record(2, "host-gw", "", lease.Ways{}), 0, 0},
		{"one way and a record that names another", alone, record(2, "host-gw", "",
			lease.Ways{Former: []lease.FormerWay{formerly(udp)}}), -1, -1},
		{"one way, which the record names as a former one", alone, record(2, "host-gw", "",
			lease.Ways{Former: []lease.FormerWay{formerly(vxlan)}}), 0, 0},
		{"the second way", during, record(2, "vxlan", vtep(1, 2), lease.Ways{}), 1, 1},
		{"the third way", during, record(2, "vxlan", vtep(7, 2), lease.Ways{}), 2, 2},
		{"a way that waits for keys, and nothing else", during, record(2, "wireguard", wgData, lease.Ways{}), 0, 0},
		{"a way that waits for keys, and one that works", during, record(2, "wireguard", wgData,
			lease.Ways{Former: []lease.FormerWay{formerly(vxlan7)}}), 2, 2},
		{"a way that the peer may end, and one that it uses", opened(t, true, vxlan, hostGW),
			record(2, "host-gw", "", lease.Ways{Former: []lease.FormerWay{ended}}), 1, 1},
		{"nothing but a way that the peer does not use", opened(t, true, vxlan, vxlan7),
			record(2, "host-gw", "", lease.Ways{Former: []lease.FormerWay{ended}}), 0, 0},
		{"a way that the own record calls unused, and another", left, record(2, "vxlan", vtep(1, 2),
			lease.Ways{Former: []lease.FormerWay{formerly(vxlan7)}}), 2, 2},
		{"a way that the own record calls unused, and one that the peer may end", left, record(2, "vxlan", vtep(1, 2),
			lease.Ways{Former: []lease.FormerWay{endedToo}}), 2, 2},
		{"nothing but a way that the own record calls unused", left, record(2, "vxlan", vtep(1, 2), lease.Ways{}), 1, 1},
		{"no way of the node", during, record(2, "host-gw", "", lease.Ways{}), -1, -1},
		{"an IPv4 way beside", opened(t, true, vxlan7, udp), record(2, "", "",
			lease.Ways{Present: json.RawMessage(udp)}), 1, -1},
		{"a record of the same type without the value", opened(t, true, hostGW, vxlan7),
			record(2, "vxlan", vtep(1, 2), lease.Ways{}), 1, 1},
		{"a former way without types serves no record of any type", opened(t, false, hostGW, udp),
			record(2, "quantum", "", lease.Ways{}), -1, -1},
	} {
		for f, want := range map[cidr.Family]int{cidr.V4: c.v4, cidr.V6: c.v6} {
			got, ok := c.set.choose(c.l, f)
			if ok != (want >= 0) || ok && got != want {
				t.Errorf("%s: %s by way %d (%t), want %d", c.what, f, got, ok, want)
			}
		}
	}
}

// If no way works, the first one that the record offers is the one.
func TestChooseAmongRefusedWays(t *testing.T) {
	s := opened(t, false, hostGW, vxlan7, vxlan)
	former := []lease.FormerWay{formerly(vxlan7), formerly(vxlan)}
	for want, present := range []string{hostGW, udp} { // udp is none of the node's ways
		l := record(2, "host-gw", "", lease.Ways{Present: json.RawMessage(present), Former: former})
		refused := map[refusal]bool{}
		for i := range s.ways {
			refused[refusal{i, l.Key}] = true
		}
		set := &Set{ways: s.ways, refused: refused}
		if got, ok := set.choose(l, cidr.V4); !ok || got != want {
			t.Errorf("way %d (%t), want %d", got, ok, want)
		}
	}
}

// A node hears each peer that may send by a way.
func TestHears(t *testing.T) {
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
			if got := s.hears(i, c.l); got != want {
				t.Errorf("%s by %s: heard %t, want %t", text(c.l.Attrs), s.ways[i].id, got, want)
			}
		}
	}
}

// A node with one WireGuard device for both families hears a peer that has two: its device has a session with one
// of these, through which the peer sends as soon as it has followed. Not the other way round: the second device needs
// a session of its own.
func TestHearsOnSharedDevices(t *testing.T) {
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
		{"two former devices, by one", opened(t, true, wgAuto, wireguard), other, [2]bool{true, true}},
		{"one device, by two", opened(t, true, wireguard, wgAuto), record(2, "wireguard", wgPort(51820), lease.Ways{}),
			[2]bool{false, true}},
	} {
		for i, want := range c.want {
			got := c.set.hears(i, c.l)
			if face := c.set.faceOf(i, c.l); got != want || want && face.Attrs.BackendType != "wireguard" {
				t.Errorf("%s: heard by %s %t as %s, want %t", c.name, c.set.ways[i].id, got, text(face.Attrs), want)
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
		t.Error("a peer without a subnet in the only family of its way is not left out")
	}
}

// Ways that are missing are opened once, from records that two others agree on.
func TestMissingOnce(t *testing.T) {
	s := opened(t, false, hostGW)
	names := func(host byte, unused bool, former ...string) *lease.Lease {
		var w lease.Ways
		for _, id := range former {
			f := formerly(id)
			f.Unused = unused
			w.Former = append(w.Former, f)
		}
		return record(host, "host-gw", "", w)
	}
	own := lease.Ways{Present: json.RawMessage(vxlan7)}
	plain := record(5, "vxlan", vtep(7, 5), lease.Ways{}) // names no way
	behind, behindToo := record(5, "vxlan", vtep(7, 5), own), record(6, "vxlan", vtep(7, 6), own)
	strange := record(7, "vxlan", "", lease.Ways{Present: json.RawMessage(`{"Type":"vxlan","VNI":"x"}`)})
	for what, c := range map[string]struct {
		peers []*lease.Lease
		want  int
	}{
		"two behind, two between": {
			[]*lease.Lease{names(2, false, vxlan7), names(3, false, vxlan7), behind, behindToo}, 1},
		"behind without naming its way": {[]*lease.Lease{names(2, false, vxlan7), plain}, 1},
		"of the same way":               {[]*lease.Lease{names(2, false, vxlan7), record(5, "host-gw", "", lease.Ways{})}, 0},
		"none behind":                   {[]*lease.Lease{names(2, false, vxlan7), names(3, false, vxlan7)}, 0},
		"unused":                        {[]*lease.Lease{names(2, true, vxlan7), behind}, 0},
		"another":                       {[]*lease.Lease{names(2, false, vxlan), behind}, 0},
		"no identity":                   {[]*lease.Lease{names(2, false, `{"Type":"vxlan","VNI":"x"}`), strange}, 0},
		"named by one that shares no way": {[]*lease.Lease{behind, record(2, "wireguard", "",
			lease.Ways{Former: []lease.FormerWay{formerly(vxlan7)}})}, 0},
	} {
		if got := s.Missing(c.peers); len(got) != c.want {
			t.Errorf("%s: %v, want %d ways", what, got, c.want)
		}
	}
}

// Named are the ways of a record that a config could have said, the present one first.
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

// The own record of a former run tells the ways of that run, and one of upstream as much as it can.
func TestRecalls(t *testing.T) {
	for _, c := range []struct {
		present string
		own     *lease.Lease
		want    int
	}{
		{hostGW, record(1, "vxlan", vtep(1, 1), lease.Ways{}), 1},
		{vxlan7, record(1, "vxlan", vtep(1, 1), lease.Ways{}), 1},
		{port4789, record(1, "vxlan", vtep(1, 1), lease.Ways{}), 0}, // upstream does not write the port
		{port4789, record(1, "vxlan", vtep(1, 1), lease.Ways{Present: json.RawMessage(vxlan)}), 1},
		{udp, record(1, "", "", lease.Ways{}), 0},
	} {
		if got := opened(t, false, c.present).Recalls(&c.own.Attrs); len(got) != c.want {
			t.Errorf("%s beside the record %s: recalls %s", c.present, text(c.own.Attrs), got)
		}
	}
}
