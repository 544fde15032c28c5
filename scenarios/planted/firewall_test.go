package planted

import (
	"context"
	"strings"

	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/driver"
	"github.com/flanneld/flannel/core/node"
	"github.com/flanneld/flannel/drivers/sim/daemon"
	"github.com/flanneld/flannel/scenarios/simworld"
)

// guard falsifies a process's view of its packet filter, and its changes. Nil
// members falsify nothing.
type guard struct {
	driver.Lane
	inspect func(*dataplane.State) *dataplane.State
	apply   func(dataplane.Chain, dataplane.Verb) []dataplane.Op // the ops to perform instead, in order
}

func (g *guard) Look(ctx context.Context, e dataplane.Extent) (driver.Observation, error) {
	seen, err := g.Lane.Look(ctx, e)
	if err == nil && g.inspect != nil {
		seen.State = g.inspect(seen.State.Clone())
	}
	return seen, err
}

func (g *guard) Apply(ctx context.Context, ops []dataplane.Op) []error {
	if g.apply == nil {
		return g.Lane.Apply(ctx, ops)
	}
	errs := make([]error, len(ops))
	for i, op := range ops {
		for _, instead := range g.apply(op.Object.(dataplane.Chain), op.Verb) {
			errs[i] = g.Lane.Apply(ctx, []dataplane.Op{instead})[0]
		}
	}
	return errs
}

// guarding returns a defect: a guard, new for each process.
func guarding(begin func() *guard) func() simworld.Wrap {
	return func() simworld.Wrap {
		return func(_ string, p daemon.Parts) daemon.Parts {
			g := begin()
			g.Lane = p.Lanes[node.FirewallLane]
			p.Lanes[node.FirewallLane] = g
			return p
		}
	}
}

// spelt writes rules wrongly, and takes its own spelling for right.
func spelt(wrongly func(dataplane.Rules) dataplane.Rules) func() *guard {
	return func() *guard {
		meant := map[dataplane.Rules]dataplane.Rules{}
		return &guard{
			apply: func(c dataplane.Chain, v dataplane.Verb) []dataplane.Op {
				if c.Hook == dataplane.Postrouting {
					wrong := wrongly(c.Rules)
					meant[wrong] = c.Rules
					c.Rules = wrong
				}
				return []dataplane.Op{{Verb: v, Object: c}}
			},
			inspect: func(s *dataplane.State) *dataplane.State {
				for k, c := range s.Chains {
					if right, ok := meant[c.Rules]; ok {
						c.Rules = right
						s.Chains[k] = c
					}
				}
				return s
			},
		}
	}
}

// f1rule1 compares the whole mark (interop 7.2: other programs use other bits).
func f1rule1(r dataplane.Rules) dataplane.Rules {
	return dataplane.Rules(strings.Replace(string(r), "mark 0x4000/0x4000", "mark 0x4000/0xffffffff", 1))
}

// f1rule4 returns every packet from outside the node's own subnet (interop 7.2).
func f1rule4(r dataplane.Rules) dataplane.Rules {
	list, err := r.List()
	if err != nil || len(list) != 6 {
		return r
	}
	own, network := list[1].From, list[1].To
	own.Not = true
	list[3].From, list[3].To = own, network
	return dataplane.MakeRules(list...)
}

// f1look looks once, and from then on only remembers its own changes.
func f1look() *guard {
	var memory *dataplane.State
	return &guard{
		inspect: func(s *dataplane.State) *dataplane.State {
			if memory == nil {
				memory = s
			}
			again, err := dataplane.ParseDump(memory.Dump())
			if err != nil {
				panic(err)
			}
			return again
		},
		apply: func(c dataplane.Chain, v dataplane.Verb) []dataplane.Op {
			delete(memory.Chains, c.ChainKey)
			if v != dataplane.Delete {
				memory.AddChain(c)
			}
			return []dataplane.Op{{Verb: v, Object: c}}
		},
	}
}

// f1presence checks that its rules exist, and ignores their order and foreign
// rules among them.
func f1presence() *guard {
	made := map[dataplane.ChainKey]dataplane.Chain{}
	return &guard{
		inspect: func(s *dataplane.State) *dataplane.State {
			for k, c := range s.Chains {
				if want, ok := made[k]; ok && c.Jump != dataplane.Missing && containsAll(c.Rules, want.Rules) {
					s.Chains[k] = want
				}
			}
			return s
		},
		apply: func(c dataplane.Chain, v dataplane.Verb) []dataplane.Op {
			made[c.ChainKey] = c
			return []dataplane.Op{{Verb: v, Object: c}}
		},
	}
}

func containsAll(have, want dataplane.Rules) bool {
	there := map[string]bool{}
	for _, r := range strings.Split(string(have), "; ") {
		there[r] = true
	}
	for _, r := range strings.Split(string(want), "; ") {
		if !there[r] {
			return false
		}
	}
	return true
}

// f2 deletes no chain of the other flavour.
func f2() *guard {
	return &guard{
		apply: func(c dataplane.Chain, v dataplane.Verb) []dataplane.Op {
			if v == dataplane.Delete {
				return nil
			}
			return []dataplane.Op{{Verb: v, Object: c}}
		},
	}
}

// f3 empties a chain before it fills it.
func f3() *guard {
	return &guard{apply: func(c dataplane.Chain, v dataplane.Verb) []dataplane.Op {
		if v == dataplane.Delete {
			return []dataplane.Op{{Verb: v, Object: c}}
		}
		return []dataplane.Op{{Verb: dataplane.Delete, Object: c}, {Verb: v, Object: c}}
	}}
}

// f3silent takes every change for done, and never checks the result.
func f3silent() *guard {
	made := dataplane.NewState()
	return &guard{
		inspect: func(*dataplane.State) *dataplane.State {
			s := dataplane.NewState()
			for _, c := range made.Chains {
				s.AddChain(c)
			}
			return s
		},
		apply: func(c dataplane.Chain, v dataplane.Verb) []dataplane.Op {
			delete(made.Chains, c.ChainKey)
			if v != dataplane.Delete {
				made.AddChain(c)
			}
			return []dataplane.Op{{Verb: v, Object: c}}
		},
	}
}
