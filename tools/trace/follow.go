package trace

import (
	"context"
	"fmt"
	"net/netip"

	"github.com/flanneld/flannel/core/node"
	"github.com/flanneld/flannel/tools/output"
)

// Journey is the way of a packet through several hosts.
type Journey struct {
	Flow   Flow    `json:"Flow"`
	Stages []Stage `json:"Stages"`
}

// Stage is the way through one of them.
type Stage struct {
	Node   string  `json:"Node"`   // the address of the host; empty: this one
	Result *Result `json:"Result"` // null: it could not be learnt
	Error  string  `json:"Error"`  // why
}

// mostStages is the number of hosts after which a packet must have arrived.
const mostStages = 4

// Follow traces a packet from the node of its source to the host where it ends or arrives, as far
// as the hosts can be asked. The node that runs this command is asked by here, the others by there.
func Follow(ctx context.Context, flow Flow, known Known, here func(context.Context) (*Result, error),
	there func(context.Context, netip.Addr) (*Result, error),
) *Journey {
	j := &Journey{Flow: flow}
	w := walk{known: known, Result: &Result{Flow: flow}}
	var at netip.Addr // zero: this host
	if p, ok := w.peerOf(flow.Src); ok && p.State != node.PeerRefused {
		at = addressOf(p)
	}
	for range mostStages {
		var s Stage
		var err error
		if at.IsValid() {
			s.Node = at.String()
			s.Result, err = there(ctx, at)
		} else {
			s.Result, err = here(ctx)
		}
		if err != nil {
			s.Error = err.Error()
		}
		j.Stages = append(j.Stages, s)
		if err != nil || !s.Result.Next.IsValid() {
			break
		}
		at = s.Result.Next
		if !w.isNode(at) {
			at = netip.Addr{} // no peer of this host, so this host itself
		}
	}
	return j
}

// Trouble reports whether the packet does not arrive, or that could not be learnt.
func (j *Journey) Trouble() bool {
	last := j.Stages[len(j.Stages)-1]
	return last.Result == nil || last.Result.Trouble() || last.Result.Next.IsValid()
}

// Text writes the way through each host.
func (j *Journey) Text(p *output.Page) {
	for i, s := range j.Stages {
		name := s.Node
		if name == "" {
			name = "this host"
		}
		p.Line(output.Title(fmt.Sprintf("on %s:", name)))
		if s.Result == nil {
			p.Sentence(output.Bad("not known: " + s.Error))
			continue
		}
		s.Result.hops(p)
		if i == len(j.Stages)-1 {
			s.Result.end(p)
		}
	}
}
