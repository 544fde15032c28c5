package backend_test

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/flanneld/flannel/core/backend"
	"github.com/flanneld/flannel/core/backend/all"
	"github.com/flanneld/flannel/core/config"
	"github.com/flanneld/flannel/core/lease"
	"github.com/flanneld/flannel/core/uplink"
)

var configs = []string{
	`{"Network":"10.0.0.0/12","Backend":{"Type":"vxlan"}}`,
	`{"Network":"10.0.0.0/12","EnableIPv6":true,"IPv6Network":"fd00::/32","Backend":{"Type":"vxlan"}}`,
	`{"Network":"10.0.0.0/12","Backend":{"Type":"vxlan","DirectRouting":true}}`,
	`{"Network":"10.0.0.0/12","EnableIPv6":true,"IPv6Network":"fd00::/32","Backend":{"Type":"host-gw"}}`,
	`{"Network":"10.0.0.0/12","Backend":{"Type":"udp"}}`,
	`{"Network":"10.0.0.0/12","Backend":{"Type":"alloc"}}`,
}

// TestUpdateIsRender lets the peers of a node change and compares the updated
// state with a new rendering, wherever Update returns one.
func TestUpdateIsRender(t *testing.T) {
	for _, text := range configs {
		network, err := config.Parse([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		b, err := all.New(network)
		if err != nil {
			t.Fatal(err)
		}
		updates := 0
		rapid.Check(t, func(t *rapid.T) { updates += compareUpdates(t, network, b) })
		if updates == 0 {
			t.Errorf("%s: no update", text)
		}
	}
}

// compareUpdates lets the peers of a node change a few times, and returns how many updates it has compared.
func compareUpdates(t *rapid.T, network config.Network, b backend.Backend) (updates int) {
	env, self := at(network, record(0, b.Type()))
	env.NextHops = rapid.Bool().Draw(t, "next hops")
	var peers []*lease.Lease
	for i := range 8 {
		peers = append(peers, new(record(i+1, b.Type())))
	}
	last, problems := b.Render(env, self, peers)
	for range 5 {
		next := change(t, peers, b.Type())
		want, refused := b.Render(env, self, next)
		if len(problems) == 0 {
			got, ok := backend.Update(b, env, self, last, peers, next)
			if ok {
				updates++
				diff := cmp.Diff(want.Dump(), got.Dump())
				if diff != "" || len(refused) > 0 {
					t.Fatalf("refused %v; state (-rendered +updated):\n%s", refused, diff)
				}
			}
		}
		last, peers = want, next
		problems = refused
	}
	return updates
}

// record is the i-th lease of a cluster with one backend.
func record(i int, backendType string) lease.Lease {
	l := lease.Lease{CreateRevision: int64(i + 1), ModRevision: int64(i + 1), ID: 1}
	l.Key.V4 = netip.MustParsePrefix(fmt.Sprintf("10.0.%d.0/24", i+1))
	l.Key.V6 = netip.MustParsePrefix(fmt.Sprintf("fd00:0:0:%x::/64", i+1))
	l.Attrs = lease.Attrs{PublicIP: netip.AddrFrom4([4]byte{172, 16, 0, byte(i)}), BackendType: backendType}
	l.Attrs.PublicIPv6 = netip.MustParseAddr(fmt.Sprintf("fd01::%x", i+1))
	if backendType == "vxlan" {
		l.Attrs.BackendData = fmt.Appendf(nil, `{"VNI":1,"VtepMAC":"02:00:00:01:00:%02x"}`, i)
		l.Attrs.BackendV6Data = fmt.Appendf(nil, `{"VNI":1,"VtepMAC":"02:00:00:02:00:%02x"}`, i)
	}
	return l
}

// change returns other peers: some gone, some new, some with other attributes,
// and sometimes one that a node has to refuse.
func change(t *rapid.T, before []*lease.Lease, backendType string) []*lease.Lease {
	peers := slices.Clone(before)
	for range rapid.IntRange(0, 3).Draw(t, "changes") {
		if i := rapid.IntRange(0, len(peers)).Draw(t, "which"); i < len(peers) && rapid.Bool().Draw(t, "gone") {
			peers = slices.Delete(peers, i, i+1)
			continue
		}
		l := record(rapid.IntRange(0, 20).Draw(t, "record"), backendType)
		if rapid.IntRange(0, 2).Draw(t, "spoilt") == 0 {
			spoil(t, &l, record(rapid.IntRange(0, 8).Draw(t, "like"), backendType))
		}
		peers = slices.DeleteFunc(peers, func(p *lease.Lease) bool { return p.Key == l.Key })
		peers = slices.Insert(peers, rapid.IntRange(0, len(peers)).Draw(t, "at"), &l)
	}
	return peers
}

// spoil gives a lease a value of another lease, or one that no node accepts.
func spoil(t *rapid.T, l *lease.Lease, like lease.Lease) {
	switch rapid.IntRange(0, 6).Draw(t, "how") {
	case 0:
		l.Attrs.PublicIP = like.Attrs.PublicIP
	case 1:
		l.Attrs.PublicIPv6 = like.Attrs.PublicIPv6
	case 2:
		l.Attrs.BackendData = like.Attrs.BackendData
	case 3:
		l.Key.V6 = like.Key.V6
	case 4:
		l.Key.V4 = netip.MustParsePrefix("10.0.2.0/23")
	case 5:
		l.Attrs.BackendType = "ipip"
	case 6:
		l.Attrs.PublicIP = netip.Addr{}
	}
}

// at is the node that a record belongs to.
func at(network config.Network, l lease.Lease) (backend.Env, backend.Self) {
	a := l.Attrs
	up := uplink.Uplink{
		Link: "eth0", MTU: 1500, IP: a.PublicIP, PublicIP: a.PublicIP, IPv6: a.PublicIPv6, PublicIPv6: a.PublicIPv6,
	}
	return backend.Env{Config: network, Uplink: up}, backend.Self{Key: l.Key, Attrs: a}
}
