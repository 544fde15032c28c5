package kernel

import (
	"context"
	"fmt"
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/drivers/sim/world"
)

// TestCachedLookIsTheHost applies random plans between looks. Each look must equal
// a reading of the whole host, and return the same pointer if nothing has changed.
// No state may change after it was returned.
func TestCachedLookIsTheHost(t *testing.T) {
	followed := 0
	rapid.Check(t, func(t *rapid.T) {
		ctx := context.Background()
		h, d, extent := hostWithCache(t)
		var last *dataplane.State
		text := ""
		for range rapid.IntRange(1, 10).Draw(t, "looks") {
			plans := rapid.IntRange(0, 3).Draw(t, "plans")
			for range plans {
				if rapid.IntRange(0, 20).Draw(t, "action") == 0 {
					fine(t, h.FlushNeigh("flannel.1"))
				}
				plan := []dataplane.Op{drawOp(t, "flannel.1")}
				for range rapid.SampledFrom([]int{0, 0, 1, 4, fewOps}).Draw(t, "more ops") {
					plan = append(plan, drawOp(t, "flannel.1"))
				}
				d.Apply(ctx, plan)
			}
			followed += len(h.seen.ops)
			seen, err := d.Look(ctx, extent)
			fine(t, err)
			wantSame(t, "state", d.observe(extent), seen.State)
			wantSame(t, "facts", h.stack.facts(extent), seen.Facts)
			if last != nil && last.Dump() != text {
				t.Fatalf("a state that was handed over was\n%s\nand is now\n%s", text, last.Dump())
			}
			if last != nil && plans == 0 && seen.State != last {
				t.Fatal("another state of a host that has not changed")
			}
			last, text = seen.State, seen.State.Dump()
		}
	})
	if followed == 0 {
		t.Error("every look read the whole host")
	}
}

// hostWithCache returns a host with a vxlan device, and a cached look.
func hostWithCache(t *rapid.T) (*Host, *hostDriver, dataplane.Extent) {
	h := NewNetwork(world.New(1)).NewHost("n1")
	addrs := []netip.Prefix{netip.MustParsePrefix("192.168.0.1/24"), netip.MustParsePrefix("fd01::1/64")}
	_, err := h.AddUplink("eth0", h.network.NewSegment("lan"), addrs...)
	fine(t, err)
	d := &hostDriver{h: h, paths: h.paths}
	device, err := dataplane.ParseOp("add link flannel.1 type vxlan mtu 1450 up id 1 dev eth0 local 192.168.0.1 port 8472")
	fine(t, err)
	fine(t, d.Apply(context.Background(), []dataplane.Op{device})[0])
	networks := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fd00::/16")}
	extent := dataplane.Extent{Links: []string{"flannel.1"}, Networks: networks}
	_, err = d.Look(context.Background(), extent)
	fine(t, err)
	return h, d, extent
}

func fine(t *rapid.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wantSame(t *rapid.T, what string, want, got any) {
	t.Helper()
	opts := cmp.Options{cmpopts.EquateEmpty(), cmpopts.EquateComparable(netip.Prefix{}, netip.Addr{})}
	if diff := cmp.Diff(want, got, opts); diff != "" {
		t.Fatalf("%s (-read anew +seen):\n%s", what, diff)
	}
}

// drawOp makes an op on one of few objects.
func drawOp(t *rapid.T, dev string) dataplane.Op {
	n := rapid.IntRange(1, 3).Draw(t, "object")
	mac := dataplane.MAC{2, 0, 0, 0, 0, byte(n)}
	verbs := []dataplane.Verb{dataplane.Create, dataplane.Replace, dataplane.Delete}
	op := dataplane.Op{Verb: rapid.SampledFrom(verbs).Draw(t, "verb")}
	peers := []string{fmt.Sprintf("10.0.%d.0/24", n), fmt.Sprintf("fd00:0:0:%d::/64", n)}
	peer := netip.MustParsePrefix(rapid.SampledFrom(peers).Draw(t, "peer"))
	switch rapid.IntRange(0, 4).Draw(t, "kind") {
	case 0:
		op.Object = dataplane.Neigh{NeighKey: dataplane.NeighKey{Link: dev, IP: peer.Addr()}, MAC: mac}
	case 1:
		dst := netip.AddrFrom4([4]byte{192, 168, 0, byte(n + 1)})
		op.Object = dataplane.FDBEntry{FDBKey: dataplane.FDBKey{Link: dev, MAC: mac}, Dst: dst}
	default:
		op.Object = dataplane.Route{
			RouteKey: dataplane.RouteKey{Dst: peer, Metric: rapid.SampledFrom([]uint32{0, 0, 7, 1024}).Draw(t, "metric")},
			Link:     rapid.SampledFrom([]string{dev, dev, "eth0"}).Draw(t, "link"),
			Protocol: rapid.SampledFrom([]uint8{dataplane.Protocol, dataplane.Protocol, 4}).Draw(t, "protocol"),
		}
	}
	return op
}
