package ipip

import (
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/flanneld/flannel/core/backend"
	"github.com/flanneld/flannel/core/config"
	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/driver"
	"github.com/flanneld/flannel/core/lease"
	"github.com/flanneld/flannel/internal/backendtest"
)

// newBackend is behind a translated address, on the segment 192.168.64.0/24.
func newBackend(t *testing.T, conf string) (Backend, backend.Env) {
	t.Helper()
	b, env := backendtest.Open[Backend](t, Spec(), conf)
	env.Uplink.PublicIP = netip.MustParseAddr("203.0.113.3")
	env.Facts.Routes = []driver.Route{{
		Dst:  netip.MustParsePrefix("192.168.64.0/24"),
		Hops: []driver.Hop{{Link: "eth0"}},
	}}
	return b, env
}

// The tunnel's local address is the interface's, not the public one, and routes
// of direct peers are onlink too (interop 6.4).
func TestRender(t *testing.T) {
	const device = "link flannel.ipip type ipip mtu 1480 up local 192.168.64.3\naddr 10.5.34.0/32 dev flannel.ipip\n"
	for conf, want := range map[string]string{
		`{"Network":"10.5.0.0/16","Backend":{"Type":"ipip"}}`: device +
			"route 10.5.35.0/24 via 192.168.64.4 dev flannel.ipip onlink\n" +
			"route 10.5.36.0/24 via 192.168.65.5 dev flannel.ipip onlink\n",
		`{"Network":"10.5.0.0/16","Backend":{"Type":"ipip","DirectRouting":true}}`: device +
			"route 10.5.35.0/24 via 192.168.64.4 dev eth0 onlink\n" +
			"route 10.5.36.0/24 via 192.168.65.5 dev flannel.ipip onlink\n",
	} {
		b, env := newBackend(t, conf)
		self := backend.Self{Key: backendtest.Record(t, "10.5.34.0-24", Type, "203.0.113.3").Key}
		state, problems := b.Render(env, self, []*lease.Lease{
			backendtest.Record(t, "10.5.35.0-24", Type, "192.168.64.4"),
			backendtest.Record(t, "10.5.36.0-24", Type, "192.168.65.5"),
			backendtest.Record(t, "10.5.37.0-24", "vxlan", "192.168.64.6"),
		})
		if d := cmp.Diff(want, state.Dump()); d != "" || len(problems) > 0 {
			t.Errorf("%s: problems %v, rendered (-want +got):\n%s", conf, problems, d)
		}
		if links := b.Extent().Links; len(links) != 1 || state.Links[links[0]].Name == "" {
			t.Errorf("%s: the backend owns the links %q, want the one that it renders", conf, links)
		}
		if mtu := b.MTU(env); mtu != 1480 {
			t.Errorf("MTU %d, want 1480", mtu)
		}
	}
}

// The record holds an address and the type, and no data (interop 3.3).
func TestAttrs(t *testing.T) {
	b, env := newBackend(t, `{"Network":"10.5.0.0/16","Backend":{"Type":"ipip"}}`)
	attrs, err := b.Attrs(env, lease.Attrs{}, dataplane.NewState(), nil)
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"PublicIP":"203.0.113.3","PublicIPv6":null,"BackendType":"ipip"}`
	if got := string(lease.EncodeAttrs(attrs)); got != want {
		t.Errorf("record %s, want %s", got, want)
	}
}

// A node that has lost its subnet for certain keeps the device.
func TestRenderWithoutSubnet(t *testing.T) {
	b, env := newBackend(t, `{"Network":"10.5.0.0/16","Backend":{"Type":"ipip"}}`)
	state, _ := b.Render(env, backend.Self{}, nil)
	const want = "link flannel.ipip type ipip mtu 1480 up local 192.168.64.3\n"
	if d := cmp.Diff(want, state.Dump()); d != "" {
		t.Errorf("rendered (-want +got):\n%s", d)
	}
}

// Only direct routing depends on the routes to the peers.
func TestReach(t *testing.T) {
	for conf, want := range map[string]int{
		`{"Network":"10.5.0.0/16","Backend":{"Type":"ipip"}}`:                      0,
		`{"Network":"10.5.0.0/16","Backend":{"Type":"ipip","DirectRouting":true}}`: 1,
	} {
		b, env := newBackend(t, conf)
		peers := []*lease.Lease{backendtest.Record(t, "10.5.35.0-24", Type, "192.168.64.4")}
		if got := b.Reach(env.Config, peers); len(got) != want {
			t.Errorf("%s: asks for the routes to %v, want %d", conf, got, want)
		}
	}
}

// TestBadOptions checks the exact errors of options.
func TestBadOptions(t *testing.T) {
	for conf, want := range map[string]string{
		`{"Network":"10.5.0.0/16","Backend":{"Type":"ipip","DirectRouting":1}}`: "Backend DirectRouting 1: " +
			"want true or false",
		`{"Network":"10.5.0.0/16","Backend":{"Type":"ipip","DirectRouting":"yes"}}`: `Backend DirectRouting "yes": ` +
			`want true or false`,
	} {
		network, err := config.Parse([]byte(conf))
		if err != nil {
			t.Fatal(err)
		}
		_, err = Spec().Open(network)
		if err == nil || err.Error() != want {
			t.Errorf("%s: %v\nwant %s", conf, err, want)
		}
	}
}
