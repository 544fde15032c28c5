package reconcile

import (
	"slices"

	"github.com/flanneld/flannel/core/dataplane"
)

// CommandOptions bound what a plan of commands may do.
type CommandOptions struct {
	// Prune allows deletes, as in [Options].
	Prune bool
	// Undo, if not nil, is the text that undoes the commands of departed peers in
	// place of the recorded one: the operator may have corrected it.
	Undo *string
}

// Commands returns the plan that turns the commands that have run into the
// desired ones. A stage waits until the earlier ones are as desired, and deletes
// wait for all of them.
func Commands(want, have *dataplane.State, opts CommandOptions) Plan {
	var p Plan
	var stage dataplane.Stage
	for k, c := range want.Commands.All {
		was, exists := have.Commands.Get(k)
		if exists && was.InForce(c) {
			continue
		}
		if len(p.Ops) > 0 && k.Stage != stage {
			return p
		}
		stage = k.Stage
		verb := dataplane.Replace
		if !exists {
			verb = dataplane.Create
		}
		p.Ops = append(p.Ops, dataplane.Op{Verb: verb, Object: c})
	}
	if len(p.Ops) > 0 && stage != dataplane.ForPeer {
		return p
	}
	var drop []dataplane.Op
	for k, c := range have.Commands.All {
		if want.Commands.Has(k) {
			continue
		}
		if opts.Undo != nil && k.Stage == dataplane.ForPeer {
			c.Undo = *opts.Undo
		}
		drop = append(drop, dataplane.Op{Verb: dataplane.Delete, Object: c})
	}
	if !opts.Prune {
		p.Withheld = len(drop)
		return p
	}
	slices.Reverse(drop)
	p.Ops = append(p.Ops, drop...)
	return p
}
