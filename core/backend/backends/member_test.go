package backends

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/config"
	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/lease"
)

// A previous backend has the families of the network that it carries.
func TestFamiliesOfAPreviousBackend(t *testing.T) {
	for previous, want := range map[string][2]bool{vxlan: {true, true}, udp: {true, false}} {
		s := opened(t, true, hostGW, previous)
		if len(s.members) != 2 {
			t.Fatalf("%s is not opened", previous)
		}
		for i, f := range cidr.Families {
			if got := s.members[1].carries(f); got != want[i] {
				t.Errorf("%s carries %s: %t", previous, f, got)
			}
		}
		if env := s.members[1].env(environment(s)); env.Config.Of(cidr.V6).Enabled() != want[1] {
			t.Errorf("the config of %s has IPv6: %t", previous, env.Config.Of(cidr.V6).Enabled())
		}
	}
	network, err := config.Parse([]byte(
		`{"EnableIPv4":false,"EnableIPv6":true,"IPv6Network":"fd00:10:5::/48","Backend":{"Type":"vxlan"}}`))
	if err != nil {
		t.Fatal(err)
	}
	if s, err := New(network, object(udp)); err != nil || len(s.members) != 1 {
		t.Errorf("udp is open in a network without IPv4: %v", err)
	}
}

// A previous backend of the same type has the present values of the options on which nodes need
// not agree, and its own of the others.
func TestOptionsOfAPreviousBackend(t *testing.T) {
	s := opened(t, false, `{"type":"vxlan","VNI":7,"DirectRouting":true,"MTU":1400}`,
		`{"Type":"vxlan","MTU":1300}`, `{"Type":"udp","MTU":1200}`)
	options := func(i int) string { return string(s.members[i].network.Backend.Options) }
	if got := options(1); !strings.Contains(got, `"DirectRouting":true`) || !strings.Contains(got, "1400") ||
		strings.Contains(got, "1300") || strings.Contains(got, "VNI") || strings.Count(strings.ToLower(got), `"type"`) != 1 {
		t.Errorf("vxlan has %s", got)
	}
	if got := options(2); strings.Contains(got, "DirectRouting") {
		t.Errorf("udp has %s", got)
	}
	s = opened(t, true, wireguard, `{"Type":"wireguard","Mode":"ipv4","MTU":1400}`)
	got, id := options(1), s.members[1].id
	if !strings.Contains(got, `"Mode":"ipv4"`) || strings.Contains(got, "MTU") || id != wgAuto {
		t.Errorf("%s has %s", id, got)
	}
}

// Nodes agree on the number of WireGuard devices, in networks of both families. The modes with one device are one
// backend.
func TestModesThatAgree(t *testing.T) {
	for _, c := range []struct {
		dual bool
		mode string
		want string
	}{
		{true, "separate", wireguard}, {true, "auto", wgAuto}, {true, "ipv4", wgAuto}, {true, "ipv6", wgAuto},
		{false, "auto", wireguard}, {false, "ipv4", wireguard},
	} {
		if got := opened(t, c.dual, fmt.Sprintf(`{"Type":"wireguard","Mode":%q}`, c.mode)).Present(); got != c.want {
			t.Errorf("mode %s, both families %t: %s, want %s", c.mode, c.dual, got, c.want)
		}
	}
}

// Backend objects that cannot be opened beside others have errors that name them.
func TestBackendsThatCannotBeOpened(t *testing.T) {
	network := opened(t, false, vxlan).network()
	for _, text := range []string{
		`{"Type":"unheard-of"}`, `{"Type":"vxlan","VNI":"x"}`, `{"Type":"vxlan","VNI":0}`, `{"Type":"udp","Port":70000}`,
	} {
		if w, err := open(network, object(text)); err == nil || w.backend != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// A backend remembers a bounded number of identities, and forgets none at once that it needs.
func TestReplacesRemembers(t *testing.T) {
	w := opened(t, false, vxlan).members[0]
	other := `{"Type":"vxlan","Port":4789}`
	for i := range 3 * mostReplaced {
		w.replaces(fmt.Sprintf(`{"Type":"vxlan","VNI":%d}`, i+2))
		if len(w.replaced) > mostReplaced {
			t.Fatalf("remembers %d identities", len(w.replaced))
		}
		if i < mostReplaced-1 && len(w.replaced) != i+1 {
			t.Fatalf("remembers %d of %d identities", len(w.replaced), i+1)
		}
	}
	if !w.replaces(other) || !w.replaced[other] || !w.replaces(other) {
		t.Error("vxlan with another port does not replace it")
	}
	if w.replaces(`{"Type":"host-gw"}`) || w.replaces(`{"VNI":1}`) {
		t.Error("replaces a backend of another type")
	}
}

// A face has the data of its backend and no other backend.
func TestFaceOfABackend(t *testing.T) {
	s, a := offering(t)
	for i, want := range []string{
		addresses + `"vxlan",` + data7 + `}`, addresses + `"vxlan",` + data1 + `}`, addresses + `"host-gw"}`,
	} {
		face, ok := s.members[i].face(&a)
		if !ok || text(face) != want {
			t.Errorf("%s: face %s (%t), want %s", s.members[i].id, text(face), ok, want)
		}
	}
	if face, ok := s.members[0].face(&lease.Attrs{BackendType: "udp"}); ok || !face.Equal(lease.Attrs{}) {
		t.Errorf("a record without the backend has the face %s", text(face))
	}
}

// Two backends with a device or a port in common are not open together, except vxlan devices with one
// port, or with one name: one of these has another name.
func TestCoexists(t *testing.T) {
	for _, c := range []struct {
		previous string
		want     bool
	}{{vxlan7, true}, {port4789, true}, {hostGW, true}, {`{"Type":"udp","Port":8472}`, false}} {
		if s := opened(t, false, vxlan, c.previous); (len(s.members) == 2) != c.want {
			t.Errorf("%s beside vxlan: %d backends", c.previous, len(s.members))
		}
	}
}

// With two ports, the present device has the usual name, and the previous one another, by which each
// may have been called before. A VNI with many digits leaves no room for that.
func TestAside(t *testing.T) {
	s := opened(t, true, port4789, vxlan)
	wantLinks := []string{"flannel.1", "flannel-v6.1", "fl.1.8472", "fl6.1.8472"}
	if got := s.Extent().Links; !slices.Equal(got, wantLinks) {
		t.Errorf("devices %v, want %v", got, wantLinks)
	}
	want := []dataplane.Renaming{
		{From: "fl.1.4789", To: "flannel.1"}, {From: "fl6.1.4789", To: "flannel-v6.1"},
		{From: "flannel.1", To: "fl.1.8472"}, {From: "flannel-v6.1", To: "fl6.1.8472"},
	}
	if got := s.Renamings(); !slices.Equal(got, want) {
		t.Errorf("names %v, want %v", got, want)
	}
	if s := opened(t, true, hostGW, port4789, vxlan); !slices.Equal(s.Extent().Links, wantLinks) {
		t.Errorf("devices of two previous ports %v, want %v", s.Extent().Links, wantLinks)
	}
	long := opened(t, false, `{"Type":"vxlan","VNI":1234567,"Port":4789}`, `{"Type":"vxlan","VNI":1234567,"Port":12345}`)
	if len(long.members) != 1 {
		t.Errorf("devices %v: a name is too long for Linux", long.Extent().Links)
	}
	if got := opened(t, true, port4789, vxlan, udp).WithoutAsides().Previous(); !slices.Equal(got, []string{udp}) {
		t.Errorf("previous backends %v, want udp alone", got)
	}
	if got := opened(t, false, hostGW).Renamings(); len(got) != 0 {
		t.Errorf("host-gw renames %v", got)
	}
	want = []dataplane.Renaming{{From: "fl.udp.9000", To: "flannel0"}, {From: "flannel0", To: "fl.udp.8285"}}
	if got := opened(t, false, `{"Type":"udp","Port":9000}`, udp).Renamings(); !slices.Equal(got, want) {
		t.Errorf("names of udp %v, want %v", got, want)
	}
}
