package node

import (
	"net/netip"
	"slices"
	"testing"

	"github.com/flanneld/flannel/core/dataplane"
)

// The host desires no object of a refused subnet, and all objects of the others. Two subnets
// behind one MAC address share an FDB entry.
func TestObjectsOfRefusedSubnets(t *testing.T) {
	const (
		a      = "10.5.3.0/24"
		b      = "10.5.4.0/24"
		c      = "10.5.5.0/24"
		shared = 1 // the MAC address of a and b
	)
	full := func() *dataplane.State {
		s := dataplane.NewState()
		for subnet, mac := range map[string]byte{a: shared, b: shared, c: 9} {
			p := netip.MustParsePrefix(subnet)
			r := dataplane.Route{RouteKey: dataplane.RouteKey{Dst: p}, Link: "flannel.1", Via: p.Addr()}
			s.AddRoute(r)
			s.AddNeigh(dataplane.Neigh{NeighKey: dataplane.NeighKey{Link: r.Link, IP: r.Via}, MAC: dataplane.MAC{5: mac}})
			s.AddFDB(dataplane.FDBEntry{FDBKey: dataplane.FDBKey{Link: r.Link, MAC: dataplane.MAC{5: mac}}})
			s.AddPeer(dataplane.Peer{PeerKey: dataplane.PeerKey{Link: "flannel0", Subnet: p}})
			s.AddPolicy(dataplane.Policy{PolicyKey: dataplane.PolicyKey{Src: netip.MustParsePrefix("10.5.9.0/24"), Dst: p}})
			s.AddPolicy(dataplane.Policy{PolicyKey: dataplane.PolicyKey{Dst: netip.MustParsePrefix("10.5.9.0/24"), Src: p}})
		}
		return s
	}
	for _, test := range []struct {
		name     string
		refused  []string
		object   dataplane.Object // that the kernel refused
		fdb      int
		policies int
		peers    int
	}{
		{"one of two behind a MAC address", []string{a}, dataplane.Route{Link: "flannel.1"}, 2, 4, 3},
		{"both of them", []string{a, b}, dataplane.Route{Link: "flannel.1"}, 1, 2, 3},
		{"the only one behind another", []string{c}, dataplane.Route{Link: "flannel.1"}, 1, 4, 3},
		{"a peer of a packet path", []string{c}, dataplane.Peer{PeerKey: dataplane.PeerKey{Link: "flannel0"}}, 1, 4, 2},
		{"an object of no device", []string{a, b}, dataplane.Policy{}, 1, 2, 1},
	} {
		s, refused := full(), map[netip.Prefix]refusal{}
		for _, subnet := range test.refused {
			refused[netip.MustParsePrefix(subnet)] = refusal{object: test.object}
		}
		leaveOut(s, refused)
		left := 3 - len(test.refused)
		if s.Routes.Len() != left || s.Neighs.Len() != left || s.FDB.Len() != test.fdb {
			t.Errorf("%s: %d routes, %d neighbours, %d FDB entries; want %d, %d, %d", test.name,
				s.Routes.Len(), s.Neighs.Len(), s.FDB.Len(), left, left, test.fdb)
		}
		if s.Policies.Len() != test.policies || s.Peers.Len() != test.peers {
			t.Errorf("%s: %d policies, %d peers of packet paths; want %d, %d", test.name,
				s.Policies.Len(), s.Peers.Len(), test.policies, test.peers)
		}
		for k := range s.Routes.All {
			if slices.Contains(test.refused, k.Dst.String()) {
				t.Errorf("%s: the route to %s is still desired", test.name, k.Dst)
			}
		}
	}
}

// Peers of a wireguard device go with the subnet that they carry.
func TestKeysOfRefusedSubnets(t *testing.T) {
	s := dataplane.NewState()
	for i, subnet := range []string{"10.5.3.0/24", "10.5.4.0/24"} {
		s.AddWGPeer(dataplane.WGPeer{Allowed: [2]netip.Prefix{netip.MustParsePrefix(subnet)},
			WGPeerKey: dataplane.WGPeerKey{Link: "flannel-wg", Public: dataplane.PublicKey{byte(i)}}})
	}
	shared := dataplane.WGPeer{WGPeerKey: dataplane.WGPeerKey{Link: "flannel-wg", Public: dataplane.PublicKey{2}}}
	shared.Allow(netip.MustParsePrefix("10.5.5.0/24"))
	s.AddWGPeer(shared)
	more := shared
	more.Allow(netip.MustParsePrefix("10.5.2.0/24"))
	s.AddWGPeer(more) // the subnets of two records with one key
	leaveOut(s, map[netip.Prefix]refusal{
		netip.MustParsePrefix("10.5.2.0/24"): {object: dataplane.Route{Link: "flannel-wg"}},
		netip.MustParsePrefix("10.5.3.0/24"): {object: dataplane.Route{Link: "flannel-wg"}},
		netip.MustParsePrefix("10.5.4.0/24"): {object: dataplane.Route{Link: "flannel.1"}}, // a previous backend
	})
	if left, _ := s.WGPeers.Get(shared.WGPeerKey); left != shared {
		t.Errorf("left of a peer with two subnets: %s, want %s", left, shared)
	}
	if s.WGPeers.Has(dataplane.WGPeerKey{Link: "flannel-wg", Public: dataplane.PublicKey{0}}) || s.WGPeers.Len() != 2 {
		t.Errorf("%d peers of wireguard are still desired, want two without the refused one", s.WGPeers.Len())
	}
}
