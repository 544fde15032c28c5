package nodelease

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/flanneld/flannel/core/lease"
)

const wider = `{"Network":"10.0.0.0/8","Backend":{"Type":"vxlan"}}`

// Nodes outside one network are peers in the next. An unreadable value keeps the
// good one before it in force through a change of the config.
func TestConfigChanges(t *testing.T) {
	table := tableOf(t, onlyV4, peer(2), peer(3, cidrs("10.9.3.0/24")), peer(4))
	table.Set(peer(4, value(BackendData, "{")), 20)
	if got := subnets(table); got != "10.244.2.0-24 10.244.4.0-24" {
		t.Fatalf("leases %s", got)
	}
	table.Set(peer(2), 50) // a heartbeat
	doc := lease.Document{Data: []byte(wider), Revision: 2}
	table.SetConfig(doc, network(t, wider))
	if got := subnets(table); got != "10.244.2.0-24 10.244.4.0-24 10.9.3.0-24" {
		t.Errorf("leases %s: %s", got, reasons(table))
	}
	if snap, _ := table.Snapshot(); snap.Config.Revision != 2 || snap.Leases[0].ModRevision != 10 {
		t.Errorf("config %+v, first lease %+v", snap.Config, snap.Leases[0])
	}
	if table.Set(peer(2, value(PublicIP, "1.1.1.1")), 40) {
		t.Error("a value from before the config changed is news")
	}
	// In a narrow network the old value of n4 is of no use.
	const narrow = `{"Network":"10.9.0.0/16","Backend":{"Type":"vxlan"}}`
	table.SetConfig(lease.Document{Data: []byte(narrow), Revision: 3}, network(t, narrow))
	if got := subnets(table); got != "10.9.3.0-24" {
		t.Errorf("leases %s", got)
	}
}

// The end of a listing uses the config of that moment.
func TestConfigChangesDuringAListing(t *testing.T) {
	table := tableOf(t, onlyV4, peer(2))
	l := table.List()
	l.Add(peer(2), 10)
	l.Add(peer(3, cidrs("10.9.3.0/24")), 11)
	table.SetConfig(lease.Document{Data: []byte(wider), Revision: 2}, network(t, wider))
	if !l.End(20) || subnets(table) != "10.244.2.0-24 10.9.3.0-24" {
		t.Errorf("leases %s: %s", subnets(table), reasons(table))
	}
}

// Each field of a snapshot by which peers decide has its value.
func TestSnapshotFields(t *testing.T) {
	table := tableOf(t, onlyV4, peer(2), peer(4), peer(3))
	table.Set(peer(4, value(BackendData, "{")), 20)
	table.Set(peer(3, value(BackendData, "{"), cidrs("10.244.7.0/24")), 21)
	snap, _ := table.Snapshot()
	want := []lease.Quarantined{
		{Raw: "nodes/n3", Reason: `node n3: backend data "{", "": not JSON`},
		{Raw: "nodes/n4", Key: snap.Leases[1].Key, Reason: `node n4: backend data "{", "": not JSON`, OverwroteAt: 20},
	}
	if d := cmp.Diff(want, snap.Quarantined, cmpopts.EquateComparable(lease.Key{})); d != "" {
		t.Errorf("quarantined (-want +got):\n%s", d)
	}
	if string(snap.Config.Data) != onlyV4 || snap.Config.Revision != 1 || snap.Revision != 21 {
		t.Errorf("config %s of revision %d, at %d", snap.Config.Data, snap.Config.Revision, snap.Revision)
	}
	two := peer(2)
	if got := snap.Leases[0].CreateRevision; got != two.CreateRevision() || got == 0 {
		t.Errorf("created at %d, want %d", got, two.CreateRevision())
	}
}

// Records of one second are ordered by UID, and all others by the second.
func TestCreateRevision(t *testing.T) {
	of := func(second int64, uid string) int64 {
		n := Node{Created: second, UID: uid}
		return n.CreateRevision()
	}
	if of(7, "a") == of(7, "b") {
		t.Error("two UIDs of one second have one revision")
	}
	if of(8, "a") <= of(7, "b") || of(8, "b") <= of(7, "a") {
		t.Error("a later second has no higher revision")
	}
}

func TestNode(t *testing.T) {
	table := tableOf(t, onlyV4, peer(2))
	if n, seen := table.Node("n1"); seen > 0 {
		t.Errorf("node %+v that is not there", n)
	}
	table.Set(Node{Name: "n1", PodCIDRs: "10.244.1.0/24"}, 20)
	if got := subnets(table); got != "10.244.2.0-24" {
		t.Errorf("leases %s before the own one is published", got)
	}
	table.Set(peer(1), 21)
	snap, _ := table.Snapshot()
	if own := snap.Leases[0]; own.Key.String() != "10.244.1.0-24" || own.ModRevision != 21 {
		t.Errorf("own lease %+v", own)
	}
	if n, seen := table.Node("n1"); seen == 0 || n != peer(1) {
		t.Errorf("node %+v, revision %d", n, seen)
	}
}

// A value that is seen twice at one revision is news once. A deletion at the revision
// seen last is news.
func TestEqualRevisions(t *testing.T) {
	table := tableOf(t, onlyV4, peer(2))
	if table.Set(peer(2, value(PublicIP, "1.1.1.1")), 10) {
		t.Error("another value of a revision seen before is news")
	}
	if !table.Delete("n2", 10) {
		t.Error("a deletion at the revision seen last is no news")
	}
}

// An answer to a request of our own, during a listing, is newer than the listing
// only if its revision is.
func TestListingKeepsNewerAnswers(t *testing.T) {
	for _, c := range []struct {
		listed int64
		want   string
	}{{19, "192.168.64.22"}, {20, "192.168.64.2"}, {21, "192.168.64.2"}} {
		table := tableOf(t, onlyV4, peer(2))
		l := table.List()
		table.Set(peer(2, value(PublicIP, "192.168.64.22")), 20)
		l.Add(peer(2), c.listed)
		l.End(c.listed)
		snap, _ := table.Snapshot()
		if got := snap.Leases[0].Attrs.PublicIP.String(); got != c.want {
			t.Errorf("listed at %d: %s, want %s", c.listed, got, c.want)
		}
	}
}

// The first listing is news, even that of an empty cluster. Another one at the same
// revision is not.
func TestEmptyListing(t *testing.T) {
	table := tableOf(t, onlyV4)
	if !table.List().End(5) {
		t.Error("the first listing is no news")
	}
	if table.List().End(5) {
		t.Error("an equal listing is news")
	}
	if !table.List().End(4) {
		t.Error("a listing at an older revision, of a restored server, is no news")
	}
}

// If a subnet overlaps those of several nodes, the reason names the first in the
// order of names.
func TestOverlapNamesTheFirst(t *testing.T) {
	wide := peer(9, cidrs("10.244.2.0/23"))
	got := reasons(tableOf(t, onlyV4, peer(3), peer(2), wide))
	if want := "node n9: pod CIDR 10.244.2.0/23 overlaps that of node n2"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// A node without a subnet in a family can overlap none there: the check goes on
// with the other family.
func TestOtherFamilyIsChecked(t *testing.T) {
	six := func(i int) Node {
		return peer(i, cidrs(fmt.Sprintf("fd00:244:0:%d::/64", i)), value(PublicIP, ""), value(PublicIPv6, "fd00:64::2"))
	}
	two, twin := six(2), six(3)
	twin.PodCIDRs = two.PodCIDRs
	got := reasons(tableOf(t, both, two, twin))
	if want := "node n3: pod CIDR fd00:244:0:2::/64 overlaps that of node n2"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	outside := peer(3, cidrs("fd00:9::/64"), value(PublicIP, ""), value(PublicIPv6, "fd00:64::3"))
	got = reasons(tableOf(t, both, outside))
	if want := "node n3: pod CIDR fd00:9::/64 is outside the network fd00:244::/48"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// Values of a family that the config has turned off are left over from before, and
// are not read.
func TestLeftOverFamily(t *testing.T) {
	const onlyV6 = `{"EnableIPv4":false,"EnableIPv6":true,"IPv6Network":"fd00:244::/48","Backend":{"Type":"vxlan"}}`
	n := peer(2, cidrs("10.244.2.0/24,fd00:244:0:2::/64"), value(PublicIPv6, "fd00:64::2"), value(BackendData, "{"),
		value(PublicIP, "x"))
	if table := tableOf(t, onlyV6, n); subnets(table) != "0.0.0.0-0&fd00:244:0:2::-64" {
		t.Errorf("leases %s: %s", subnets(table), reasons(table))
	}
}

func TestLongestValue(t *testing.T) {
	// The longest annotation that is read is JSON of one string.
	long := make([]byte, MaxValue)
	for i := range long {
		long[i] = 'x'
	}
	long[0], long[MaxValue-1] = '"', '"'
	n := peer(2, value(BackendData, string(long)))
	_, err := n.attrs(network(t, onlyV4))
	if got := fmt.Sprint(err); !strings.HasPrefix(got, "lease value: ") {
		t.Errorf("%s, want an error of the whole value, and none of the annotation", got)
	}
	if whole := string(long[:64]); short(whole) != whole || short(whole+"x") != whole+"..." {
		t.Errorf("%q, %q", short(whole), short(whole+"x"))
	}
}
