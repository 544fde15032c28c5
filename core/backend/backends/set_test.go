package backends

import (
	"errors"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"

	"github.com/flanneld/flannel/core/backend"
	"github.com/flanneld/flannel/core/config"
	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/driver"
	"github.com/flanneld/flannel/core/lease"
)

// psk is a shared key of wireguard.
const psk = "oIWnqCmTQGqfDfcwnAG5KM4k9dVFGBoHLv2N5bq8aXk="

// A set tells the present backend from the previous ones.
func TestSet(t *testing.T) {
	s := opened(t, false, `{"Type":"vxlan","VNI":7,"MTU":1500}`, wireguard, `{"Type":"udp","Port":8286}`)
	if s.Type() != "vxlan" || s.Present() != vxlan7 ||
		!slices.Equal(s.Previous(), []string{wireguard, `{"Type":"udp","Port":8286}`}) {
		t.Errorf("a set of %s and %s", s.Present(), s.Previous())
	}
	if !s.Has(wireguard) || !s.Has(vxlan7) || s.Has(vxlan) || (*Set)(nil).Has(vxlan7) {
		t.Error("Has")
	}
	var types []string
	for _, o := range s.Objects() {
		types = append(types, o.Type)
	}
	if !slices.Equal(types, []string{"vxlan", "wireguard", "udp"}) {
		t.Errorf("objects %s", types)
	}
	if got := s.MTU(environment(s)); got != 1420 { // vxlan needs 50 bytes, wireguard 80, udp 28
		t.Errorf("MTU %d", got)
	}
}

// The extent of a set is that of all its backends.
func TestExtentOfAllBackends(t *testing.T) {
	s := opened(t, false, vxlan, `{"Type":"wireguard","PSK":"`+psk+`"}`, udp)
	want := s.members[0].backend.Extent()
	for _, w := range s.members[1:] {
		e := w.backend.Extent()
		want.Links = append(slices.Clone(want.Links), e.Links...)
		want.Sysctls = append(slices.Clone(want.Sysctls), e.Sysctls...)
		want.Keys = append(want.Keys, e.Keys...)
		want.Kinds = append(want.Kinds, e.Kinds...)
		want.PSKs = append(want.PSKs, e.PSKs...)
	}
	e := s.Extent()
	same := slices.Equal(e.Links, want.Links) && slices.Equal(e.Sysctls, want.Sysctls) &&
		slices.Equal(e.Keys, want.Keys) && slices.Equal(e.Kinds, want.Kinds) && len(e.PSKs) == len(want.PSKs)
	if !same || len(e.Links) < 4 || len(e.Sysctls) < 2 || len(e.Keys) != 1 || len(e.Kinds) != 1 || len(e.PSKs) != 1 {
		t.Errorf("extent %+v, want %+v", e, want)
	}
}

// Reach asks for the addresses of the peers by each backend that needs them.
func TestReachOfAllBackends(t *testing.T) {
	peers := []*lease.Lease{record(2, "host-gw", "", lease.Ways{})}
	for prev, want := range map[string]int{wireguard: 1, udp: 1, vxlan: 1, `{"Type":"vxlan","DirectRouting":true}`: 2} {
		s := opened(t, false, hostGW, prev)
		got := s.Reach(config.Network{}, peers)
		if len(got) != want || got[0] != netip.MustParseAddr("192.168.64.2") {
			t.Errorf("beside %s: reach %v, want %d addresses", prev, got, want)
		}
	}
}

// With and Without change the previous backends, and keep their roles.
func TestWithAndWithout(t *testing.T) {
	s := opened(t, false, hostGW)
	for _, text := range []string{vxlan, vxlan, `{"Type":"unheard-of"}`, `{"Type":"vxlan","VNI":0}`} {
		s = s.with(object(text))
	}
	s = s.ending(vxlan)
	if !slices.Equal(s.Previous(), []string{vxlan}) || !s.members[1].role.Ending {
		t.Errorf("previous backends %s, of which the first ends: %t", s.Previous(), s.members[1].role.Ending)
	}
	s = s.with(object(vxlan7)).with(object(udp))
	full := s.with(object(wireguard))
	if !slices.Equal(full.Previous(), []string{vxlan, vxlan7, udp}) {
		t.Errorf("previous backends %s, want three at most", full.Previous())
	}
	s = s.Without(vxlan7)
	if !slices.Equal(s.Previous(), []string{vxlan, udp}) || !s.members[1].role.Ending {
		t.Errorf("previous backends %s, of which the first ends: %t", s.Previous(), s.members[1].role.Ending)
	}
	if _, err := New(config.Network{Backend: object(`{"Type":"unheard-of"}`)}); err == nil {
		t.Error("a network config with an unknown backend is opened")
	}
}

// A backend that cannot be alone with its packets has no backend beside it.
func TestAlone(t *testing.T) {
	for _, c := range [][2]string{
		{`{"Type":"alloc"}`, vxlan}, {vxlan, `{"Type":"alloc"}`},
		{`{"Type":"extension"}`, vxlan}, {vxlan, `{"Type":"extension"}`},
	} {
		if s := opened(t, false, c[0], c[1]); len(s.members) != 1 {
			t.Errorf("%s beside %s", c[1], c[0])
		}
	}
}

// The attributes offer every backend whose attributes are known. Those of the present backend must be.
func TestAttrsOfAllBackends(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	attrs := func(s *Set, env backend.Env) (lease.Attrs, error) {
		stored := record(1, "vxlan", vtep(1, 1), lease.Ways{}).Attrs
		return s.Attrs(env, stored, dataplane.NewState(), rng)
	}
	s := opened(t, true, hostGW, vxlan, wireguard)
	a, err := attrs(s, environment(s))
	const withoutKey = `{"PublicIP":"192.168.64.1","PublicIPv6":"fd00:64::1","BackendType":"host-gw",` +
		`"BackendWays":{"Former":[{"Backend":{"Type":"vxlan"},"BackendData":{"VNI":1,"VtepMAC":"02:00:00:00:00:01"},` +
		`"BackendV6Data":{"VNI":1,"VtepMAC":"02:00:00:00:00:01"}}]}}`
	if err != nil || text(a) != withoutKey {
		t.Errorf("attributes %s (%v), want %s", text(a), err, withoutKey)
	}
	env := environment(s)
	env.Facts.Keys = map[dataplane.SecretName]driver.Key{dataplane.WireGuardKey: {Public: dataplane.PublicKey{1}}}
	if a, err := attrs(s, env); err != nil || len(a.Ways.Former) != 2 || string(a.Ways.Former[1].Backend) != wireguard {
		t.Errorf("attributes %s (%v), want wireguard among them", text(a), err)
	}
	s = opened(t, true, wireguard, vxlan)
	if a, err := attrs(s, environment(s)); !errors.As(err, new(backend.NotYet)) || !a.Equal(lease.Attrs{}) {
		t.Errorf("attributes %s (%v), want none before the key is known", text(a), err)
	}
}
