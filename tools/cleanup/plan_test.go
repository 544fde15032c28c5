package cleanup

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/lease"
)

// leftovers are objects of flannel's and of other programs on one host.
const leftovers = `
link flannel.1 type vxlan mtu 1450 up id 1 dev eth0 local 192.168.64.3 port 8472
link flannel.7 type bridge mtu 1500 up
addr 10.5.1.0/32 dev flannel.1
neigh 10.5.2.0 lladdr c6:d2:32:6f:8f:44 dev flannel.1
route 10.5.2.0/24 via 10.5.2.0 dev flannel.1 onlink
route 10.5.3.0/24 via 192.168.64.4 dev eth0
route 10.5.4.0/24 via 192.168.64.5 dev eth0 proto 3
route fd00:10:0:4::/64 via fd00:a::5 dev eth0 proto 3
route 10.5.1.0/24 blackhole proto 3
route 10.5.1.0/24 dev cni0 scope 253 proto 2 metric 7
route 10.5.0.0/16 via 192.168.64.9 dev eth0 proto 3
route 10.5.5.0/24 via 192.168.64.5 dev eth0 metric 50 proto 3
route 10.5.6.0/24 via 192.168.64.5 dev eth0 proto 4
route 10.5.7.0/25 via 192.168.64.5 dev eth0 proto 3
route 10.5.8.0/24 dev eth0 proto 3
route 10.5.9.0/24 dev flannel.7 proto 3
route 10.6.0.0/24 via 192.168.64.5 dev eth0
policy out 10.5.1.0/24 to 10.5.2.0/24 esp 192.168.64.3 to 192.168.64.4 reqid 11 priority 0
policy out 10.5.1.0/24 to 10.5.3.0/24 esp 192.168.64.3 to 192.168.64.5 reqid 12 priority 0
`

func TestPlan(t *testing.T) {
	have, err := dataplane.ParseDump(leftovers)
	if err != nil {
		t.Fatal(err)
	}
	m := marks{
		networks: []netip.Prefix{netip.MustParsePrefix("10.5.0.0/16"), netip.MustParsePrefix("fd00:10::/48")},
		subnets: []lease.Key{{
			V4: netip.MustParsePrefix("10.5.1.0/24"), V6: netip.MustParsePrefix("fd00:10:0:1::/64"),
		}},
	}
	ops, kept := m.plan(have, []string{"flannel.1", "flannel.7"})
	var lines []string
	for _, op := range ops {
		lines = append(lines, op.String())
	}
	for _, i := range kept {
		lines = append(lines, "keep "+i.Object+": "+i.Why)
	}
	const want = `del route 10.5.1.0/24 blackhole proto 3
del route 10.5.4.0/24 via 192.168.64.5 dev eth0 proto 3
del route fd00:10:0:4::/64 via fd00:a::5 dev eth0 proto 3
del route 10.5.3.0/24 via 192.168.64.4 dev eth0
del link flannel.1 type vxlan mtu 1450 up id 1 dev eth0 local 192.168.64.3 port 8472
del policy out 10.5.1.0/24 to 10.5.2.0/24 esp 192.168.64.3 to 192.168.64.4 reqid 11 priority 0
keep link flannel.7 type bridge mtu 1500 up: flannel gives no device of type bridge this name
keep route 10.6.0.0/24 via 192.168.64.5 dev eth0: it has flannel's protocol, and lies in no known network of ` +
		`flannel's; name that with --network`
	if d := cmp.Diff(want, strings.Join(lines, "\n")); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

// TestPlanWithoutMarks shows that without a known network only devices go.
func TestPlanWithoutMarks(t *testing.T) {
	have, err := dataplane.ParseDump(leftovers)
	if err != nil {
		t.Fatal(err)
	}
	ops, kept := marks{}.plan(have, []string{"flannel.1", "flannel.7"})
	if len(ops) != 1 || !strings.HasPrefix(ops[0].String(), "del link flannel.1 ") || len(kept) != 3 {
		t.Errorf("ops %v, kept %v", ops, kept)
	}
}
