package sim

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/flanneld/flannel/core/dataplane"
)

// TestAgainstExpected applies what follows from some choice of a pool, not all
// of it, and something else, and then looks with expectations: what is
// expected, but for what is said to be different, is what the host holds.
func TestAgainstExpected(t *testing.T) {
	compared, differing := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		ctx := context.Background()
		w := NewWorld(1)
		h := w.NewHost("n1")
		if _, err := h.AddUplink("eth0", w.NewSegment("lan"), netip.MustParsePrefix("192.168.0.1/24"), netip.MustParsePrefix("fd01::1/64")); err != nil {
			t.Fatal(err)
		}
		d := h.Driver()
		devices := []string{"flannel.1", "flannel-v6.1"}
		apply(t, d, dataplane.Op{Verb: dataplane.Create, Object: vxlanLink(devices[0], "192.168.0.1")})
		if rapid.IntRange(0, 9).Draw(t, "second device") > 0 {
			apply(t, d, dataplane.Op{Verb: dataplane.Create, Object: vxlanLink(devices[1], "fd01::1")})
		}
		extent := dataplane.Extent{Links: devices, Networks: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fd00::/16")}}
		pool := dataplane.NewPool()
		for range rapid.IntRange(1, 4).Draw(t, "looks") {
			for range 2 {
				pool.Add(peerState(pool.Groups()+1, devices))
			}
			var chosen []int
			for g := range pool.Groups() {
				if rapid.IntRange(0, 3).Draw(t, "chosen") > 0 {
					chosen = append(chosen, g)
				}
			}
			own := dataplane.NewState(0)
			if rapid.Bool().Draw(t, "own route") {
				own.AddRoute(dataplane.Route{RouteKey: dataplane.RouteKey{Dst: netip.MustParsePrefix("10.0.1.0/24")}, Kind: dataplane.Blackhole, Protocol: dataplane.Protocol})
			}
			expect := &dataplane.Layers{Common: pool.Choose(slices.Values(chosen)), Own: own}
			d.Apply(ctx, planFor(t, expect))
			for range rapid.SampledFrom([]int{0, 0, 1, 3}).Draw(t, "others") {
				d.Apply(ctx, []dataplane.Op{drawOp(t, rapid.SampledFrom(devices).Draw(t, "device"))})
			}
			whole := observe(ctx, t, d, extent)
			extent.Expect = expect
			part := observe(ctx, t, d, extent)
			extent.Expect = nil
			if part.Against == nil {
				wantSame(t, "the host, as a whole", whole, part)
				continue
			}
			if compared++; part.Changed.Len() > len(own.Routes) {
				differing++
			}
			known := expect.Whole()
			if part.Against != expect {
				t.Fatal("compared with something else")
			}
			part.Against = nil
			wantSame(t, "the host", whole, complete(known, part))
		}
	})
	if compared == 0 || differing == 0 {
		t.Errorf("%d comparisons, %d of them with differences", compared, differing)
	}
}

func vxlanLink(name, local string) dataplane.Link {
	a := netip.MustParseAddr(local)
	vni := uint32(1)
	if a.Is6() {
		vni = 2
	}
	return dataplane.Link{Name: name, Up: true, MTU: 1400, Params: dataplane.VXLAN{VNI: vni, Parent: "eth0", Local: a, Port: 8472}}
}

// peerState is what follows from the n-th peer's lease.
func peerState(n int, devices []string) dataplane.State {
	s := dataplane.NewState(1)
	for i, v := range []struct{ subnet, public string }{
		{fmt.Sprintf("10.0.%d.0/24", n), fmt.Sprintf("192.168.0.%d", n+1)},
		{fmt.Sprintf("fd00:0:0:%d::/64", n), fmt.Sprintf("fd01::%d", n+1)},
	} {
		subnet, mac := netip.MustParsePrefix(v.subnet), dataplane.MAC{2, 0, 0, 0, byte(i), byte(n)}
		s.AddFDB(dataplane.FDBEntry{FDBKey: dataplane.FDBKey{Link: devices[i], MAC: mac}, Dst: netip.MustParseAddr(v.public)})
		s.AddNeigh(dataplane.Neigh{NeighKey: dataplane.NeighKey{Link: devices[i], IP: subnet.Addr()}, MAC: mac})
		key := dataplane.RouteKey{Dst: subnet}
		if n == 5 {
			key.Metric = metricDefault6 // which is read back as none
		}
		s.AddRoute(dataplane.Route{RouteKey: key, Link: devices[i], Via: subnet.Addr(), OnLink: true, Protocol: dataplane.Protocol})
	}
	return s
}

// planFor puts most of what is expected in place.
func planFor(t *rapid.T, l *dataplane.Layers) []dataplane.Op {
	var plan []dataplane.Op
	put := func(o dataplane.Object) {
		if rapid.IntRange(0, 30).Draw(t, "left out") > 0 {
			plan = append(plan, dataplane.Op{Verb: dataplane.Replace, Object: o})
		}
	}
	for i := range l.FDB().Common {
		put(i.Object())
	}
	for i := range l.Neighs().Common {
		put(i.Object())
	}
	for i := range l.Routes().Common {
		put(i.Object())
	}
	return plan
}
