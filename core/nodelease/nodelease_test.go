package nodelease

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/config"
	"github.com/flanneld/flannel/core/lease"
)

func network(t testing.TB, text string) config.Network {
	n, err := config.ParseAssigned([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

const (
	onlyV4 = `{"Network":"10.244.0.0/16","Backend":{"Type":"vxlan"}}`
	both   = `{"Network":"10.244.0.0/16","EnableIPv6":true,"IPv6Network":"fd00:244::/48","Backend":{"Type":"vxlan"}}`
)

// peer is the i-th node with a lease.
func peer(i int, more ...func(*Node)) Node {
	n := Node{Name: fmt.Sprintf("n%d", i), UID: fmt.Sprintf("u%d", i), Created: int64(i),
		PodCIDRs: fmt.Sprintf("10.244.%d.0/24", i)}
	n.Values[Marker] = "true"
	n.Values[BackendType] = "vxlan"
	n.Values[BackendData] = fmt.Sprintf(`{"VNI":1,"VtepMAC":"c6:00:00:00:00:%02x"}`, i)
	n.Values[PublicIP] = fmt.Sprintf("192.168.64.%d", i)
	for _, m := range more {
		m(&n)
	}
	return n
}

func value(a Annotation, text string) func(*Node) { return func(n *Node) { n.Values[a] = text } }
func cidrs(text string) func(*Node)               { return func(n *Node) { n.PodCIDRs = text } }

// tableOf returns the table of n1, in which the nodes were set one after the other.
func tableOf(t testing.TB, conf string, nodes ...Node) *Table {
	table := NewTable("n1", lease.Document{Data: []byte(conf), Revision: 1}, network(t, conf))
	for i, n := range nodes {
		table.Set(n, int64(10+i))
	}
	return table
}

func subnets(table *Table) string {
	snap, _ := table.Snapshot()
	var keys []string
	for _, l := range snap.Leases {
		keys = append(keys, l.Key.String())
	}
	return strings.Join(keys, " ")
}

func reasons(table *Table) string {
	snap, _ := table.Snapshot()
	var all []string
	for _, q := range snap.Quarantined {
		all = append(all, q.Reason)
	}
	return strings.Join(all, "\n")
}

func TestParsePrefix(t *testing.T) {
	for prefix, want := range map[string]string{
		"flannel.alpha.coreos.com": "flannel.alpha.coreos.com/backend-type",
		"org.com/9":                "org.com/9-backend-type",
		"org.com/":                 "org.com/backend-type",
		"org.com/a_b-":             "org.com/a_b-backend-type",
	} {
		n, err := ParsePrefix(prefix)
		if err != nil || n.Of(BackendType) != want {
			t.Errorf("%s: %s, %v", prefix, n.Of(BackendType), err)
		}
		if a, ok := n.Find([]byte(want)); !ok || a != BackendType {
			t.Errorf("%s: found %v, %v", want, a, ok)
		}
		for _, other := range []string{"", want + "x", "x" + want, "org.com/"} {
			if _, ok := n.Find([]byte(other)); ok {
				t.Errorf("%s: %q found", prefix, other)
			}
		}
	}
	for _, prefix := range []string{"", "org", "org/x", "org.COM", "org.com/a/b", "org.com/A", "org..com", "-org.com",
		"org.com//"} {
		if _, err := ParsePrefix(prefix); err == nil ||
			!strings.HasPrefix(err.Error(), fmt.Sprintf("annotation prefix %q: want ", prefix)) {
			t.Errorf("%q: %v", prefix, err)
		}
	}
}

// A bad value on a node affects no other node, and the reason names it.
func TestBadNodes(t *testing.T) {
	for name, c := range map[string]struct {
		conf string
		bad  Node
		want string
	}{
		"no pod CIDR": {onlyV4, peer(3, cidrs("")), "node n3 has no pod CIDR"},
		"three pod CIDRs": {onlyV4, peer(3, cidrs("10.244.3.0/24,10.244.4.0/24,fd00::/64")),
			"node n3 has 3 pod CIDRs; want one for each family"},
		"two of a family": {onlyV4, peer(3, cidrs("10.244.3.0/24,10.244.4.0/24")),
			"node n3: pod CIDRs 10.244.3.0/24 and 10.244.4.0/24 are both IPv4"},
		"no CIDR":   {onlyV4, peer(3, cidrs("10.244.3.0")), `node n3: pod CIDR "10.244.3.0" is not a CIDR`},
		"host bits": {onlyV4, peer(3, cidrs("10.244.3.7/24")), `node n3: pod CIDR "10.244.3.7/24" is not a CIDR`},
		"mapped": {both, peer(3, cidrs("::ffff:10.244.3.0/120")),
			`node n3: pod CIDR "::ffff:10.244.3.0/120" is not a CIDR`},
		"one address": {onlyV4, peer(3, cidrs("10.244.3.7/32")),
			"node n3: pod CIDR 10.244.3.7/32 has room for no pod"},
		"outside": {onlyV4, peer(3, cidrs("10.245.3.0/24")),
			"node n3: pod CIDR 10.245.3.0/24 is outside the network 10.244.0.0/16"},
		"everything": {onlyV4, peer(3, cidrs("0.0.0.0/0")),
			"node n3: pod CIDR 0.0.0.0/0 is outside the network 10.244.0.0/16"},
		"the whole network": {onlyV4, peer(3, cidrs("10.244.0.0/16")),
			"node n3: pod CIDR 10.244.0.0/16 overlaps that of node n1"},
		"half the network": {onlyV4, peer(0, cidrs("10.244.0.0/17")),
			"node n0: pod CIDR 10.244.0.0/17 overlaps that of node n1"},
		"part of another's": {onlyV4, peer(0, cidrs("10.244.2.128/25")),
			"node n0: pod CIDR 10.244.2.128/25 overlaps that of node n2"},
		"another's": {onlyV4, peer(3, cidrs("10.244.2.0/24")),
			"node n3: pod CIDR 10.244.2.0/24 overlaps that of node n2"},
		"ours": {onlyV4, peer(0, cidrs("10.244.1.0/24")),
			"node n0: pod CIDR 10.244.1.0/24 overlaps that of node n1"},
		"our public address": {onlyV4, peer(3, value(PublicIP, "192.168.64.1")),
			"node n3: its public address 192.168.64.1 is our own"},
		"no address": {onlyV4, peer(3, value(PublicIP, "")),
			"node n3 has no public address in the family of its pod CIDR"},
		"address is none": {onlyV4, peer(3, value(PublicIP, "x")),
			"node n3: lease value: PublicIP `\"x\"`: want an IPv4 address"},
		"of another family": {onlyV4, peer(3, value(PublicIP, "fd00::1")),
			"node n3: lease value: PublicIP `\"fd00::1\"`: want an IPv4 address"},
		"multicast": {onlyV4, peer(3, value(PublicIP, "224.0.0.1")),
			"node n3: no node can be reached at its public address 224.0.0.1"},
		"loopback": {onlyV4, peer(3, value(PublicIP, "127.0.0.1")),
			"node n3: no node can be reached at its public address 127.0.0.1"},
		"inside the network": {onlyV4, peer(3, value(PublicIP, "10.244.2.1")),
			"node n3: no node can be reached at its public address 10.244.2.1"},
		"data are not JSON": {onlyV4, peer(3, value(BackendData, "{")), `node n3: backend data "{", "": not JSON`},
		"data break out": {onlyV4, peer(3, value(BackendData, `null,"PublicIP":"192.168.64.2"`)),
			`node n3: backend data "null,\"PublicIP\":\"192.168.64.2\"", "": not JSON`},
		"too long": {onlyV4, peer(3, value(BackendType, strings.Repeat("x", MaxValue+1))),
			"node n3: annotation backend-type is longer than 65536 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			want := "10.244.1.0-24 10.244.2.0-24 10.244.9.0-24"
			for _, nodes := range [][]Node{{peer(1), peer(2), peer(9), c.bad}, {c.bad, peer(9), peer(2), peer(1)}} {
				table := tableOf(t, c.conf, nodes...)
				if got := subnets(table); got != want {
					t.Errorf("leases %s, want %s", got, want)
				}
				if got := reasons(table); got != c.want {
					t.Errorf("got  %s\nwant %s", got, c.want)
				}
			}
		})
	}
}

// No other node gets our node's subnet, even before our node has published anything.
func TestOwnSubnetBeforePublishing(t *testing.T) {
	self := Node{Name: "n1", PodCIDRs: "10.244.1.0/24", Created: 100}
	if got := subnets(tableOf(t, onlyV4, peer(3, cidrs("10.244.1.0/24")), peer(2), self)); got != "10.244.2.0-24" {
		t.Errorf("leases %s", got)
	}
}

// A pod CIDR in either family is enough (interop K1).
func TestEitherFamilyCounts(t *testing.T) {
	dual := peer(2, cidrs("10.244.2.0/24,fd00:244:0:2::/64"), value(PublicIPv6, "fd00:64::2"),
		value(BackendV6Data, `{"VNI":1}`))
	for name, change := range map[string]func(*Node){
		"IPv4 address": value(PublicIP, "192.168.64.77"), "IPv6 address": value(PublicIPv6, "fd00:64::77"),
		"IPv4 data": value(BackendData, "1"), "IPv6 data": value(BackendV6Data, "2"), "type": value(BackendType, "host-gw"),
	} {
		table := tableOf(t, both, dual)
		before, _ := table.Snapshot()
		changed := dual
		change(&changed)
		if !table.Set(changed, 20) {
			t.Errorf("%s: no news", name)
		}
		after, _ := table.Snapshot()
		if before.Leases[0].Attrs.Equal(after.Leases[0].Attrs) || after.Leases[0].ModRevision != 20 || after.Revision != 20 {
			t.Errorf("%s: %+v", name, after.Leases[0])
		}
	}
}

// A node that is complete in one family is a peer in that one.
func TestOneFamilyOfTwo(t *testing.T) {
	for want, n := range map[string]Node{
		"10.244.2.0-24": peer(2, cidrs("10.244.2.0/24,fd00:244:0:2::/64")),
		"0.0.0.0-0&fd00:244:0:2::-64": peer(2, cidrs("fd00:244:0:2::/64,10.244.2.0/24"), value(PublicIP, ""),
			value(PublicIPv6, "fd00:64::2")),
	} {
		if table := tableOf(t, both, n); subnets(table) != want {
			t.Errorf("leases %s, want %s: %s", subnets(table), want, reasons(table))
		}
	}
}

// A lease changes and ends with its node (interop K2).
func TestLeaseFollowsNode(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Table) bool
		want   string
	}{
		"other pod CIDR": {func(x *Table) bool { return x.Set(peer(2, cidrs("10.244.7.0/24")), 20) },
			"10.244.3.0-24 10.244.7.0-24"},
		"no pod CIDR":      {func(x *Table) bool { return x.Set(peer(2, cidrs("")), 20) }, "10.244.3.0-24"},
		"pod CIDR outside": {func(x *Table) bool { return x.Set(peer(2, cidrs("10.9.2.0/24")), 20) }, "10.244.3.0-24"},
		"deleted":          {func(x *Table) bool { return x.Delete("n2", 20) }, "10.244.3.0-24"},
		"stripped": {func(x *Table) bool {
			return x.Set(Node{Name: "n2", UID: "u2", PodCIDRs: "10.244.2.0/24"},
				20)
		}, "10.244.3.0-24"},
		"no longer takes part": {func(x *Table) bool { return x.Set(peer(2, value(Marker, "false")), 20) }, "10.244.3.0-24"},
		"gone when listed anew": {func(x *Table) bool {
			l := x.List()
			l.Add(peer(3), 11)
			return l.End(20)
		}, "10.244.3.0-24"},
		// Garbage leaves the last good value in force, but not another node's.
		"garbled": {func(x *Table) bool { return x.Set(peer(2, value(BackendData, "{")), 20) },
			"10.244.2.0-24 10.244.3.0-24"},
		"replaced and garbled": {func(x *Table) bool {
			return x.Set(peer(2, value(BackendData, "{"), func(n *Node) { n.UID = "new" }), 20)
		}, "10.244.3.0-24"},
	} {
		table := tableOf(t, onlyV4, peer(2), peer(3))
		if !c.change(table) || subnets(table) != c.want || table.Revision() != 20 {
			t.Errorf("%s: leases %s at %d, want %s", name, subnets(table), table.Revision(), c.want)
		}
	}
}

// An older value is no news, and neither is an equal one.
func TestOlderValueChangesNothing(t *testing.T) {
	table := tableOf(t, onlyV4, peer(1), peer(2), peer(3))
	before, _ := table.Snapshot()
	for _, c := range []struct {
		name   string
		action func() bool
	}{
		{"heartbeat", func() bool { return table.Set(peer(2), 50) }},
		{"older value", func() bool { return table.Set(peer(2, value(PublicIP, "1.1.1.1")), 30) }},
		{"deletion of another", func() bool { return table.Delete("n9", 60) }},
		{"listing", func() bool {
			l := table.List()
			for i := 1; i <= 3; i++ {
				l.Add(peer(i), 60)
			}
			return l.End(70)
		}},
	} {
		if c.action() {
			t.Errorf("%s is news", c.name)
		}
	}
	if table.Delete("n2", 40) {
		t.Error("a deletion that was overtaken is news")
	}
	if after, _ := table.Snapshot(); after != before {
		t.Error("another snapshot")
	}
}

// A server that was restored from a backup begins with lower revisions. Its values
// are in force.
func TestRevisionsBeginAnew(t *testing.T) {
	table := tableOf(t, onlyV4, peer(2), peer(3))
	l := table.List()
	l.Add(peer(2), 3)
	l.Add(peer(3, value(PublicIP, "192.168.64.33")), 4)
	if !l.End(5) || table.Revision() != 5 || !table.Set(peer(2, value(PublicIP, "192.168.64.22")), 6) {
		t.Error("no news of the restored server")
	}
	snap, _ := table.Snapshot()
	if got := fmt.Sprint(snap.Leases[0].Attrs.PublicIP,
		snap.Leases[1].Attrs.PublicIP); got != "192.168.64.22 192.168.64.33" {
		t.Error(got)
	}
}

func TestAssigned(t *testing.T) {
	bare := Node{Name: "n1", UID: "u", PodCIDRs: "10.244.1.0/24"}
	with := func(more ...func(*Node)) Node {
		n := bare
		for _, m := range more {
			m(&n)
		}
		return n
	}
	v4, addr := lease.Key{V4: netip.MustParsePrefix("10.244.1.0/24")}, netip.MustParseAddr("203.0.113.5")
	for name, c := range map[string]struct {
		conf  string
		nodes []Node
		want  lease.Assigned
		err   string
	}{
		"plain":        {onlyV4, []Node{bare}, lease.Assigned{Key: v4}, ""},
		"other family": {onlyV4, []Node{with(cidrs("10.244.1.0/24,fd00:244:0:1::/64"))}, lease.Assigned{Key: v4}, ""},
		"no node":      {onlyV4, []Node{peer(2)}, lease.Assigned{}, "there is no node n1"},
		"no pod CIDR": {onlyV4, []Node{with(cidrs(""))}, lease.Assigned{},
			"node n1 has no pod CIDR yet; it is kube-controller-manager that hands them out, if it runs with " +
				"--allocate-node-cidrs and --cluster-cidr"},
		"wrong family": {onlyV4, []Node{with(cidrs("fd00:244:0:1::/64"))}, lease.Assigned{},
			"node n1: pod CIDR fd00:244:0:1::/64 is of a family that the network config has off"},
		"overwrite": {onlyV4, []Node{with(value(PublicIPOverwrite, "203.0.113.5"))},
			lease.Assigned{Key: v4, Published: lease.ByFamily{V4: addr}}, ""},
		"node address": {onlyV4, []Node{with(value(NodePublicIP, "203.0.113.5"))},
			lease.Assigned{Key: v4, Detected: lease.ByFamily{V4: addr}}, ""},
		"bad overwrite": {onlyV4, []Node{with(value(PublicIPOverwrite, "x"))}, lease.Assigned{Key: v4},
			`node n1: annotation public-ip-overwrite is "x": want an IPv4 address that peers can reach`},
		// The last good value stays in force until the annotation is removed (interop K7).
		"then bad": {onlyV4, []Node{with(value(PublicIPOverwrite, "203.0.113.5")), with(value(PublicIPOverwrite, "x"))},
			lease.Assigned{Key: v4, Published: lease.ByFamily{V4: addr}}, `node n1: annotation public-ip-overwrite is "x": ` +
				`want an IPv4 address that peers can reach`},
		"then removed": {onlyV4, []Node{with(value(PublicIPOverwrite, "203.0.113.5")), bare}, lease.Assigned{Key: v4}, ""},
		"then replaced": {onlyV4, []Node{with(value(PublicIPOverwrite, "203.0.113.5")),
			with(value(PublicIPOverwrite, "x"), func(n *Node) { n.UID = "v" })}, lease.Assigned{Key: v4},
			`node n1: annotation public-ip-overwrite is "x": want an IPv4 address that peers can reach`},
	} {
		table := tableOf(t, c.conf)
		var got lease.Assigned
		for i, n := range c.nodes {
			table.Set(n, int64(10+i))
			_, a := table.Snapshot()
			got = *a
		}
		err := ""
		if got.Err != nil {
			err, got.Err = got.Err.Error(), nil
		}
		c.want.Node = got.Node // TestInternal looks at it
		if got != c.want || err != c.err {
			t.Errorf("%s: %+v, %s\nwant %+v, %s", name, got, err, c.want, c.err)
		}
	}
}

// The annotations have the form of interop 5.2, and read back.
func TestChanges(t *testing.T) {
	names, err := ParsePrefix("a.b")
	if err != nil {
		t.Fatal(err)
	}
	v4, v6 := netip.MustParseAddr("192.168.64.1"), netip.MustParseAddr("fd00:64::1")
	vtep := json.RawMessage(`{"VNI":1,"VtepMAC":"c6:d2:32:6f:8f:44"}`)
	for name, c := range map[string]struct {
		attrs lease.Attrs
		want  string
	}{
		"vxlan": {lease.Attrs{PublicIP: v4, BackendType: "vxlan", BackendData: vtep},
			`{"a.b/backend-data":"{\"VNI\":1,\"VtepMAC\":\"c6:d2:32:6f:8f:44\"}","a.b/backend-type":"vxlan",` +
				`"a.b/kube-subnet-manager":"true","a.b/public-ip":"192.168.64.1"}`},
		"vxlan, dual": {
			lease.Attrs{PublicIP: v4, PublicIPv6: v6, BackendType: "vxlan", BackendData: vtep, BackendV6Data: vtep},
			`{"a.b/backend-data":"{\"VNI\":1,\"VtepMAC\":\"c6:d2:32:6f:8f:44\"}","a.b/backend-type":"vxlan",` +
				`"a.b/backend-v6-data":"{\"VNI\":1,\"VtepMAC\":\"c6:d2:32:6f:8f:44\"}",` +
				`"a.b/kube-subnet-manager":"true","a.b/public-ip":"192.168.64.1","a.b/public-ipv6":"fd00:64::1"}`},
		"vxlan, IPv6 only": {lease.Attrs{PublicIPv6: v6, BackendType: "vxlan", BackendV6Data: vtep},
			`{"a.b/backend-type":"vxlan","a.b/backend-v6-data":"{\"VNI\":1,\"VtepMAC\":\"c6:d2:32:6f:8f:44\"}",` +
				`"a.b/kube-subnet-manager":"true","a.b/public-ipv6":"fd00:64::1"}`},
		"host-gw, IPv6 only": {lease.Attrs{PublicIPv6: v6, BackendType: "host-gw"},
			`{"a.b/backend-data":"null","a.b/backend-type":"host-gw","a.b/backend-v6-data":"null",` +
				`"a.b/kube-subnet-manager":"true","a.b/public-ip":"0.0.0.0","a.b/public-ipv6":"fd00:64::1"}`},
		"udp": {lease.Attrs{PublicIP: v4},
			`{"a.b/backend-data":"null","a.b/kube-subnet-manager":"true","a.b/public-ip":"192.168.64.1"}`},
	} {
		var n Node
		changes := n.Changes(names, c.attrs)
		text, err := json.Marshal(changes)
		if err != nil || string(text) != c.want {
			t.Errorf("%s:\n got %s\nwant %s", name, text, c.want)
		}
		for full, v := range changes {
			a, _ := names.Find([]byte(full))
			n.Values[a] = v
		}
		if again := n.Changes(names, c.attrs); len(again) != 0 {
			t.Errorf("%s: once more %v", name, again)
		}
		if back, err := n.attrs(network(t, both)); err != nil || !back.Equal(c.attrs) {
			t.Errorf("%s: reads back as %+v, %v", name, back, err)
		}
	}
}

// FuzzNode expects that no content of a node affects the lease of another, and
// that a lease made from it can be trusted.
func FuzzNode(f *testing.F) {
	f.Add("n3", "10.244.3.0/24", "true", "vxlan", `{"VNI":1}`, "null", "192.168.64.3", "", "", "")
	f.Add("n3", "10.244.3.0/24,fd00:244:0:3::/64", "true", "vxlan", `{"VNI":1}`, "{}", "192.168.64.3", "fd00:64::3", "",
		"")
	f.Add("n0", "0.0.0.0/0", "true", "\xff", `{`, "1", "0.0.0.0", "::", "x", "1.2.3.4")
	f.Add("", "10.244.2.128/25,::/0", "true", "", "", "", "192.168.64.1", "fe80::1%eth0", "", "")
	f.Fuzz(func(t *testing.T, name, cidrs, marker, kind, data, data6, ip, ip6, overwrite, own string) {
		if name == "n1" || name == "n2" || name == "n9" {
			return
		}
		bad := Node{Name: name, UID: "x", PodCIDRs: cidrs, Values: [annotations]string{
			marker, kind, data, data6, ip, ip6, overwrite, overwrite, own, own,
		}}
		table := tableOf(t, both, peer(1), peer(2), peer(9), bad)
		snap, _ := table.Snapshot()
		others := 0
		for _, l := range snap.Leases {
			if l.ModRevision != 13 {
				others++
				continue
			}
			for _, f := range cidr.Families {
				p := l.Key.Of(f)
				if p.IsValid() && (p != p.Masked() || !l.Attrs.IP(f).IsValid() || !cidr.Contains(table.network.Of(f).Network, p)) {
					t.Errorf("lease %+v", l)
				}
			}
			if _, err := lease.DecodeAttrs(lease.EncodeAttrs(l.Attrs)); err != nil {
				t.Error(err)
			}
		}
		if others != 3 {
			t.Errorf("only %d of the other nodes are left: %s", others, reasons(table))
		}
		for i := range snap.Leases {
			for j := range i {
				if snap.Leases[i].Key.Overlaps(snap.Leases[j].Key) {
					t.Errorf("%s overlaps %s", snap.Leases[i].Key, snap.Leases[j].Key)
				}
			}
		}
		if _, a := tableFor(t, name, bad).Snapshot(); a.Err == nil && !a.Key.IsValid() {
			t.Error("neither a subnet nor a reason")
		}
	})
}

// tableFor returns the table of the node that the fuzzer changes.
func tableFor(t *testing.T, self string, n Node) *Table {
	table := NewTable(self, lease.Document{}, network(t, both))
	table.Set(n, 1)
	return table
}

// The order of Set calls makes no difference.
func TestOrderOfArrival(t *testing.T) {
	nodes := []Node{peer(1), peer(2), peer(3, cidrs("10.244.2.0/24")), peer(4, cidrs("10.244.0.0/17")), peer(5)}
	want, _ := tableOf(t, onlyV4, nodes...).Snapshot()
	for range nodes {
		nodes = append(nodes[1:], nodes[0])
		got, _ := tableOf(t, onlyV4, nodes...).Snapshot()
		if d := cmp.Diff(want, got, cmpopts.IgnoreFields(lease.Lease{}, "ModRevision"),
			cmpopts.EquateComparable(netip.Prefix{}, netip.Addr{})); d != "" {
			t.Error(d)
		}
	}
}

// Revisions may begin again and catch up before a listing: a value known before the
// listing is never newer than it, while an answer during the listing may be.
func TestListingAndAnswers(t *testing.T) {
	table := tableOf(t, onlyV4, peer(2)) // at 10
	stripped := Node{Name: "n2", UID: "u9", PodCIDRs: "10.244.2.0/24"}
	l := table.List()
	l.Add(stripped, 4)
	l.End(10)
	if got := subnets(table); got != "" {
		t.Errorf("leases of a node that was replaced: %s", got)
	}
	l = table.List()
	l.Add(stripped, 4)
	table.Set(peer(2), 12)
	l.End(11)
	if got := subnets(table); got != "10.244.2.0-24" {
		t.Errorf("leases after an answer: %s", got)
	}
}

// Values of a family that is off are ignored, even bad ones.
func TestFamilyThatIsOff(t *testing.T) {
	n := peer(2, value(BackendV6Data, "{"), value(PublicIPv6, "x"))
	table := tableOf(t, onlyV4, n)
	if snap, _ := table.Snapshot(); subnets(table) != "10.244.2.0-24" || snap.Leases[0].Attrs.BackendV6Data != nil {
		t.Errorf("leases %+v, %s", snap.Leases, reasons(table))
	}
}
