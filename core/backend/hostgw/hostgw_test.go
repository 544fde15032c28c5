package hostgw

import (
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/flanneld/flannel/core/backend"
	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/lease"
	"github.com/flanneld/flannel/core/uplink"
	"github.com/flanneld/flannel/internal/backendtest"
)

func newBackend(t *testing.T) (Backend, backend.Env) {
	t.Helper()
	return backendtest.Open[Backend](t, Spec(), `{"Network":"10.5.0.0/16","EnableIPv6":true,`+
		`"IPv6Network":"fd00:10::/48","Backend":{"Type":"host-gw"}}`)
}

// The wanted routes do not depend on the present ones, which other programs may have
// changed (interop P9).
func TestRender(t *testing.T) {
	b, env := newBackend(t)
	own := backendtest.Record(t, "10.5.34.0-24&fd00:10:0:34::-64", Type, "192.168.64.3", "fd00:a::3")
	self := backend.Self{Key: own.Key}
	other := backendtest.Record(t, "10.5.37.0-24", Type, "192.168.64.9", "fd00:a::9")
	other.Attrs.BackendType = "vxlan"
	state, problems := b.Render(env, self, []*lease.Lease{
		backendtest.Record(t, "10.5.35.0-24&fd00:10:0:35::-64", Type, "192.168.64.4", "fd00:a::4"),
		backendtest.Record(t, "10.5.36.0-24", Type, "192.168.64.3", "fd00:a::5"),
		other,
	})
	want := "route 10.5.35.0/24 via 192.168.64.4 dev eth0\nroute fd00:10:0:35::/64 via fd00:a::4 dev eth0\n"
	if d := cmp.Diff(want, state.Dump()); d != "" {
		t.Errorf("rendered (-want +got):\n%s", d)
	}
	if len(problems) != 1 || problems[0].String() != "peer 10.5.36.0-24: public address 192.168.64.3 is our own" {
		t.Errorf("problems %v", problems)
	}
}

// Translated addresses are refused in both families (interop F8).
func TestRefusesNAT(t *testing.T) {
	for _, c := range []struct {
		change func(*uplink.Uplink)
		want   string
	}{
		{func(u *uplink.Uplink) { u.PublicIP = netip.MustParseAddr("203.0.113.7") },
			"host-gw: the public IPv4 address 203.0.113.7 is not the address 192.168.64.3 of eth0; peers could not use it as " +
				"a gateway"},
		{func(u *uplink.Uplink) { u.PublicIPv6 = netip.MustParseAddr("2001:db8::7") },
			"host-gw: the public IPv6 address 2001:db8::7 is not the address fd00:a::3 of eth0; peers could not use it as a " +
				"gateway"},
	} {
		b, env := newBackend(t)
		c.change(&env.Uplink)
		if _, err := b.Attrs(env, lease.Attrs{}, &dataplane.State{}, nil); err == nil || err.Error() != c.want {
			t.Errorf("error %v, want %s", err, c.want)
		}
	}
}

func TestAttrsText(t *testing.T) {
	b, env := newBackend(t)
	a, err := b.Attrs(env, lease.Attrs{}, &dataplane.State{}, nil)
	want := `{"PublicIP":"192.168.64.3","PublicIPv6":"fd00:a::3","BackendType":"host-gw"}`
	if got := string(lease.EncodeAttrs(a)); err != nil || got != want {
		t.Errorf("record %s, %v, want %s", got, err, want)
	}
}
