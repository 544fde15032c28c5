package reconcile

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The objects of the udp backend: a TUN device, the proxy on it, and a route for
// the whole network.
const (
	tunDevice   = "link flannel0 type tun mtu 1472 up\naddr 10.5.1.0/32 dev flannel0\n"
	tunnel      = tunDevice + "proxy flannel0 local 192.168.64.3:8285 subnet 10.5.1.0/24 mtu 1472 offload auto\n"
	tunnelPeers = "peer 10.5.2.0/24 to 192.168.64.4 dev flannel0\npeer 10.5.3.0/24 to 192.168.64.5 dev flannel0\n"
	tunnelRoute = "route 10.5.0.0/16 dev flannel0\n"
)

func TestDiffProxy(t *testing.T) {
	all := tunnel + tunnelPeers + tunnelRoute
	const run = "\nreplace proxy flannel0 local 192.168.64.3:8285 subnet 10.5.1.0/24 mtu 1472 offload auto"
	const peers = "\nreplace peer 10.5.2.0/24 to 192.168.64.4 dev flannel0\n" +
		"replace peer 10.5.3.0/24 to 192.168.64.5 dev flannel0"
	for _, c := range []struct {
		name       string
		want, have string
		unsynced   bool
		withheld   int
		ops        string
	}{
		{name: "equal", want: all, have: all},
		{name: "from nothing, in the order of need", want: all,
			ops: "\nadd link flannel0 type tun mtu 1472 up\nreplace addr 10.5.1.0/32 dev flannel0" + run + peers +
				"\nadd route 10.5.0.0/16 dev flannel0"},
		{name: "after a restart the device is there without a proxy", want: all,
			have: tunDevice + tunnelRoute, ops: run + peers},
		{name: "a new address of the uplink: in place, and the peers stay",
			want: strings.Replace(all, "64.3:", "64.9:", 1), have: all,
			ops: strings.Replace(run, "64.3:", "64.9:", 1)},
		{name: "another way to carry packets", want: strings.Replace(all, "auto", "off", 1), have: all,
			ops: strings.Replace(run, "auto", "off", 1)},
		{name: "a peer that moved and one that left",
			want: strings.NewReplacer("64.4", "64.8", "peer 10.5.3.0/24 to 192.168.64.5 dev flannel0\n", "").Replace(all),
			have: all,
			ops:  "\nreplace peer 10.5.2.0/24 to 192.168.64.8 dev flannel0\ndel peer 10.5.3.0/24 to 192.168.64.5 dev flannel0"},
		{name: "no peer is deleted before the store is synced", want: tunnel + tunnelRoute, have: all, unsynced: true,
			withheld: 2},
		{name: "a device of another type takes everything along", want: all,
			have: strings.Replace(all, "type tun", "type tap", 1),
			ops: "\ndel link flannel0 type tap mtu 1472 up\nadd link flannel0 type tun mtu 1472 up\n" +
				"replace addr 10.5.1.0/32 dev flannel0" + run + peers + "\nadd route 10.5.0.0/16 dev flannel0"},
		{name: "a deleted proxy takes its peers along", want: "link flannel0 type tun mtu 1472 up\n", have: all,
			ops: "\ndel route 10.5.0.0/16 dev flannel0\n" +
				"del proxy flannel0 local 192.168.64.3:8285 subnet 10.5.1.0/24 mtu 1472 offload auto\n" +
				"del addr 10.5.1.0/32 dev flannel0"},
		{name: "a deleted device takes everything along", have: all, ops: "\ndel link flannel0 type tun mtu 1472 up"},
		{name: "foreign objects stay", want: all, have: all + strings.ReplaceAll(tunnel+tunnelPeers, "flannel0", "tun7")},
	} {
		t.Run(c.name, func(t *testing.T) {
			own := Ownership{Links: map[string]bool{"flannel0": true},
				Networks: []netip.Prefix{netip.MustParsePrefix("10.5.0.0/16")}}
			plan := Diff(parse(t, c.want), parse(t, c.have), Options{Own: own, Prune: !c.unsynced})
			var ops strings.Builder
			for _, op := range plan.Ops {
				ops.WriteString("\n" + op.String())
			}
			if d := cmp.Diff(c.ops, ops.String()); d != "" {
				t.Errorf("plan (-want +got):\n%s", d)
			}
			if plan.Withheld != c.withheld {
				t.Errorf("withheld %d, want %d", plan.Withheld, c.withheld)
			}
		})
	}
}
