package reconcile

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/flanneld/flannel/core/dataplane"
)

const dev = "flannel.1"

// TestAgreedIsDiff lives random histories of a want, layered or not, and a
// host: what is found by comparing what was touched is what Diff finds.
func TestAgreedIsDiff(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		opts := Options{
			Own:   Ownership{Links: map[string]bool{dev: true}, Networks: []netip.Prefix{netip.MustParsePrefix("10.5.0.0/16")}},
			Prune: true,
		}
		l := life{t: t, want: dataplane.Alone(draw(t, "want")), host: draw(t, "host"), pool: dataplane.NewPool()}
		l.host.Generation = 1
		var agreed *Agreed
		want := new(l.want)
		for range rapid.IntRange(1, 12).Draw(t, "steps") {
			before := want
			if l.step() {
				want = new(l.want)
			}
			opts.Prune = rapid.IntRange(0, 3).Draw(t, "synced") > 0
			full := Diff(want.Whole(), l.host, opts)
			part := l.part
			if agreed == nil && rapid.Bool().Draw(t, "expected") {
				expected := rapid.SampledFrom([]*dataplane.Layers{want, before}).Draw(t, "what")
				agreed, part = Assume(expected), func() dataplane.State { return l.unlike(expected) }
			}
			if agreed == nil {
				if full.Empty() {
					agreed, l.changed = Agree(want, l.host), dataplane.NewKeys()
				}
				l.apply(full)
				continue
			}
			plan, next, ok := agreed.Diff(want, part(), opts)
			if !ok {
				if !slices.ContainsFunc(full.Ops, func(op dataplane.Op) bool { _, is := op.Object.(dataplane.Link); return is }) {
					t.Fatalf("wants the whole host for %v", full.Ops)
				}
				agreed = nil
				l.apply(full)
				continue
			}
			if d := cmp.Diff(full, plan, cmpopts.EquateEmpty(), cmpopts.EquateComparable(netip.Prefix{}, netip.Addr{}), cmp.Comparer(func(a, b error) bool { return a.Error() == b.Error() })); d != "" {
				t.Fatalf("what was touched gives another plan (-whole +touched):\n%s", d)
			}
			if agreed = next; full.Empty() {
				l.changed = dataplane.NewKeys()
			}
			l.apply(full)
		}
	})
}

// life is a want and a host that change.
type life struct {
	t       *rapid.T
	want    dataplane.Layers
	host    dataplane.State
	changed *dataplane.Keys // of the host, since they agreed
	pool    *dataplane.Pool
}

// step changes one of the two, and reports whether it was the want.
func (l *life) step() bool {
	t := l.t
	switch rapid.SampledFrom([]string{"nothing", "want", "share", "share", "share", "host", "link"}).Draw(t, "step") {
	case "want":
		l.want = dataplane.Alone(draw(t, "want"))
		return true
	case "share":
		l.want = dataplane.Layers{Common: l.choose(), Own: draw(t, "own", rapid.IntRange(0, 5).Draw(t, "own peer"))}
		return true
	case "host":
		other := draw(t, "host")
		l.move(other)
	case "link":
		if rapid.IntRange(0, 4).Draw(t, "loses its link") == 0 {
			l.move(dataplane.NewState(0))
			l.host.Links = nil
		}
	}
	return false
}

// choose draws groups from a pool, new ones among them, of which no two have an
// object under one key.
func (l *life) choose() *dataplane.Common {
	if rapid.IntRange(0, 9).Draw(l.t, "another pool") == 0 {
		l.pool = dataplane.NewPool()
	}
	var groups []int
	taken := dataplane.NewKeys()
	for g := range l.pool.Groups() + 2 {
		keys := dataplane.NewKeys()
		if g < l.pool.Groups() {
			keys.AddGroup(l.pool, g)
		} else {
			s := draw(l.t, "group", rapid.IntRange(0, 5).Draw(l.t, "peer"))
			keys.AddState(s)
			l.pool.Add(s)
		}
		both := dataplane.NewKeys()
		both.Add(taken)
		both.Add(keys)
		if both.Len() == taken.Len()+keys.Len() && rapid.IntRange(0, 2).Draw(l.t, "chosen") > 0 {
			groups, taken = append(groups, g), both
		}
	}
	return l.pool.Choose(slices.Values(groups))
}

// unlike is what a driver reads that compares the host with what is expected.
func (l *life) unlike(expected *dataplane.Layers) dataplane.State {
	keys := dataplane.Unequal(expected.Whole(), l.host)
	keys.Add(dataplane.Unequal(draw(l.t, "noise"), dataplane.State{}))
	s := dataplane.Alone(l.host).Only(keys)
	s.Changed, s.Against = keys, expected
	return s
}

// move makes the host another one, and notes where it differs.
func (l *life) move(to dataplane.State) {
	if l.changed != nil {
		l.changed.Add(dataplane.Unequal(l.host, to))
		l.changed.Add(dataplane.Unequal(draw(l.t, "noise"), dataplane.State{})) // named, though as they were
	}
	l.host.Routes, l.host.Neighs, l.host.FDB = to.Routes, to.Neighs, to.FDB
	l.host.Generation++
}

// apply performs some of a plan.
func (l *life) apply(p Plan) {
	to := dataplane.State{Routes: maps.Clone(l.host.Routes), Neighs: maps.Clone(l.host.Neighs), FDB: maps.Clone(l.host.FDB)}
	for _, op := range p.Ops {
		if rapid.IntRange(0, 5).Draw(l.t, "fails") == 0 {
			continue
		}
		switch o := op.Object.(type) {
		case dataplane.Route:
			put(to.Routes, o.RouteKey, o, op.Verb)
		case dataplane.Neigh:
			put(to.Neighs, o.NeighKey, o, op.Verb)
		case dataplane.FDBEntry:
			put(to.FDB, o.FDBKey, o, op.Verb)
		case dataplane.Link:
			l.host.Links = map[string]dataplane.Link{o.Name: o}
		}
	}
	if len(p.Ops) > 0 {
		l.move(to)
	}
}

func put[K comparable, V any](m map[K]V, k K, v V, verb dataplane.Verb) {
	if verb == dataplane.Delete {
		delete(m, k)
		return
	}
	m[k] = v
}

// part is what a driver reads that confines itself to what has changed.
func (l *life) part() dataplane.State {
	s := dataplane.Alone(l.host).Only(l.changed)
	s.Changed = l.changed
	return s
}

// draw makes a state of few objects, so that two of them often meet.
func draw(t *rapid.T, label string, peers ...int) dataplane.State {
	if len(peers) == 0 {
		peers = []int{0, 1, 2, 3, 4, 5}
	}
	s := dataplane.NewState(0)
	s.AddLink(dataplane.Link{Name: dev, Up: true, Params: dataplane.VXLAN{}})
	for _, i := range peers {
		kind := rapid.IntRange(0, 15).Draw(t, label)
		peer := netip.MustParsePrefix(fmt.Sprintf("10.5.%d.0/24", i))
		mac := dataplane.MAC{2, 0, 0, 0, 0, byte(i)}
		if kind&1 != 0 {
			s.AddFDB(dataplane.FDBEntry{FDBKey: dataplane.FDBKey{Link: dev, MAC: mac}, Dst: netip.AddrFrom4([4]byte{192, 168, 0, byte(kind & 2)})})
			s.AddNeigh(dataplane.Neigh{NeighKey: dataplane.NeighKey{Link: dev, IP: peer.Addr()}, MAC: mac})
		}
		if kind&4 != 0 {
			protocol := []uint8{dataplane.Protocol, dataplane.Protocol, dataplane.ProtocolKernel, dataplane.ProtocolBoot}[kind&3]
			s.AddRoute(dataplane.Route{RouteKey: dataplane.RouteKey{Dst: peer}, Via: peer.Addr(), Link: []string{dev, "eth0"}[kind>>3], Protocol: protocol})
		}
	}
	return s
}
