package planted

import (
	"context"
	"slices"

	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/driver"
	"github.com/flanneld/flannel/core/node"
	"github.com/flanneld/flannel/drivers/sim/daemon"
	"github.com/flanneld/flannel/scenarios/simworld"
)

// body falsifies a process's view of its host, and its changes. Nil members
// falsify nothing.
type body struct {
	driver.Lane
	facts   func(driver.HostFacts) driver.HostFacts
	observe func(*dataplane.State) *dataplane.State
	// apply returns the op to perform instead, or false to perform none and report success.
	apply func(op dataplane.Op) (dataplane.Op, bool)
	done  func(dataplane.Op) // after a success
}

func (b *body) Look(ctx context.Context, e dataplane.Extent) (driver.Observation, error) {
	seen, err := b.Lane.Look(ctx, e)
	if err == nil && b.facts != nil {
		seen.Facts = b.facts(seen.Facts.(driver.HostFacts))
	}
	if err == nil && b.observe != nil {
		seen.State = b.observe(seen.State.Clone())
	}
	return seen, err
}

func (b *body) Apply(ctx context.Context, ops []dataplane.Op) []error {
	errs := make([]error, len(ops))
	for i, op := range ops {
		do := true
		if b.apply != nil {
			op, do = b.apply(op)
		}
		if do {
			errs[i] = b.Lane.Apply(ctx, []dataplane.Op{op})[0]
		}
		if b.done != nil && errs[i] == nil {
			b.done(op)
		}
	}
	return errs
}

// acting returns a defect: a body between the node and its kernel.
func acting(begin func() *body) func() simworld.Wrap { return within(node.HostLane, begin) }

// within returns a defect: a body in a lane, new for each process.
func within(lane node.LaneID, begin func() *body) func() simworld.Wrap {
	return func() simworld.Wrap {
		return func(_ string, p daemon.Parts) daemon.Parts {
			b := begin()
			b.Lane = p.Lanes[lane]
			p.Lanes[lane] = b
			return p
		}
	}
}

// believing returns a defect of what a daemon writes: change turns a wanted object into
// the one that is written instead, and the daemon believes that it has written the wanted
// one. First is the object with that key as it was wanted first. Key returns "" for
// objects that stay as they are.
func believing[T dataplane.Object](change func(want *T, first T), key func(T) string) func() *body {
	keyOf := func(o dataplane.Object) string {
		if t, is := o.(T); is {
			return key(t)
		}
		return ""
	}
	return func() *body {
		first := map[string]T{}
		believed := map[string]dataplane.Object{}
		var want dataplane.Object // of the op under way
		return &body{
			observe: func(s *dataplane.State) *dataplane.State {
				for _, o := range believed {
					if _, exists := s.Namesake(o); exists {
						s.Put(o)
					}
				}
				return s
			},
			apply: func(op dataplane.Op) (dataplane.Op, bool) {
				want = op.Object
				k := keyOf(want)
				if k == "" || op.Verb == dataplane.Delete {
					return op, true
				}
				written := want.(T)
				if _, known := first[k]; !known {
					first[k] = written
				}
				change(&written, first[k])
				op.Object = written
				return op, true
			},
			done: func(op dataplane.Op) {
				k := keyOf(want)
				if op.Verb == dataplane.Delete {
					delete(believed, k)
				} else if k != "" {
					believed[k] = want
				}
			},
		}
	}
}

// p1 looks once, and from then on only remembers its own changes.
func p1() *body {
	var memory *dataplane.State
	return &body{
		observe: func(s *dataplane.State) *dataplane.State {
			if memory == nil {
				memory = s
			}
			return memory.Clone()
		},
		done: func(op dataplane.Op) { remember(memory, op) },
	}
}

// glance is a lane whose looks, after the first one, read few objects.
type glance struct {
	driver.Lane
	looked bool
}

func (g *glance) Look(ctx context.Context, e dataplane.Extent) (driver.Observation, error) {
	if g.looked && e.Again == nil {
		e.Again = []dataplane.Object{}
	}
	g.looked = true
	return g.Lane.Look(ctx, e)
}

func glancing() simworld.Wrap {
	return func(_ string, p daemon.Parts) daemon.Parts {
		p.Lanes[node.HostLane] = &glance{Lane: p.Lanes[node.HostLane]}
		return p
	}
}

func remember(s *dataplane.State, op dataplane.Op) {
	if op.Verb != dataplane.Delete {
		s.Put(op.Object)
		return
	}
	switch o := op.Object.(type) {
	case dataplane.CloudRoute:
		s.CloudRoutes.Delete(o.CloudRouteKey)
	case dataplane.Link:
		delete(s.Links, o.Name)
	case dataplane.Addr:
		delete(s.Addrs, o)
	case dataplane.Route:
		s.Routes.Delete(o.RouteKey)
	case dataplane.Neigh:
		s.Neighs.Delete(o.NeighKey)
	case dataplane.FDBEntry:
		s.FDB.Delete(o.FDBKey)
	case dataplane.NextHop:
		s.NextHops.Delete(o.ID)
	case dataplane.WGPeer:
		s.WGPeers.Delete(o.Key())
	case dataplane.Policy:
		s.Policies.Delete(o.PolicyKey)
	case dataplane.Conn:
		s.Conns.Delete(o.ConnKey)
	case dataplane.Command:
		s.Commands.Delete(o.CommandKey)
	}
}

// p2 does not see the objects that a former run left for peers.
func p2() *body {
	mine := dataplane.NewState()
	return &body{
		observe: func(s *dataplane.State) *dataplane.State {
			s.Routes.DeleteFunc(func(k dataplane.RouteKey, _ dataplane.Route) bool { return !mine.Routes.Has(k) })
			s.Neighs.DeleteFunc(func(k dataplane.NeighKey, _ dataplane.Neigh) bool { return !mine.Neighs.Has(k) })
			s.FDB.DeleteFunc(func(k dataplane.FDBKey, _ dataplane.FDBEntry) bool { return !mine.FDB.Has(k) })
			return s
		},
		done: func(op dataplane.Op) { remember(mine, op) },
	}
}

// p3 creates a lost device again with a random MAC from the kernel, and does not
// publish it.
func p3() *body {
	made, wrong := map[string]int{}, map[string]dataplane.MAC{}
	return &body{
		apply: func(op dataplane.Op) (dataplane.Op, bool) {
			l, ok := op.Object.(dataplane.Link)
			if !ok || op.Verb == dataplane.Delete {
				return op, true
			}
			delete(wrong, l.Name)
			if op.Verb == dataplane.Create {
				made[l.Name]++
				if made[l.Name] > 1 {
					wrong[l.Name] = l.MAC
					l.MAC[5] ^= 0xff
				}
			}
			return dataplane.Op{Verb: op.Verb, Object: l}, true
		},
		observe: func(s *dataplane.State) *dataplane.State {
			for name, mac := range wrong {
				if l, ok := s.Links[name]; ok {
					l.MAC = mac
					s.Links[name] = l
				}
			}
			return s
		},
	}
}

// p4 never corrects a device's MTU.
func p4() *body {
	want, actual := map[string]int{}, map[string]int{}
	return &body{
		observe: func(s *dataplane.State) *dataplane.State {
			for name, l := range s.Links {
				actual[name] = l.MTU
				if mtu, ok := want[name]; ok {
					l.MTU = mtu
					s.Links[name] = l
				}
			}
			return s
		},
		apply: func(op dataplane.Op) (dataplane.Op, bool) {
			if l, ok := op.Object.(dataplane.Link); ok && op.Verb == dataplane.Replace {
				want[l.Name] = l.MTU
				l.MTU = actual[l.Name]
				op.Object = l
			}
			return op, true
		},
	}
}

// p7 keeps the forwarding entry to a peer's former address.
func p7() *body {
	var actual *dataplane.State
	told := map[dataplane.FDBKey]dataplane.FDBEntry{}
	return &body{
		observe: func(s *dataplane.State) *dataplane.State {
			actual = s.Clone()
			for k, e := range told {
				if _, ok := s.FDB.Get(k); ok {
					s.FDB.Put(e)
				}
			}
			return s
		},
		apply: func(op dataplane.Op) (dataplane.Op, bool) {
			e, ok := op.Object.(dataplane.FDBEntry)
			if !ok {
				return op, true
			}
			delete(told, e.FDBKey)
			if old, there := actual.FDB.Get(e.FDBKey); op.Verb == dataplane.Replace && there && old.Dst != e.Dst {
				told[e.FDBKey] = e
				return op, false
			}
			return op, true
		},
	}
}

// p8 asks once how the underlay reaches its peers.
func p8() *body {
	var first []driver.Route
	return &body{facts: func(f driver.HostFacts) driver.HostFacts {
		if first == nil {
			first = slices.Clone(f.Routes)
		}
		f.Routes = first
		return f
	}}
}

// p9 adds routes, and never replaces one.
func p9() *body {
	return &body{apply: func(op dataplane.Op) (dataplane.Op, bool) {
		if _, ok := op.Object.(dataplane.Route); ok && op.Verb == dataplane.Replace {
			op.Verb = dataplane.Create
		}
		return op, true
	}}
}

// p15 takes every route in the overlay's network for its own.
func p15() *body {
	var actual *dataplane.State
	return &body{
		observe: func(s *dataplane.State) *dataplane.State {
			actual = s.Clone()
			for _, r := range s.Routes.All {
				if r.Protocol == dataplane.ProtocolKernel {
					continue
				}
				r.Protocol = dataplane.Protocol
				s.Routes.Put(r)
			}
			return s
		},
		apply: func(op dataplane.Op) (dataplane.Op, bool) {
			if r, ok := op.Object.(dataplane.Route); ok && op.Verb == dataplane.Delete {
				old, _ := actual.Routes.Get(r.RouteKey)
				r.Protocol = old.Protocol
				op.Object = r
			}
			return op, true
		},
	}
}
