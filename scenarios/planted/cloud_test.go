package planted

import (
	"net/netip"

	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/node"
	"github.com/flanneld/flannel/scenarios/search"
	"github.com/flanneld/flannel/scenarios/simworld"
)

// clouds is the option of a search for defects of the backends with a provider's tables.
var clouds = search.Options{Backend: "aws-vpc", Nodes: 4}

// entries are what other programs do to a provider's tables.
var entries = []search.Step{
	{Line: "fault cloud remove N"}, {Line: "fault cloud take N by=M"}, {Line: "fault cloud add 10.5.201.0/24 by=N"},
	{Line: "pass 7m"},
}

// refusing is a provider that refuses changes for a while.
var refusing = []search.Step{
	{Line: "fault cloud remove N"}, {Line: "fault cloud denied"}, {Line: "pass 7m"}, {Line: "fault cloud denied heal"},
}

// routing returns a defect: a body between the node and the provider.
func routing(begin func() *body) func() simworld.Wrap { return within(node.CloudLane, begin) }

// each changes every entry that a look shows.
func each(change func(*dataplane.CloudRoute)) func(*dataplane.State) *dataplane.State {
	return func(s *dataplane.State) *dataplane.State {
		for _, r := range s.Clone().CloudRoutes.All {
			change(&r)
			s.AddCloudRoute(r)
		}
		return s
	}
}

// indifferent takes any entry with the destination of its own route for that route.
func indifferent() *body {
	made := map[netip.Prefix]bool{}
	return &body{
		observe: each(func(r *dataplane.CloudRoute) { r.Self = r.Self || made[r.Dst] }),
		done: func(op dataplane.Op) {
			if op.Verb == dataplane.Create {
				made[op.Object.(dataplane.CloudRoute).Dst] = true
			}
		},
	}
}

// greedy takes every entry that a program has made for one of its own (P15).
func greedy() *body {
	return &body{observe: each(func(r *dataplane.CloudRoute) { r.Self = r.Self || !r.Provided })}
}

// formerRoutes selects the entries of the own instance.
func formerRoutes(o dataplane.Object) bool {
	r, is := o.(dataplane.CloudRoute)
	return is && r.Self
}

// satisfied takes a route that the provider has refused for one that it has made.
func satisfied() *body {
	var made *dataplane.CloudRoute
	return &body{
		observe: func(s *dataplane.State) *dataplane.State {
			if made != nil {
				s.AddCloudRoute(*made)
			}
			return s
		},
		apply: func(op dataplane.Op) (dataplane.Op, bool) {
			if r, is := op.Object.(dataplane.CloudRoute); is && op.Verb == dataplane.Create {
				made = &r
			}
			return op, true
		},
	}
}
