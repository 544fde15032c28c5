package ways

import (
	"fmt"
	"strings"
	"testing"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/config"
	"github.com/flanneld/flannel/core/lease"
)

// A former way has the families of the network that it carries.
func TestFamiliesOfAFormerWay(t *testing.T) {
	for former, want := range map[string][2]bool{vxlan: {true, true}, udp: {true, false}} {
		s := opened(t, true, hostGW, former)
		if len(s.ways) != 2 {
			t.Fatalf("%s is not opened", former)
		}
		for i, f := range cidr.Families {
			if got := s.ways[1].carries(f); got != want[i] {
				t.Errorf("%s carries %s: %t", former, f, got)
			}
		}
		if env := s.ways[1].env(environment(s)); env.Config.Of(cidr.V6).Enabled() != want[1] {
			t.Errorf("the config of %s has IPv6: %t", former, env.Config.Of(cidr.V6).Enabled())
		}
	}
	network, err := config.Parse([]byte(
		`{"EnableIPv4":false,"EnableIPv6":true,"IPv6Network":"fd00:10:5::/48","Backend":{"Type":"vxlan"}}`))
	if err != nil {
		t.Fatal(err)
	}
	if s, err := New(network, object(udp)); err != nil || len(s.ways) != 1 {
		t.Errorf("udp is open in a network without IPv4: %v", err)
	}
}

// A former way of the same type has the present values of the options on which nodes need
// not agree, and its own of the others.
func TestOptionsOfAFormerWay(t *testing.T) {
	s := opened(t, false, `{"type":"vxlan","VNI":7,"DirectRouting":true,"MTU":1400}`,
		`{"Type":"vxlan","MTU":1300}`, `{"Type":"udp","MTU":1200}`)
	options := func(i int) string { return string(s.ways[i].network.Backend.Options) }
	if got := options(1); !strings.Contains(got, `"DirectRouting":true`) || !strings.Contains(got, "1400") ||
		strings.Contains(got, "1300") || strings.Contains(got, "VNI") || strings.Count(strings.ToLower(got), `"type"`) != 1 {
		t.Errorf("vxlan has %s", got)
	}
	if got := options(2); strings.Contains(got, "DirectRouting") {
		t.Errorf("udp has %s", got)
	}
}

// Backend objects that cannot be opened beside others have errors that name them.
func TestWaysThatCannotBeOpened(t *testing.T) {
	network := opened(t, false, vxlan).network()
	for _, text := range []string{
		`{"Type":"unheard-of"}`, `{"Type":"vxlan","VNI":"x"}`, `{"Type":"vxlan","VNI":0}`, `{"Type":"udp","Port":70000}`,
	} {
		if w, err := open(network, object(text)); err == nil || w.backend != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// A way remembers a bounded number of identities, and forgets none at once that it needs.
func TestReplacesRemembers(t *testing.T) {
	w := opened(t, false, vxlan).ways[0]
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
		t.Error("replaces a way of another type")
	}
}

// A face has the data of its way and no other way.
func TestFaceOfAWay(t *testing.T) {
	s, a := offering(t)
	for i, want := range []string{
		addresses + `"vxlan",` + data7 + `}`, addresses + `"vxlan",` + data1 + `}`, addresses + `"host-gw"}`,
	} {
		face, ok := s.ways[i].face(&a)
		if !ok || text(face) != want {
			t.Errorf("%s: face %s (%t), want %s", s.ways[i].id, text(face), ok, want)
		}
	}
	if face, ok := s.ways[0].face(&lease.Attrs{BackendType: "udp"}); ok || !face.Equal(lease.Attrs{}) {
		t.Errorf("a record without the way has the face %s", text(face))
	}
}

// Two ways with a device or a port in common are not open together, except vxlan devices
// with one port.
func TestCoexists(t *testing.T) {
	for _, c := range []struct {
		former string
		want   bool
	}{{vxlan7, true}, {`{"Type":"vxlan","Port":4789}`, false}, {hostGW, true}, {`{"Type":"udp","Port":8472}`, false}} {
		if s := opened(t, false, vxlan, c.former); (len(s.ways) == 2) != c.want {
			t.Errorf("%s beside vxlan: %d ways", c.former, len(s.ways))
		}
	}
}
