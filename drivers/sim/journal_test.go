package sim

import (
	"context"
	"fmt"
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/driver"
)

// TestPartOfAHost applies random plans between looks that know what the one
// before read: what they leave out is as it was, of objects and of facts.
func TestPartOfAHost(t *testing.T) {
	parts := 0
	rapid.Check(t, func(t *rapid.T) {
		ctx := context.Background()
		w := NewWorld(1)
		h := w.NewHost("n1")
		if _, err := h.AddUplink("eth0", w.NewSegment("lan"), netip.MustParsePrefix("192.168.0.1/24"), netip.MustParsePrefix("fd01::1/64")); err != nil {
			t.Fatal(err)
		}
		d := h.Driver()
		dev := dataplane.Link{Name: "flannel.1", Up: true, MTU: 1450,
			Params: dataplane.VXLAN{VNI: 1, Parent: "eth0", Local: netip.MustParseAddr("192.168.0.1"), Port: 8472}}
		apply(t, d, dataplane.Op{Verb: dataplane.Create, Object: dev})
		extent := dataplane.Extent{Links: []string{dev.Name}, Networks: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fd00::/16")}}
		known := observe(ctx, t, d, extent)
		for range rapid.IntRange(1, 10).Draw(t, "looks") {
			for range rapid.IntRange(0, 3).Draw(t, "plans") {
				if rapid.IntRange(0, 20).Draw(t, "deed") == 0 {
					if err := h.FlushNeigh(dev.Name); err != nil {
						t.Fatal(err)
					}
				}
				var plan []dataplane.Op
				for range rapid.SampledFrom([]int{0, 1, 1, 2, 5, journalled}).Draw(t, "ops") {
					plan = append(plan, drawOp(t, dev.Name))
				}
				d.Apply(ctx, plan)
			}
			extent.Known = known.Generation
			part := observe(ctx, t, d, extent)
			extent.Known = 0
			whole := observe(ctx, t, d, extent)
			if part.Changed != nil {
				parts++
			}
			wantSame(t, "the host", whole, complete(known, part))
			wantSame(t, "facts", h.stack.facts(), h.Facts())
			known = whole
		}
	})
	if parts == 0 {
		t.Error("no look was ever confined")
	}
}

func observe(ctx context.Context, t *rapid.T, d driver.Lane, extent dataplane.Extent) dataplane.State {
	seen, err := d.Look(ctx, extent)
	if err != nil {
		t.Fatal(err)
	}
	return seen.State
}

func apply(t *rapid.T, d driver.Lane, op dataplane.Op) {
	if err := d.Apply(context.Background(), []dataplane.Op{op})[0]; err != nil {
		t.Fatal(err)
	}
}

// complete adds to a part of a host what was known of it.
func complete(known, part dataplane.State) dataplane.State {
	switch {
	case part.Generation == known.Generation:
		return known
	case part.Changed == nil:
		return part
	}
	whole := part
	whole.Changed = nil
	whole.Routes = unchanged(known.Routes, part.Routes, part.Changed.Routes)
	whole.Neighs = unchanged(known.Neighs, part.Neighs, part.Changed.Neighs)
	whole.FDB = unchanged(known.FDB, part.FDB, part.Changed.FDB)
	return whole
}

func unchanged[K comparable, V any](known, part map[K]V, changed map[K]struct{}) map[K]V {
	m := map[K]V{}
	for k, v := range known {
		if _, is := changed[k]; !is {
			m[k] = v
		}
	}
	for k, v := range part {
		m[k] = v
	}
	return m
}

func wantSame(t *rapid.T, what string, want, got any) {
	t.Helper()
	if d := cmp.Diff(want, got, cmpopts.EquateEmpty(), cmpopts.EquateComparable(netip.Prefix{}, netip.Addr{})); d != "" {
		t.Fatalf("%s (-whole +confined):\n%s", what, d)
	}
}

// drawOp makes an op on one of few objects.
func drawOp(t *rapid.T, dev string) dataplane.Op {
	n := rapid.IntRange(1, 3).Draw(t, "object")
	mac := dataplane.MAC{2, 0, 0, 0, 0, byte(n)}
	op := dataplane.Op{Verb: rapid.SampledFrom([]dataplane.Verb{dataplane.Create, dataplane.Replace, dataplane.Delete}).Draw(t, "verb")}
	peer := netip.MustParsePrefix(rapid.SampledFrom([]string{fmt.Sprintf("10.0.%d.0/24", n), fmt.Sprintf("fd00:0:0:%d::/64", n)}).Draw(t, "peer"))
	switch rapid.IntRange(0, 4).Draw(t, "kind") {
	case 0:
		op.Object = dataplane.Neigh{NeighKey: dataplane.NeighKey{Link: dev, IP: peer.Addr()}, MAC: mac}
	case 1:
		op.Object = dataplane.FDBEntry{FDBKey: dataplane.FDBKey{Link: dev, MAC: mac}, Dst: netip.AddrFrom4([4]byte{192, 168, 0, byte(n + 1)})}
	default:
		op.Object = dataplane.Route{
			RouteKey: dataplane.RouteKey{Dst: peer, Metric: rapid.SampledFrom([]uint32{0, 0, 7, 1024}).Draw(t, "metric")},
			Link:     rapid.SampledFrom([]string{dev, dev, "eth0"}).Draw(t, "link"),
			Protocol: rapid.SampledFrom([]uint8{dataplane.Protocol, dataplane.Protocol, 4}).Draw(t, "protocol"),
		}
	}
	return op
}
