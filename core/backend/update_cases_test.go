package backend_test

import (
	"net/netip"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/flanneld/flannel/core/backend"
	"github.com/flanneld/flannel/core/backend/all"
	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/config"
	"github.com/flanneld/flannel/core/lease"
)

// vxlanPeers are the records from the i-th to before the k-th.
func vxlanPeers(i, k int) (peers []*lease.Lease) {
	for ; i < k; i++ {
		peers = append(peers, new(record(i, "vxlan")))
	}
	return peers
}

// Update renders a few changes itself. It leaves changes that touch other peers, and
// many changes at once, to the caller.
func TestUpdateTakesWhatItCan(t *testing.T) {
	peers := vxlanPeers(1, 31)
	late := record(31, "vxlan")
	sameIPv4 := record(31, "vxlan")
	sameIPv4.Attrs.PublicIP = peers[20].Attrs.PublicIP
	sameIPv6 := record(31, "vxlan")
	sameIPv6.Attrs.PublicIPv6 = peers[20].Attrs.PublicIPv6
	overlapping := record(31, "vxlan")
	overlapping.Key.V4 = peers[20].Key.V4
	refused := record(31, "vxlan")
	refused.Attrs.BackendData = nil
	without := func(from, to int) []*lease.Lease { return slices.Delete(slices.Clone(peers), from, to) }
	for name, c := range map[string]struct {
		before, now []*lease.Lease
		want        bool
	}{
		"no change":                    {peers, peers, true},
		"the first gone":               {peers, without(0, 1), true},
		"one in between gone":          {peers, without(7, 8), true},
		"the last gone":                {peers, without(29, 30), true},
		"one came":                     {peers, append(slices.Clone(peers), &late), true},
		"one came before all":          {peers, append([]*lease.Lease{&late}, peers...), true},
		"sixteen gone":                 {peers, without(3, 19), true},
		"seventeen gone":               {peers, without(3, 20), false},
		"nine gone, nine came":         {peers, append(without(3, 12), vxlanPeers(40, 49)...), false},
		"one address, came":            {peers, append(slices.Clone(peers), &sameIPv4), false},
		"one address, behind a change": {peers, append(without(0, 1), &sameIPv4), false},
		"one address, gone":            {append(slices.Clone(peers), &sameIPv4), peers, false},
		"one IPv6 address":             {peers, append(slices.Clone(peers), &sameIPv6), false},
		"overlapping":                  {peers, append(slices.Clone(peers), &overlapping), false},
		"refused":                      {peers, append(slices.Clone(peers), &refused), false},
	} {
		network, err := config.Parse([]byte(configs[1]))
		if err != nil {
			t.Fatal(err)
		}
		b, err := all.New(network)
		if err != nil {
			t.Fatal(err)
		}
		env, self := at(network, record(0, "vxlan"))
		last, _ := b.Render(env, self, c.before)
		got, ok := backend.Update(b, env, self, last, c.before, c.now)
		if ok != c.want {
			t.Errorf("%s: updated %t, want %t", name, ok, c.want)
		}
		want, _ := b.Render(env, self, c.now)
		if ok {
			if d := cmp.Diff(want.Dump(), got.Dump()); d != "" {
				t.Errorf("%s (-rendered +updated):\n%s", name, d)
			}
		}
	}
}

// A state without the objects of the former peers is rendered again.
func TestUpdateOfAnotherState(t *testing.T) {
	network, err := config.Parse([]byte(configs[0]))
	if err != nil {
		t.Fatal(err)
	}
	b, err := all.New(network)
	if err != nil {
		t.Fatal(err)
	}
	env, self := at(network, record(0, "vxlan"))
	peers := vxlanPeers(1, 5)
	last, _ := b.Render(env, self, peers[1:])
	if _, ok := backend.Update(b, env, self, last, peers, peers[1:]); ok {
		t.Error("objects of the first peer, which are not there, were removed")
	}
	last, _ = b.Render(env, self, peers)
	if _, ok := backend.Update(b, env, self, last, peers[1:], peers); ok {
		t.Error("objects of the first peer, which are there, were added")
	}
}

func TestPublicAddrs(t *testing.T) {
	both, err := config.Parse([]byte(dual))
	if err != nil {
		t.Fatal(err)
	}
	one, two := record(1, "host-gw"), record(2, "host-gw")
	two.Attrs.PublicIPv6 = netip.Addr{}
	peers := []*lease.Lease{&one, &two}
	for name, c := range map[string]struct {
		network config.Network
		want    []netip.Addr
	}{
		"dual": {both, []netip.Addr{one.Attrs.PublicIP, two.Attrs.PublicIP, one.Attrs.PublicIPv6}},
		"IPv4": {both.Only(cidr.V4), []netip.Addr{one.Attrs.PublicIP, two.Attrs.PublicIP}},
		"IPv6": {both.Only(cidr.V6), []netip.Addr{one.Attrs.PublicIPv6}},
	} {
		got := backend.PublicAddrs(c.network, peers)
		slices.SortFunc(got, netip.Addr.Compare)
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}
