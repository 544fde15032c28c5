package udppath

import (
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

var byValue = cmp.Options{cmpopts.EquateComparable(netip.Addr{}, netip.Prefix{}), cmpopts.EquateEmpty()}

func TestTableRefuses(t *testing.T) {
	addr, prefix := netip.MustParseAddr, netip.MustParsePrefix
	good := Local{addr("10.5.1.0"), prefix("10.5.1.0/24"), 1472}
	peer := Peer{prefix("10.5.2.0/24"), nodeB}
	for _, c := range []struct {
		what  string
		local Local
		peers []Peer
		want  string
	}{
		{"no address", Local{netip.Addr{}, good.Subnet, 1472}, nil,
			"address of the tunnel: invalid IP is not an IPv4 address"},
		{"IPv6 address", Local{addr("fc00::1"), good.Subnet, 1472}, nil,
			"address of the tunnel: fc00::1 is not an IPv4 address"},
		{"no subnet", Local{good.Addr, netip.Prefix{}, 1472}, nil, "own subnet: invalid Prefix is not an IPv4 prefix"},
		{"IPv6 subnet", Local{good.Addr, prefix("fc00::/64"), 1472}, nil, "own subnet: fc00::/64 is not an IPv4 prefix"},
		{"no MTU", Local{good.Addr, good.Subnet, 0}, nil, "MTU of the tunnel: 0 is less than 68"},
		{"small MTU", Local{good.Addr, good.Subnet, 67}, nil, "MTU of the tunnel: 67 is less than 68"},
		{"IPv6 peer", good, []Peer{{prefix("fc00::/64"), nodeB}}, "peer at 192.168.64.2: fc00::/64 is not an IPv4 prefix"},
		{"peer without a subnet", good, []Peer{{netip.Prefix{}, nodeB}},
			"peer at 192.168.64.2: invalid Prefix is not an IPv4 prefix"},
		{"peer without an address", good, []Peer{{peer.Subnet, netip.Addr{}}},
			"peer 10.5.2.0/24: invalid IP is not an IPv4 address"},
		{"peer at IPv6", good, []Peer{{peer.Subnet, addr("::ffff:192.168.64.2")}},
			"peer 10.5.2.0/24: ::ffff:192.168.64.2 is not an IPv4 address"},
		{"two of one subnet", good, []Peer{peer, {peer.Subnet, nodeC}},
			"peer 10.5.2.0/24 at 192.168.64.3: 192.168.64.2 is there already"},
	} {
		_, err := NewTable(c.local, c.peers...)
		if err == nil || err.Error() != c.want {
			t.Errorf("%s: got %v, want %s", c.what, err, c.want)
		}
	}
	table := tableA(t)
	if _, err := table.With(Peer{}); err == nil ||
		err.Error() != "peer at invalid IP: invalid Prefix is not an IPv4 prefix" {
		t.Errorf("With no peer: got %v", err)
	}
}

// TestTableOfLoopback has an MTU of 65536 less the outer headers.
func TestTableOfLoopback(t *testing.T) {
	local := tableA(t).Local()
	local.MTU = 65536 - 28
	table, err := NewTable(local)
	if err != nil || table.Local().MTU != 65507 {
		t.Errorf("got %v, %v; want an MTU of 65507", table, err)
	}
}

// TestTableNeverChanges makes changes, and looks at the old tables after each.
func TestTableNeverChanges(t *testing.T) {
	prefix := netip.MustParsePrefix
	first := tableA(t)
	second, err := first.With(Peer{prefix("10.5.2.0/24"), nodeC})
	if err != nil {
		t.Fatal(err)
	}
	third := second.Without(prefix("10.5.3.0/24")).Without(prefix("10.5.9.0/24"))
	moved := first.Local()
	moved.MTU = 1400
	fourth, err := third.WithLocal(moved)
	if err != nil {
		t.Fatal(err)
	}
	part := Peer{prefix("10.5.2.128/25"), nodeC}
	for i, c := range []struct {
		table *Table
		local Local
		want  []Peer
	}{
		{first, first.Local(), []Peer{{prefix("10.5.2.0/24"), nodeB}, part, {prefix("10.5.3.0/24"), nodeC}}},
		{second, first.Local(), []Peer{{prefix("10.5.2.0/24"), nodeC}, part, {prefix("10.5.3.0/24"), nodeC}}},
		{third, first.Local(), []Peer{{prefix("10.5.2.0/24"), nodeC}, part}},
		{fourth, moved, []Peer{{prefix("10.5.2.0/24"), nodeC}, part}},
	} {
		if d := cmp.Diff(c.want, c.table.Peers(), byValue); d != "" {
			t.Errorf("table %d (-want +got):\n%s", i, d)
		}
		if d := cmp.Diff(c.local, c.table.Local(), byValue); d != "" {
			t.Errorf("table %d, own node (-want +got):\n%s", i, d)
		}
		for _, p := range c.want {
			if got, ok := c.table.Peer(p.Subnet); !ok || got != p.PublicIP {
				t.Errorf("table %d, %s: got %s", i, p.Subnet, got)
			}
		}
		if got, ok := c.table.Peer(prefix("10.5.2.0/25")); ok {
			t.Errorf("table %d: %s has a part of a subnet", i, got)
		}
	}
}
