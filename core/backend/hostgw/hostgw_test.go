package hostgw

import (
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/flanneld/flannel/core/backend"
	"github.com/flanneld/flannel/core/config"
	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/lease"
	"github.com/flanneld/flannel/core/uplink"
)

func testEnv(t *testing.T) backend.Env {
	t.Helper()
	network, err := config.Parse([]byte(`{"Network":"10.5.0.0/16","EnableIPv6":true,"IPv6Network":"fd00:10::/48",` +
		`"Backend":{"Type":"host-gw"}}`))
	if err != nil {
		t.Fatal(err)
	}
	v4, v6 := netip.MustParseAddr("192.168.64.3"), netip.MustParseAddr("fd00:a::3")
	return backend.Env{Config: network,
		Uplink: uplink.Uplink{Link: "eth0", MTU: 1500, IP: v4, PublicIP: v4, IPv6: v6, PublicIPv6: v6}}
}

func record(t *testing.T, key, ip, ip6 string) *lease.Lease {
	t.Helper()
	k, err := lease.ParseKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return &lease.Lease{Key: k, Attrs: lease.Attrs{PublicIP: netip.MustParseAddr(ip), PublicIPv6: netip.MustParseAddr(ip6),
		BackendType: Type}}
}

// interop P9: the wanted routes do not depend on the present ones, which other
// programs may have changed.
func TestRender(t *testing.T) {
	env := testEnv(t)
	self := backend.Self{Key: record(t, "10.5.34.0-24&fd00:10:0:34::-64", "192.168.64.3", "fd00:a::3").Key}
	other := record(t, "10.5.37.0-24", "192.168.64.9", "fd00:a::9")
	other.Attrs.BackendType = "vxlan"
	state, problems := Backend{}.Render(env, self, []*lease.Lease{
		record(t, "10.5.35.0-24&fd00:10:0:35::-64", "192.168.64.4", "fd00:a::4"),
		record(t, "10.5.36.0-24", "192.168.64.3", "fd00:a::5"),
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

// interop F8: translated addresses are refused in both families.
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
		env := testEnv(t)
		c.change(&env.Uplink)
		if _, err := (Backend{}).Attrs(env, lease.Attrs{}, &dataplane.State{}, nil); err == nil || err.Error() != c.want {
			t.Errorf("error %v, want %s", err, c.want)
		}
	}
}

func TestAttrsText(t *testing.T) {
	env := testEnv(t)
	a, err := Backend{}.Attrs(env, lease.Attrs{}, &dataplane.State{}, nil)
	want := `{"PublicIP":"192.168.64.3","PublicIPv6":"fd00:a::3","BackendType":"host-gw"}`
	if got := string(lease.EncodeAttrs(a)); err != nil || got != want {
		t.Errorf("record %s, %v, want %s", got, err, want)
	}
}
