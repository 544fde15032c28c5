package backend_test

import (
	"net/netip"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/flanneld/flannel/core/backend"
	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/config"
	"github.com/flanneld/flannel/core/lease"
)

const dual = `{"Network":"10.0.0.0/12","EnableIPv6":true,"IPv6Network":"fd00::/32","Backend":{"Type":"host-gw"}}`

// of returns the i-th record with another IPv4 subnet and age.
func of(i int, subnet string, created int64) *lease.Lease {
	l := record(i, "host-gw")
	l.Key.V4, l.CreateRevision = netip.MustParsePrefix(subnet), created
	return &l
}

// served returns the subnets of a family that a node serves, in order, and the
// problems.
func served(t *testing.T, f cidr.Family, peers ...*lease.Lease) (subnets, problems []string) {
	t.Helper()
	network, err := config.Parse([]byte(dual))
	if err != nil {
		t.Fatal(err)
	}
	env, self := at(network, record(0, "host-gw"))
	kept, refused := backend.Peers(env, self, "host-gw", f, peers)
	for _, p := range kept {
		subnets = append(subnets, p.Subnet.String())
	}
	for _, p := range refused {
		problems = append(problems, p.Key.V4.String()+": "+p.Err.Error())
	}
	slices.Sort(problems)
	return subnets, problems
}

// Of records that overlap, the oldest is served, and each other is named.
func TestOverlapsGoToTheOldest(t *testing.T) {
	const (
		wide   = "10.0.8.0/22"
		first  = "10.0.8.0/24"
		second = "10.0.9.0/24"
	)
	for _, c := range []struct {
		name     string
		peers    []*lease.Lease
		subnets  []string
		problems []string
	}{
		{"the wide one is older", []*lease.Lease{of(3, first, 5), of(4, second, 6), of(5, wide, 4)},
			[]string{wide}, []string{
				first + ": subnet 10.0.8.0/24 overlaps 10.0.8.0-22&fd00:0:0:6::-64 of an older record",
				second + ": subnet 10.0.9.0/24 overlaps 10.0.8.0-22&fd00:0:0:6::-64 of an older record"}},
		{"the wide one is younger", []*lease.Lease{of(4, second, 5), of(3, first, 6), of(5, wide, 7)},
			[]string{second, first}, []string{
				wide + ": subnet 10.0.8.0/22 overlaps 10.0.8.0-24&fd00:0:0:4::-64 of an older record"}},
		{"one subnet twice", []*lease.Lease{of(3, first, 9), of(4, first, 8)},
			[]string{first}, []string{
				first + ": subnet 10.0.8.0/24 overlaps 10.0.8.0-24&fd00:0:0:5::-64 of an older record"}},
		{"of one age", []*lease.Lease{of(3, first, 8), of(5, wide, 8)},
			[]string{wide}, []string{
				first + ": subnet 10.0.8.0/24 overlaps 10.0.8.0-22&fd00:0:0:6::-64 of an older record"}},
		{"none overlaps", []*lease.Lease{of(3, first, 9), of(4, second, 8), of(5, "10.0.7.0/24", 10)},
			[]string{second, first, "10.0.7.0/24"}, nil},
		{"equal ages in the order of the subnets", []*lease.Lease{of(4, second, 8), of(3, first, 8)},
			[]string{first, second}, nil},
	} {
		for range 2 { // in either order
			slices.Reverse(c.peers)
			subnets, problems := served(t, cidr.V4, c.peers...)
			if d := cmp.Diff(c.subnets, subnets) + cmp.Diff(c.problems, problems); d != "" {
				t.Errorf("%s (-want +got):\n%s", c.name, d)
			}
		}
	}
}

// Two records of one host for one subnet, such as a reservation and the lease it uses
// instead, are one peer: as old as the older one, with what was written last.
func TestTwoRecordsOfOneHost(t *testing.T) {
	network, err := config.Parse([]byte(dual))
	if err != nil {
		t.Fatal(err)
	}
	env, self := at(network, record(0, "host-gw"))
	for _, writtenLast := range []int{0, 1} {
		both := []*lease.Lease{of(3, "10.0.8.0/24", 5), of(3, "10.0.8.0/24", 9)}
		both[1].Key.V6 = netip.Prefix{}
		both[writtenLast].ModRevision = 20
		foreign := of(4, "10.0.8.0/25", 7)
		for _, peers := range [][]*lease.Lease{{both[0], both[1], foreign}, {foreign, both[1], both[0]}} {
			served, problems := backend.Peers(env, self, "host-gw", cidr.V4, peers)
			if len(served) != 1 || served[0].Key != both[writtenLast].Key || served[0].Lease.CreateRevision != 5 {
				t.Errorf("served %+v, want record %d of %v", served, writtenLast, both)
			}
			if len(problems) != 1 || problems[0].Key != foreign.Key {
				t.Errorf("problems %v, want one of %s", problems, foreign.Key)
			}
		}
		if both[0].CreateRevision != 5 || both[1].CreateRevision != 9 {
			t.Errorf("the records were changed: %v", both)
		}
	}
}

// The other family of records that overlap in one is served.
func TestOverlapInOneFamily(t *testing.T) {
	peers := []*lease.Lease{of(3, "10.0.8.0/24", 8), of(4, "10.0.8.0/24", 9)}
	subnets, problems := served(t, cidr.V6, peers...)
	if d := cmp.Diff([]string{"fd00:0:0:4::/64", "fd00:0:0:5::/64"}, subnets); d != "" || len(problems) > 0 {
		t.Errorf("problems %q, subnets (-want +got):\n%s", problems, d)
	}
}

func TestPeerThatCannotBeServed(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*lease.Lease)
		want   string
	}{
		"no address": {func(l *lease.Lease) { l.Attrs.PublicIP = netip.Addr{} },
			"10.0.4.0/24: record has no public IPv4 address"},
		"multicast": {func(l *lease.Lease) { l.Attrs.PublicIP = netip.MustParseAddr("224.0.0.1") },
			"10.0.4.0/24: public address 224.0.0.1 is not a unicast address"},
		"our address": {func(l *lease.Lease) { l.Attrs.PublicIP = record(0, "").Attrs.PublicIP },
			"10.0.4.0/24: public address 172.16.0.0 is our own"},
		"outside": {func(l *lease.Lease) { l.Key.V4 = netip.MustParsePrefix("10.16.0.0/24") },
			"10.16.0.0/24: subnet 10.16.0.0/24 is outside the network 10.0.0.0/12"},
		"our subnet": {func(l *lease.Lease) { l.Key.V4 = netip.MustParsePrefix("10.0.0.0/23") },
			"10.0.0.0/23: subnet 10.0.0.0/23 overlaps our own 10.0.1.0/24"},
	} {
		bad := record(3, "host-gw")
		c.change(&bad)
		good := record(4, "host-gw")
		subnets, problems := served(t, cidr.V4, &bad, &good)
		if d := cmp.Diff([]string{"10.0.5.0/24"}, subnets) + cmp.Diff([]string{c.want}, problems); d != "" {
			t.Errorf("%s (-want +got):\n%s", name, d)
		}
	}
	// Records of another type, or without a subnet, are no problem.
	other, v6 := record(3, "vxlan"), record(4, "host-gw")
	v6.Key.V4 = netip.Prefix{}
	if subnets, problems := served(t, cidr.V4, &other, &v6); len(subnets)+len(problems) > 0 {
		t.Errorf("served %q, problems %q", subnets, problems)
	}
}

func TestFamiliesOf(t *testing.T) {
	both, err := config.Parse([]byte(dual))
	if err != nil {
		t.Fatal(err)
	}
	for want, network := range map[backend.Families]config.Network{
		backend.Both: both, backend.IPv4Only: both.Only(cidr.V4), backend.IPv6Only: both.Only(cidr.V6),
	} {
		if got := backend.FamiliesOf(network); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

// A node that publishes an address inside the overlay is refused, and no other one is.
func TestPeerInsideTheOverlay(t *testing.T) {
	bad := of(4, "10.0.9.0/24", 5)
	inside := netip.MustParseAddr("10.0.8.1")
	bad.Attrs.PublicIP = inside
	subnets, problems := served(t, cidr.V4, of(3, "10.0.8.0/24", 4), bad)
	want := []string{"10.0.9.0/24: public address 10.0.8.1 is inside the network 10.0.0.0/12: the node took a device of " +
		"pods or of flannel for its uplink, and must publish another address"}
	if !slices.Equal(subnets, []string{"10.0.8.0/24"}) || !slices.Equal(problems, want) {
		t.Errorf("serves %q, problems %q", subnets, problems)
	}
}
