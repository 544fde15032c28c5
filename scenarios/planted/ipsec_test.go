package planted

import (
	"fmt"

	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/node"
	"github.com/flanneld/flannel/scenarios/search"
	"github.com/flanneld/flannel/scenarios/simworld"
)

// ipsec is the option of a search for defects of that backend.
var ipsec = search.Options{Backend: "ipsec", Nodes: 4}

// agreeing returns a defect: a body between the node and its IKE daemon.
func agreeing(begin func() *body) func() simworld.Wrap { return within(node.IKELane, begin) }

// unblocked does not make the policies that block what no tunnel carries, and believes that it has.
func unblocked() *body {
	blocks := map[dataplane.PolicyKey]dataplane.Policy{}
	return &body{
		observe: func(s *dataplane.State) *dataplane.State {
			for _, p := range blocks {
				s.AddPolicy(p)
			}
			return s
		},
		apply: func(op dataplane.Op) (dataplane.Op, bool) {
			p, ok := op.Object.(dataplane.Policy)
			if !ok || p.Action != dataplane.Block {
				return op, true
			}
			blocks[p.PolicyKey] = p
			if op.Verb == dataplane.Delete {
				delete(blocks, p.PolicyKey)
			}
			return op, false
		},
	}
}

// oldTunnel keeps the ends that a policy had first.
func oldTunnel(want *dataplane.Policy, first dataplane.Policy) { *want = first }

// policy is the key of policies.
func policy(p dataplane.Policy) string { return fmt.Sprint(p.PolicyKey) }

// trusting believes that each connection has its tunnel.
func trusting() *body {
	return &body{observe: func(s *dataplane.State) *dataplane.State {
		for k := range s.Conns.All {
			s.Put(dataplane.Tunnel{ConnKey: k})
		}
		return s
	}}
}

// protecting selects the policies of peers.
func protecting(o dataplane.Object) bool {
	p, is := o.(dataplane.Policy)
	return is && p.Action == dataplane.Protect
}

// connections selects connections.
func connections(o dataplane.Object) bool {
	_, is := o.(dataplane.Conn)
	return is
}
