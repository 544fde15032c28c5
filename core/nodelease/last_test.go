package nodelease

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/flanneld/flannel/core/lease"
)

// A snapshot that follows from the last one is the same as one that is made anew, whatever has happened between them.
func TestSnapshotFollows(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		table := tableOf(t, onlyV4, peer(1), peer(2), peer(3), peer(4))
		revision := int64(20)
		r.Repeat(map[string]func(*rapid.T){
			"set": func(r *rapid.T) {
				revision++
				table.Set(drawNode(r), revision)
			},
			"delete": func(r *rapid.T) {
				revision++
				table.Delete(fmt.Sprintf("n%d", rapid.IntRange(1, 4).Draw(r, "node")), revision)
			},
			"look": func(r *rapid.T) {
				got, _ := table.Snapshot()
				values := cmpopts.EquateComparable(netip.Prefix{}, netip.Addr{})
				if d := cmp.Diff(table.snapshot(), got, values, cmpopts.EquateEmpty()); d != "" {
					r.Fatal(d)
				}
			},
		})
	})
}

// drawNode draws one of few nodes, whose claims often collide.
func drawNode(r *rapid.T) Node {
	i := rapid.IntRange(1, 4).Draw(r, "node")
	n := peer(i)
	n.Values[BackendData] = rapid.SampledFrom([]string{"{}", `{"VNI":1}`, `{"VNI":2}`, `{"VNI":3}`, "{"}).Draw(r, "data")
	n.Values[PublicIP] = fmt.Sprintf("192.168.64.%d", rapid.SampledFrom([]int{i, i, i, i, 1, 9}).Draw(r, "address"))
	n.PodCIDRs = rapid.SampledFrom([]string{n.PodCIDRs, "10.244.2.0/24", "10.244.2.0/24", "10.244.0.0/17", ""}).
		Draw(r, "pod CIDR")
	n.Created = rapid.SampledFrom([]int64{n.Created, n.Created, n.Created, 9}).Draw(r, "created")
	return n
}

// Most changes need no ranking of all claims.
func TestSnapshotKeepsItsOrder(t *testing.T) {
	table := tableOf(t, onlyV4, peer(1), peer(2), peer(3))
	table.Snapshot()
	table.Set(peer(3, value(BackendData, `{"VNI":7}`)), 20)
	if table.last.snapshot(20) == nil {
		t.Error("another MAC makes a whole new snapshot")
	}
}

// A node without a lease, because an older one has its subnet or it claims our address, gets none by another value.
func TestSnapshotOfConflicts(t *testing.T) {
	for name, node := range map[string]func(data string) Node{
		"subnet":  func(data string) Node { return peer(3, cidrs("10.244.2.0/24"), value(BackendData, data)) },
		"address": func(data string) Node { return peer(3, value(PublicIP, "192.168.64.1"), value(BackendData, data)) },
	} {
		second := peer(2)
		table := tableOf(t, onlyV4, peer(1), second, peer(3))
		table.Snapshot()
		for i, data := range []string{"{}", `{"VNI":1}`, `{"VNI":2}`} {
			table.Set(node(data), int64(20+i))
			if got := subnets(table); got != "10.244.1.0-24 10.244.2.0-24" {
				t.Errorf("%s, value %d: leases %s", name, i, got)
			}
		}
		snap, _ := table.Snapshot()
		if len(snap.Quarantined) != 1 || snap.Leases[1].CreateRevision != second.CreateRevision() {
			t.Errorf("%s: the lease of n2 is another's: %s", name, reasons(table))
		}
	}
}

// BenchmarkSnapshot measures a snapshot after one of 5,000 nodes has published another value.
func BenchmarkSnapshot(b *testing.B) {
	table := NewTable("n1", lease.Document{Revision: 1}, network(b, `{"Network":"10.0.0.0/8","Backend":{"Type":"vxlan"}}`))
	node := func(i int, data string) Node {
		return peer(i, value(BackendData, data), cidrs(fmt.Sprintf("10.%d.%d.0/24", i/250+1, i%250)),
			value(PublicIP, fmt.Sprintf("192.168.%d.%d", i/250+1, i%250+1)))
	}
	for i := range 5000 {
		table.Set(node(i, "{}"), int64(i+1))
	}
	table.Snapshot()
	revision := int64(5000)
	for b.Loop() {
		revision++
		table.Set(node(int(revision%5000), fmt.Sprintf(`{"VNI":%d}`, revision)), revision)
		table.Snapshot()
	}
}
