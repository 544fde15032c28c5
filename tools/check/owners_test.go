package check

import (
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/flanneld/flannel/core/lease"
	"github.com/flanneld/flannel/core/node"
	"github.com/flanneld/flannel/core/uplink"
)

// holder returns a peer with a lease.
func holder(t *testing.T, key, v4, v6 string) node.Peer {
	t.Helper()
	k, err := lease.ParseKey(key)
	if err != nil {
		t.Fatal(err)
	}
	p := node.Peer{Subnet: k}
	if v4 != "" {
		p.PublicIP = netip.MustParseAddr(v4)
	}
	if v6 != "" {
		p.PublicIP6 = netip.MustParseAddr(v6)
	}
	return p
}

// TestOwners checks that check names a host that holds several leases.
func TestOwners(t *testing.T) {
	peer := func(key, v4, v6 string) node.Peer { return holder(t, key, v4, v6) }
	reserved := peer("10.5.9.0-24", "192.0.2.2", "")
	reserved.Reserved = true
	lost := peer("10.5.9.0-24", "192.0.2.2", "")
	lost.Lost = true
	many := []node.Peer{}
	for _, n := range []string{"9", "8", "7", "6", "5", "4", "3", "2", "10"} {
		many = append(many, peer("10.5."+n+".0-24", "192.0.2.2", ""))
	}
	const todo = "release those that are not in /run/flannel/subnet.env of that host, or let them expire; if they " +
		"come again, find out who writes them # flannelctl leases release SUBNET --owner "
	for name, c := range map[string]struct {
		peers    []node.Peer
		assigned bool
		want     string
	}{
		"one each": {peers: []node.Peer{
			peer("10.5.2.0-24&fd00:5:0:2::-64", "192.0.2.2", "2001:db8::2"), peer("10.5.3.0-24", "192.0.2.3", "2001:db8::2"),
		}},
		"one of each family": {peers: []node.Peer{
			peer("10.5.2.0-24", "192.0.2.2", ""), peer("0.0.0.0-0&fd00:5:0:2::-64", "192.0.2.2", "2001:db8::2"),
		}},
		"a reservation":      {peers: []node.Peer{peer("10.5.2.0-24", "192.0.2.2", ""), reserved}},
		"a record of before": {peers: []node.Peer{peer("10.5.2.0-24", "192.0.2.2", ""), lost}},
		"two": {
			peers: []node.Peer{peer("10.5.3.0-24", "192.0.2.2", ""), peer("10.5.2.0-24", "192.0.2.2", "2001:db8::2")},
			want: "warning leases: 192.0.2.2 holds 2 IPv4 subnets (10.5.2.0/24, 10.5.3.0/24), and a host uses one: " + todo +
				"192.0.2.2\n",
		},
		"two of this host": {
			peers: []node.Peer{peer("10.5.3.0-24", "192.0.2.1", "")},
			want: "warning leases: 192.0.2.1 holds 2 IPv4 subnets (10.5.1.0/24, 10.5.3.0/24), and a host uses one: " + todo +
				"192.0.2.1\n",
		},
		"two without IPv4": {
			peers: []node.Peer{
				peer("0.0.0.0-0&fd00:5:0:3::-64", "", "2001:db8::2"),
				peer("0.0.0.0-0&fd00:5:0:2::-64", "0.0.0.0", "2001:db8::2"),
			},
			want: "warning leases: 2001:db8::2 holds 2 IPv6 subnets (fd00:5:0:2::/64, fd00:5:0:3::/64), and a host uses " +
				"one: " + todo + "2001:db8::2\n",
		},
		"nine": {peers: many, want: "warning leases: 192.0.2.2 holds 9 IPv4 subnets (10.5.2.0/24, 10.5.3.0/24, " +
			"10.5.4.0/24, 10.5.5.0/24, 10.5.6.0/24, 10.5.7.0/24, 10.5.8.0/24, 10.5.9.0/24, 1 more), " +
			"and a host uses one: " + todo +
			"192.0.2.2\n"},
		"two nodes of Kubernetes": {
			assigned: true,
			peers:    []node.Peer{peer("10.5.3.0-24", "192.0.2.2", ""), peer("10.5.2.0-24", "192.0.2.2", "")},
			want: "warning leases: 192.0.2.2 holds 2 IPv4 subnets (10.5.2.0/24, 10.5.3.0/24), and a host uses one: node " +
				"objects with these subnets name one address; delete the object of the node that has gone, or correct the " +
				"address of the other # kubectl get nodes -o wide\n",
		},
	} {
		f := healthy(t)
		f.Assigned, f.Peers = c.assigned, c.peers
		f.Status = &node.Status{
			Subnet: lease.Key{V4: netip.MustParsePrefix("10.5.1.0/24")},
			Uplink: uplink.Uplink{PublicIP: netip.MustParseAddr("192.0.2.1")},
		}
		if d := cmp.Diff(c.want, told(f.owners(), nil)); d != "" {
			t.Errorf("%s: (-want +got):\n%s", name, d)
		}
	}
}
