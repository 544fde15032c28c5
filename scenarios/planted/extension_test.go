package planted

import (
	"context"
	"fmt"

	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/node"
	"github.com/flanneld/flannel/drivers/sim/daemon"
	"github.com/flanneld/flannel/scenarios/search"
	"github.com/flanneld/flannel/scenarios/simworld"
)

// extension is the option of a search for defects of that backend.
var extension = search.Options{Backend: "extension", Nodes: 4}

// These steps expose defects of commands: the commands fail for some time, or another
// program removes their routes.
var (
	failures = []search.Step{{Line: "fault N commands broken"}, {Line: "start M"}, {Line: "heal"}}
	unrouted = []search.Step{{Line: "fault N unroute M"}}
)

// commanding returns a defect: a body between the node and its shell.
func commanding(begin func() *body) func() simworld.Wrap { return within(node.CommandsLane, begin) }

// forPeer is the key of commands for peers, and of no other command.
func forPeer(c dataplane.Command) string {
	if c.Stage != dataplane.ForPeer {
		return ""
	}
	return fmt.Sprint(c.CommandKey)
}

// serving selects the commands for peers.
func serving(o dataplane.Object) bool {
	c, is := o.(dataplane.Command)
	return is && forPeer(c) != ""
}

// oldData keeps the data that a command had first.
func oldData(c *dataplane.Command, first dataplane.Command) { c.Env, c.Input = first.Env, first.Input }

// unaware does not see the commands that a former run has left.
func unaware() *body {
	mine := map[dataplane.CommandKey]bool{}
	return &body{
		observe: func(s *dataplane.State) *dataplane.State {
			s.Commands.DeleteFunc(func(k dataplane.CommandKey, _ dataplane.Command) bool { return !mine[k] })
			return s
		},
		done: func(op dataplane.Op) {
			if c, is := op.Object.(dataplane.Command); is {
				mine[c.CommandKey] = op.Verb != dataplane.Delete
			}
		},
	}
}

// once never runs a command again when it is due.
func once() *body {
	rounds := map[dataplane.CommandKey]uint64{}
	return &body{
		observe: func(s *dataplane.State) *dataplane.State {
			for k, c := range s.Clone().Commands.All {
				c.Round = rounds[k]
				s.AddCommand(c)
			}
			return s
		},
		apply: func(op dataplane.Op) (dataplane.Op, bool) {
			c, is := op.Object.(dataplane.Command)
			if is && op.Verb != dataplane.Delete {
				rounds[c.CommandKey] = c.Round
				c.Round = 0
				op.Object = c
			}
			return op, true
		},
	}
}

// content takes every command that has run for one that has succeeded.
func content() simworld.Wrap {
	return func(_ string, p daemon.Parts) daemon.Parts {
		sees := &body{Lane: p.Lanes[node.CommandsLane], observe: func(s *dataplane.State) *dataplane.State {
			for _, c := range s.Clone().Commands.All {
				c.Outcome = dataplane.Done
				s.AddCommand(c)
			}
			return s
		}}
		p.Lanes[node.CommandsLane] = contented{sees}
		return p
	}
}

// contented is a lane that reports success.
type contented struct{ *body }

func (c contented) Apply(ctx context.Context, ops []dataplane.Op) []error {
	c.body.Apply(ctx, ops)
	return make([]error, len(ops))
}
