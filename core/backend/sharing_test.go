package backend_test

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/flanneld/flannel/core/backend"
	"github.com/flanneld/flannel/core/backend/all"
	"github.com/flanneld/flannel/core/config"
	"github.com/flanneld/flannel/core/lease"
	"github.com/flanneld/flannel/core/uplink"
)

const plain = 70 // leases that have nothing to do with each other

var configs = []string{
	`{"Network":"10.0.0.0/12","Backend":{"Type":"vxlan"}}`,
	`{"Network":"10.0.0.0/12","EnableIPv6":true,"IPv6Network":"fd00::/32","Backend":{"Type":"vxlan"}}`,
	`{"Network":"10.0.0.0/12","EnableIPv6":true,"IPv6Network":"fd00::/32","Backend":{"Type":"host-gw"}}`,
}

// record is the i-th lease of a cluster of one backend.
func record(i int, backendType string) lease.Lease {
	v4, v6 := subnets(i)
	l := lease.Lease{Key: lease.Key{V4: v4, V6: v6}, CreateRevision: int64(i + 1), ModRevision: int64(i + 1), ID: 1}
	l.Attrs = lease.Attrs{PublicIP: address(i), BackendType: backendType}
	l.Attrs.PublicIPv6 = netip.MustParseAddr(fmt.Sprintf("fd01::%x", i+1))
	if backendType == "vxlan" {
		l.Attrs.BackendData, l.Attrs.BackendV6Data = mac(1, i), mac(2, i)
	}
	return l
}

func subnets(i int) (v4, v6 netip.Prefix) {
	return netip.MustParsePrefix(fmt.Sprintf("10.0.%d.0/24", i+1)), netip.MustParsePrefix(fmt.Sprintf("fd00:0:0:%x::/64", i+1))
}

func address(i int) netip.Addr { return netip.AddrFrom4([4]byte{172, 16, byte(i >> 8), byte(i)}) }

func mac(family, i int) []byte {
	return fmt.Appendf(nil, `{"VNI":1,"VtepMAC":"02:00:00:%02x:%02x:%02x"}`, family, i>>8, i&255)
}

// spoil makes records that have to do with others, or are refused.
func spoil(t *rapid.T, leases []*lease.Lease) {
	for range rapid.SampledFrom([]int{0, 0, 1, 2}).Draw(t, "spoilt") {
		i, o := rapid.IntRange(0, 3).Draw(t, "which"), rapid.IntRange(0, 3).Draw(t, "like")
		l := leases[i]
		switch rapid.IntRange(0, 7).Draw(t, "how") {
		case 0:
			l.Attrs.PublicIP = leases[o].Attrs.PublicIP
		case 1:
			l.Attrs.PublicIPv6 = leases[o].Attrs.PublicIPv6
		case 2:
			l.Attrs.BackendData = leases[o].Attrs.BackendData
		case 3:
			l.Key.V6 = leases[o].Key.V6
		case 4:
			l.Key.V4 = netip.MustParsePrefix("10.0.2.0/23")
		case 5:
			l.Attrs.BackendType = "ipip"
		case 6:
			l.Attrs.PublicIP = netip.Addr{}
		case 7:
			l.Key.V4 = netip.MustParsePrefix("192.168.1.0/24")
		}
	}
}

// TestSharingIsRender compares what a node renders with others' help with what
// the definition says, where there is any help at all.
func TestSharingIsRender(t *testing.T) {
	shared := 0
	rapid.Check(t, func(t *rapid.T) {
		network, err := config.Parse([]byte(rapid.SampledFrom(configs).Draw(t, "config")))
		if err != nil {
			t.Fatal(err)
		}
		b, err := all.New(network)
		if err != nil {
			t.Fatal(err)
		}
		snap := &lease.Snapshot{Revision: 1}
		for i := range plain {
			snap.Leases = append(snap.Leases, new(record(i, b.Type())))
		}
		healthy := snap.Leases
		var s backend.Sharing
		for turn := range 5 * rapid.IntRange(1, 3).Draw(t, "snapshots") {
			if turn%5 == 0 {
				snap = follow(t, snap, healthy)
			}
			own := []int{0, 1, 2, 3, 50}[turn%5]
			env, self := at(network, *snap.Leases[own])
			if rapid.IntRange(0, 9).Draw(t, "translated") == 0 {
				env.Uplink.IP = address(rapid.IntRange(0, 3).Draw(t, "behind"))
			}
			if rapid.IntRange(0, 9).Draw(t, "unpublished") == 0 {
				self.Attrs.BackendData = mac(3, own)
			}
			layers, ok := s.Render(b, env, self, snap)
			if !ok {
				continue
			}
			shared++
			want, problems := b.Render(env, self, others(snap, env, self))
			if d := cmp.Diff(want, layers.Whole(), cmpopts.EquateEmpty(), cmpopts.EquateComparable(netip.Prefix{}, netip.Addr{})); d != "" || len(problems) > 0 {
				t.Fatalf("node %d: %v; rendered (-alone +shared):\n%s", own, problems, d)
			}
			if layers.Len() != want.Len() {
				t.Fatalf("node %d: %d objects, want %d", own, layers.Len(), want.Len())
			}
		}
	})
	if shared == 0 {
		t.Error("nothing was ever shared")
	}
}

// follow is a snapshot that may come after another: with leases of its own or
// shared ones, some changed for good or bad, some mended, some gone.
func follow(t *rapid.T, before *lease.Snapshot, healthy []*lease.Lease) *lease.Snapshot {
	snap := &lease.Snapshot{Revision: before.Revision + 1, Leases: slices.Clone(before.Leases)}
	touch := rapid.SampledFrom([]string{"none", "copy", "renew"}).Draw(t, "all leases")
	for i, l := range snap.Leases {
		if i < 4 && rapid.Bool().Draw(t, "mended") {
			l = healthy[i]
		}
		l = new(*l)
		if touch == "renew" {
			l.ModRevision = 1000 + snap.Revision
		}
		if i < 4 || touch != "none" {
			snap.Leases[i] = l
		}
	}
	spoil(t, snap.Leases)
	if rapid.Bool().Draw(t, "the last is gone") {
		snap.Leases = snap.Leases[:len(snap.Leases)-1]
	}
	return snap
}

// at is the node that a record belongs to.
func at(network config.Network, l lease.Lease) (backend.Env, backend.Self) {
	a := l.Attrs
	return backend.Env{Config: network, Uplink: uplink.Uplink{
		Link: "eth0", MTU: 1500, IP: a.PublicIP, PublicIP: a.PublicIP, IPv6: a.PublicIPv6, PublicIPv6: a.PublicIPv6,
	}}, backend.Self{Key: l.Key, Attrs: a}
}

// others are the records that a node takes for those of peers.
func others(snap *lease.Snapshot, env backend.Env, self backend.Self) (peers []*lease.Lease) {
	for _, l := range snap.Leases {
		own := l.Key == self.Key && l.Attrs.PublicIP == self.Attrs.PublicIP
		if !own && l.Attrs.PublicIP != env.Uplink.PublicIP {
			peers = append(peers, l)
		}
	}
	return peers
}
