package reconcile

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/flanneld/flannel/core/dataplane"
)

const device = "link flannel.1 type vxlan mtu 1450 mac c6:00:00:00:00:01 up " +
	"id 1 dev eth0 local 192.168.64.3 port 8472\n"

const self = device + "addr 10.5.1.0/32 dev flannel.1\nsysctl net/ipv6/conf/flannel.1/accept_ra = 0 dev flannel.1\n"

const peer = `neigh 10.5.3.0 lladdr c6:00:00:00:00:03 dev flannel.1
fdb c6:00:00:00:00:03 dst 192.168.64.4 dev flannel.1
route 10.5.3.0/24 via 10.5.3.0 dev flannel.1 onlink
`

const network = "route 10.5.0.0/16 dev flannel.1\n" // a previous backend's

var other = strings.ReplaceAll(device, "flannel.1", "flannel.9")

func own() Ownership {
	return Ownership{Links: map[string]bool{"flannel.1": true, "flannel.9": true},
		Networks: []netip.Prefix{netip.MustParsePrefix("10.5.0.0/16"), netip.MustParsePrefix("fd00:10::/48")},
		Beside:   []netip.Prefix{netip.MustParsePrefix("10.6.0.0/16")}}
}

func parse(t *testing.T, text string) *dataplane.State {
	t.Helper()
	s, err := dataplane.ParseDump(text)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// opsText returns ops, one a line.
func opsText(ops []dataplane.Op) string {
	var b strings.Builder
	for _, op := range ops {
		b.WriteString(op.String() + "\n")
	}
	return b.String()
}

var diffCases = []struct {
	name       string
	want, have string
	unsynced   bool
	ops        string
	withheld   int
	conflicts  []string
}{
	{name: "equal", want: self + peer, have: self + peer},
	{name: "from nothing, in the order of need", want: self + peer, ops: `
add link flannel.1 type vxlan mtu 1450 mac c6:00:00:00:00:01 up id 1 dev eth0 local 192.168.64.3 port 8472
replace sysctl net/ipv6/conf/flannel.1/accept_ra = 0 dev flannel.1
replace addr 10.5.1.0/32 dev flannel.1
replace fdb c6:00:00:00:00:03 dst 192.168.64.4 dev flannel.1
replace neigh 10.5.3.0 lladdr c6:00:00:00:00:03 dev flannel.1
add route 10.5.3.0/24 via 10.5.3.0 dev flannel.1 onlink`},
	{name: "a peer that left goes in the reverse order", want: self, have: self + peer, ops: `
del route 10.5.3.0/24 via 10.5.3.0 dev flannel.1 onlink
del neigh 10.5.3.0 lladdr c6:00:00:00:00:03 dev flannel.1
del fdb c6:00:00:00:00:03 dst 192.168.64.4 dev flannel.1`},
	{name: "a route stays until the ones inside it stand", want: self + peer, have: self + network, ops: `
replace fdb c6:00:00:00:00:03 dst 192.168.64.4 dev flannel.1
replace neigh 10.5.3.0 lladdr c6:00:00:00:00:03 dev flannel.1
add route 10.5.3.0/24 via 10.5.3.0 dev flannel.1 onlink`},
	{name: "and goes then", want: self + peer, have: self + peer + network, ops: `
del route 10.5.0.0/16 dev flannel.1`},
	{name: "a route beside the new ones goes at once",
		want: self + peer, have: self + strings.ReplaceAll(network, ".0.0/16", ".4.0/24"), ops: `
replace fdb c6:00:00:00:00:03 dst 192.168.64.4 dev flannel.1
replace neigh 10.5.3.0 lladdr c6:00:00:00:00:03 dev flannel.1
add route 10.5.3.0/24 via 10.5.3.0 dev flannel.1 onlink
del route 10.5.4.0/24 dev flannel.1`},
	{name: "an address of another network of the host goes, and another program's stays", want: self,
		have: self + "addr 10.6.9.0/32 dev flannel.1\naddr 10.7.9.0/32 dev flannel.1", ops: `
del addr 10.6.9.0/32 dev flannel.1`},
	{name: "nothing is deleted before the store is synced", want: self, have: self + peer, unsynced: true, withheld: 3},
	{name: "a changed MAC: new entry, neighbour, old entry",
		want: self + strings.ReplaceAll(peer, ":03 d", ":33 d"), have: self + peer, ops: `
replace fdb c6:00:00:00:00:33 dst 192.168.64.4 dev flannel.1
replace neigh 10.5.3.0 lladdr c6:00:00:00:00:33 dev flannel.1
del fdb c6:00:00:00:00:03 dst 192.168.64.4 dev flannel.1`},
	{name: "an odd entry makes way for ours, and goes where none is wanted",
		want: self + peer, have: self + strings.Replace(peer, "192.168.64.4", "0.0.0.0", 1) +
			"fdb c6:00:00:00:00:05 dst 0.0.0.0 dev flannel.1", ops: `
del fdb c6:00:00:00:00:03 dst 0.0.0.0 dev flannel.1
replace fdb c6:00:00:00:00:03 dst 192.168.64.4 dev flannel.1
del fdb c6:00:00:00:00:05 dst 0.0.0.0 dev flannel.1`},
	{name: "a changed VNI needs a new device, which takes everything along",
		want: strings.Replace(self, "id 1", "id 2", 1) + peer, have: self + peer, ops: `
del link flannel.1 type vxlan mtu 1450 mac c6:00:00:00:00:01 up id 1 dev eth0 local 192.168.64.3 port 8472
add link flannel.1 type vxlan mtu 1450 mac c6:00:00:00:00:01 up id 2 dev eth0 local 192.168.64.3 port 8472
replace sysctl net/ipv6/conf/flannel.1/accept_ra = 0 dev flannel.1
replace addr 10.5.1.0/32 dev flannel.1
replace fdb c6:00:00:00:00:03 dst 192.168.64.4 dev flannel.1
replace neigh 10.5.3.0 lladdr c6:00:00:00:00:03 dev flannel.1
add route 10.5.3.0/24 via 10.5.3.0 dev flannel.1 onlink`},
	{name: "MTU and local address change in place",
		want: strings.NewReplacer("1450", "1400", "64.3", "64.9").Replace(self) + peer, have: self + peer, ops: `
replace link flannel.1 type vxlan mtu 1400 mac c6:00:00:00:00:01 up id 1 dev eth0 local 192.168.64.9 port 8472`},
	{name: "a new MAC of the device empties its neighbour table",
		want: strings.Replace(self, ":01", ":11", 1) + peer, have: self + peer, ops: `
replace link flannel.1 type vxlan mtu 1450 mac c6:00:00:00:00:11 up id 1 dev eth0 local 192.168.64.3 port 8472
replace neigh 10.5.3.0 lladdr c6:00:00:00:00:03 dev flannel.1`},
	{name: "a setting with another value", want: self, have: strings.Replace(self, "= 0", "= 1", 1), ops: `
replace sysctl net/ipv6/conf/flannel.1/accept_ra = 0 dev flannel.1`},
	{name: "a setting that does not exist has nothing to be set", want: self,
		have: device + "addr 10.5.1.0/32 dev flannel.1\n"},
	{name: "an unset MAC takes any", want: strings.Replace(self, " mac c6:00:00:00:00:01", "", 1), have: self},
	{name: "our old device goes with everything on it", want: self,
		have: self + strings.ReplaceAll(device+peer, "flannel.1", "flannel.9"), ops: `
del link flannel.9 type vxlan mtu 1450 mac c6:00:00:00:00:01 up id 1 dev eth0 local 192.168.64.3 port 8472`},
	{name: "foreign objects stay", want: self, have: self + `
addr 172.16.0.1/32 dev flannel.1
addr fe80::1/64 dev flannel.1
route 10.5.9.0/24 via 192.168.64.77 dev eth0 proto 3
route 10.5.8.0/24 dev cni0 proto 2
route 172.16.0.0/24 dev flannel.1 proto 3`},
	{name: "another daemon's objects on our device stay", want: self,
		have: self + `addr 10.7.1.0/32 dev flannel.1
addr fd00:20::/128 dev flannel.1
` + strings.ReplaceAll(peer, "10.5", "10.7") + `nexthop 10.7.3.0 via 10.7.3.0 dev flannel.1
fdb c6:00:00:00:00:04 dst 192.168.64.5 dev flannel.1`, ops: `
del fdb c6:00:00:00:00:04 dst 192.168.64.5 dev flannel.1`},
	{name: "objects of another network of this host are left over on our device", want: self,
		have: self + "addr 10.6.1.0/32 dev flannel.1\n" + strings.ReplaceAll(peer, "10.5", "10.6"), ops: `
del route 10.6.3.0/24 via 10.6.3.0 dev flannel.1 onlink
del neigh 10.6.3.0 lladdr c6:00:00:00:00:03 dev flannel.1
del fdb c6:00:00:00:00:03 dst 192.168.64.4 dev flannel.1
del addr 10.6.1.0/32 dev flannel.1`},
	{name: "upstream's objects on our device are ours", want: self, have: self + `
addr 10.5.77.0/32 dev flannel.1
route 10.5.9.0/24 via 10.5.9.0 dev flannel.1 onlink proto 3
route 10.5.8.0/24 via 192.168.64.7 dev eth0`, ops: `
del route 10.5.9.0/24 via 10.5.9.0 dev flannel.1 onlink proto 3
del route 10.5.8.0/24 via 192.168.64.7 dev eth0
del addr 10.5.77.0/32 dev flannel.1`},
	{name: "a former address makes way for a route to the peer that has it now",
		want: self + peer, have: self + "addr 10.5.3.0/32 dev flannel.1\naddr 10.5.4.0/32 dev flannel.1", ops: `
del addr 10.5.3.0/32 dev flannel.1
replace fdb c6:00:00:00:00:03 dst 192.168.64.4 dev flannel.1
replace neigh 10.5.3.0 lladdr c6:00:00:00:00:03 dev flannel.1
add route 10.5.3.0/24 via 10.5.3.0 dev flannel.1 onlink
del addr 10.5.4.0/32 dev flannel.1`},
	{name: "a former address stays before the store is synced", unsynced: true, withheld: 1,
		want: self + peer, have: self + peer + "addr 10.5.3.0/32 dev flannel.1"},
	{name: "a foreign route in the way is replaced", want: self + peer,
		have: self + strings.Replace(peer, "via 10.5.3.0 dev flannel.1 onlink", "via 192.168.64.99 dev eth0 proto 3", 1),
		ops: `
replace route 10.5.3.0/24 via 10.5.3.0 dev flannel.1 onlink`},
	{name: "IPv6: a route over another link makes way for an onlink one",
		want: self + "route fd00:10:0:3::/64 via fd00:10:0:3:: dev flannel.1 onlink",
		have: self + "route fd00:10:0:3::/64 via fd00:a::4 dev eth0", ops: `
del route fd00:10:0:3::/64 via fd00:a::4 dev eth0
replace route fd00:10:0:3::/64 via fd00:10:0:3:: dev flannel.1 onlink`},
	{name: "IPv6: the route of the whole network makes way for onlink ones, after the others",
		want: self + other + "route fd00:10:0:3::/64 via fd00:10:0:3:: dev flannel.1 onlink\n" +
			"route fd00:10:0:4::/64 dev flannel.9",
		have: self + other + "route fd00:10::/48 dev flannel.9\nroute fd00:10:0:5::/64 dev flannel.9", ops: `
add route fd00:10:0:4::/64 dev flannel.9
del route fd00:10::/48 dev flannel.9
add route fd00:10:0:3::/64 via fd00:10:0:3:: dev flannel.1 onlink
del route fd00:10:0:5::/64 dev flannel.9`},
	{name: "a route stays while a wider one of another link goes with it",
		want: self + "route 10.5.0.0/16 dev flannel.1 metric 1",
		have: self + "link flannel.9 type dummy up\nroute 10.5.0.0/16 dev flannel.9\nroute 10.5.3.0/24 dev flannel.1", ops: `
add route 10.5.0.0/16 dev flannel.1 metric 1
del link flannel.9 type dummy mtu 0 up`},
	{name: "a connected route in the way is a conflict", want: self + peer,
		have: self + strings.Replace(peer, "via 10.5.3.0 dev flannel.1 onlink", "dev cni0 proto 2", 1),
		conflicts: []string{"route 10.5.3.0/24 via 10.5.3.0 dev flannel.1 onlink: an address of this host on cni0 " +
			"already covers it (route 10.5.3.0/24 dev cni0 proto 2); remove that address or give the peer another subnet"}},
	{name: "a foreign route that wins by its metric is a conflict",
		want: self + "route 10.5.0.0/16 dev flannel.1 metric 1",
		have: self + "route 10.5.0.0/16 dev flannel.1 metric 1\nroute 10.5.0.0/16 via 192.168.64.99 dev eth0 proto 3",
		conflicts: []string{"route 10.5.0.0/16 dev flannel.1 metric 1: a foreign route wins over it " +
			"(route 10.5.0.0/16 via 192.168.64.99 dev eth0 proto 3); remove that or give the overlay another network"}},
	{name: "our own route that wins by its metric is deleted", want: self + "route 10.5.0.0/16 dev flannel.1 metric 1",
		have: self + "route 10.5.0.0/16 dev flannel.1 metric 1\nroute 10.5.0.0/16 dev flannel.1 proto 3", ops: `
del route 10.5.0.0/16 dev flannel.1 proto 3`},
	{name: "a blackhole yields to the bridge's route",
		want: self + "route 10.5.1.0/24 blackhole metric 4294967295",
		have: self + "route 10.5.1.0/24 blackhole metric 4294967295\nroute 10.5.1.0/24 dev cni0 scope 253 proto 2"},
}

func TestDiff(t *testing.T) {
	for _, c := range diffCases {
		t.Run(c.name, func(t *testing.T) {
			plan := Diff(parse(t, c.want), parse(t, c.have), Options{Own: own(), Prune: !c.unsynced})
			var ops strings.Builder
			for _, op := range plan.Ops {
				ops.WriteString("\n" + op.String())
			}
			if d := cmp.Diff(c.ops, ops.String()); d != "" {
				t.Errorf("plan (-want +got):\n%s", d)
			}
			var conflicts []string
			for _, err := range plan.Conflicts {
				conflicts = append(conflicts, err.Error())
			}
			if d := cmp.Diff(c.conflicts, conflicts); d != "" {
				t.Errorf("conflicts (-want +got):\n%s", d)
			}
			if plan.Withheld != c.withheld {
				t.Errorf("withheld %d, want %d", plan.Withheld, c.withheld)
			}
		})
	}
}

func TestRefusedChangeRecreates(t *testing.T) {
	want, have := parse(t, strings.Replace(self, "64.3", "64.9", 1)), parse(t, self)
	plan := Diff(want, have, Options{Own: own(), Prune: true, Recreate: map[string]bool{"flannel.1": true}})
	if len(plan.Ops) != 4 || plan.Ops[0].Verb != dataplane.Delete || plan.Ops[1].Verb != dataplane.Create {
		t.Errorf("plan: %v", plan.Ops)
	}
}
