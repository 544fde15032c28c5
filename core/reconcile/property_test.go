package reconcile

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/flanneld/flannel/core/dataplane"
)

// TestPlanMakesWant draws two states of a host, carries the plan out on the
// observed one and expects the desired one: exactly the wanted objects among
// those that flannel owns, and all other objects as they were.
func TestPlanMakesWant(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want, have := drawState(t, "want", true), drawState(t, "have", false)
		opts := Options{Own: own(), Prune: true}
		plan := Diff(want, have, opts)
		got := have.Clone()
		for _, op := range plan.Ops {
			perform(got, op)
		}
		if again := Diff(want, got, opts); len(again.Ops) > 0 {
			t.Fatalf("after the plan\n%v\nthere is more to do:\n%v", plan.Ops, again.Ops)
		}
		if diff := cmp.Diff(expected(want, have, plan), got.Dump()); diff != "" {
			t.Fatalf("after the plan\n%v\nthe host (-expected +is):\n%s", plan.Ops, diff)
		}
	})
}

// TestWithheldPlanDeletesNothing expects that without Prune a plan deletes an
// object only to make way for a desired one.
func TestWithheldPlanDeletesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want, have := drawState(t, "want", true), drawState(t, "have", false)
		whole := Diff(want, have, Options{Own: own(), Prune: true})
		held := Diff(want, have, Options{Own: own()})
		if n := len(whole.Ops) - len(held.Ops); n != held.Withheld {
			t.Fatalf("%d deletes withheld, but the plan is %d ops shorter", held.Withheld, n)
		}
		if diff := cmp.Diff(whole.Ops[:len(held.Ops)], held.Ops, cmpopts.EquateEmpty(),
			cmpopts.EquateComparable(netip.Prefix{}, netip.Addr{})); diff != "" {
			t.Fatal(diff)
		}
	})
}

// expected is the host after a plan: the wanted objects, and the observed ones
// that are not flannel's.
func expected(want, have *dataplane.State, plan Plan) string {
	s := want.Clone()
	if len(plan.Conflicts) > 0 {
		for _, r := range have.Routes.All {
			if r.Protocol == dataplane.ProtocolKernel {
				s.Routes.Put(r)
			}
		}
	}
	for k, r := range have.Routes.All {
		if _, taken := s.Routes.Get(k); !taken && !own().Route(r) {
			s.Routes.Put(r)
		}
	}
	foreign := map[dataplane.FDBKey]bool{}
	for k, n := range have.Neighs.All {
		if k.Link == foreignLink || !own().inNetworks(netip.PrefixFrom(k.IP, 32)) {
			s.Neighs.Put(n)
			foreign[dataplane.FDBKey{Link: k.Link, MAC: n.MAC}] = true
		}
	}
	for id, h := range have.NextHops.All {
		if _, taken := s.NextHops.Get(id); !taken && !own().NextHop(h) {
			s.NextHops.Put(h)
		}
	}
	for k, e := range have.FDB.All {
		if _, taken := s.FDB.Get(k); !taken && (k.Link == foreignLink || foreign[k]) {
			s.FDB.Put(e)
		}
	}
	return s.Dump()
}

const foreignLink = "eth0"

// drawState draws a host with flannel.1 and peers on it. An observed host may
// have foreign objects as well.
func drawState(t *rapid.T, label string, wanted bool) *dataplane.State {
	s := dataplane.NewState()
	links := []string{"flannel.1"}
	protocols := []uint8{dataplane.Protocol}
	if !wanted {
		links = append(links, foreignLink)
		protocols = append(protocols, dataplane.ProtocolBoot, dataplane.ProtocolKernel, 4)
	}
	o, err := dataplane.ParseObject(device[:len(device)-1])
	if err != nil {
		t.Fatal(err)
	}
	s.Put(o)
	for range rapid.IntRange(0, 6).Draw(t, label) {
		i := rapid.IntRange(1, 5).Draw(t, "peer")
		link := rapid.SampledFrom(links).Draw(t, "link")
		subnet := netip.MustParsePrefix(fmt.Sprintf("10.%d.%d.0/24", rapid.SampledFrom([]int{5, 5, 9}).Draw(t, "network"), i))
		if wanted {
			subnet = netip.MustParsePrefix(fmt.Sprintf("10.5.%d.0/24", i))
		}
		mac := dataplane.MAC{2, 0, 0, 0, 0, byte(rapid.IntRange(1, 5).Draw(t, "mac"))}
		s.AddRoute(dataplane.Route{
			RouteKey: dataplane.RouteKey{Dst: subnet}, Link: link, Via: subnet.Addr(), OnLink: rapid.Bool().Draw(t, "onlink"),
			Protocol: rapid.SampledFrom(protocols).Draw(t, "protocol"),
		})
		if !wanted || rapid.Bool().Draw(t, "over a next hop") {
			s.AddNextHop(dataplane.NextHop{ID: dataplane.NextHopFor(subnet), Link: link, Via: subnet.Addr()})
		}
		s.AddNeigh(dataplane.Neigh{NeighKey: dataplane.NeighKey{Link: link, IP: subnet.Addr()}, MAC: mac})
		to := netip.AddrFrom4([4]byte{192, 168, 64, byte(i)})
		if !wanted && rapid.Bool().Draw(t, "odd") {
			to = netip.IPv4Unspecified()
		}
		s.AddFDB(dataplane.FDBEntry{FDBKey: dataplane.FDBKey{Link: link, MAC: mac}, Dst: to})
	}
	return s
}

// perform applies an op to a state as a kernel would.
func perform(s *dataplane.State, op dataplane.Op) {
	if op.Verb != dataplane.Delete {
		if e, is := op.Object.(dataplane.FDBEntry); is {
			if have, _ := s.FDB.Get(e.FDBKey); have.Odd() {
				return // it keeps its next hop
			}
		}
		s.Put(op.Object)
		return
	}
	switch o := op.Object.(type) {
	case dataplane.Route:
		s.Routes.Delete(o.RouteKey)
	case dataplane.NextHop:
		s.NextHops.Delete(o.ID)
	case dataplane.Neigh:
		s.Neighs.Delete(o.NeighKey)
	case dataplane.FDBEntry:
		s.FDB.Delete(o.FDBKey)
	}
}
