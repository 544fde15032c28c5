package dataplane

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Everything on a renamed link is on it still, and everything else is as it was.
func TestRenamed(t *testing.T) {
	const before = `link flannel.1 type vxlan mtu 1450 mac c6:d2:32:6f:8f:44 up id 1 dev eth0 local 192.168.64.3 port 8472
link flannel.7 type vxlan mtu 1450 up id 7 dev eth0 local 192.168.64.3 port 8472
addr 10.5.1.0/32 dev flannel.1
addr 10.5.1.0/32 dev flannel.7
sysctl ethtool/flannel.1/tx-checksum-ip-generic = off dev flannel.1
sysctl net/ipv6/conf/flannel.1/accept_ra = 0 dev flannel.1
proxy flannel.1 local 192.168.64.3:8285 subnet 10.5.1.0/24 mtu 1472 offload auto
peer 10.5.3.0/24 to 192.168.64.4 dev flannel.1
peer 10.5.3.0/24 to 192.168.64.4 dev flannel.7
neigh 10.5.3.0 lladdr c6:00:00:00:00:03 dev flannel.1
neigh 10.5.4.0 lladdr c6:00:00:00:00:04 dev flannel.7
fdb c6:00:00:00:00:03 dst 192.168.64.4 dev flannel.1
fdb c6:00:00:00:00:04 dst 192.168.64.5 dev flannel.7
nexthop 10.5.6.0 via 10.5.6.0 dev flannel.1 onlink
route 10.5.3.0/24 via 10.5.3.0 dev flannel.1 onlink
route 10.5.4.0/24 via 10.5.4.0 dev flannel.7 onlink
route 10.5.6.0/24 nhid 10.5.6.0 via 10.5.6.0 dev flannel.1 onlink
`
	s, err := ParseDump(before)
	if err != nil {
		t.Fatal(err)
	}
	want, err := ParseDump(strings.NewReplacer("flannel.1", "fl.1.8472").Replace(before))
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want.Dump(), s.Renamed("flannel.1", "fl.1.8472").Dump()); d != "" {
		t.Errorf("after the renaming (-want +got):\n%s", d)
	}
	if d := cmp.Diff(before, s.Dump()); d != "" {
		t.Errorf("the state has changed (-want +got):\n%s", d)
	}
	s.Running["flannel.1"] = Running{Tier: "gso"}
	if s.Renamed("flannel.1", "fl.1.8472").Running["fl.1.8472"].Tier != "gso" {
		t.Error("the packet path of the link does not run any more")
	}
	if !s.Renamed("flannel.9", "fl.9.1").Equal(s) {
		t.Error("a link that does not exist was renamed")
	}
}
