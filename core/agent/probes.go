package agent

import (
	"sync"

	"github.com/flanneld/flannel/core/node"
	"github.com/flanneld/flannel/core/probe"
	"github.com/flanneld/flannel/internal/wake"
)

// probing sends the node's probes and collects the answers until the next turn. Unlike
// other effects, many probes may be under way, and nothing waits for their end.
type probing struct {
	sender   probe.Sender
	answered wake.Signal // there are answers

	mu      sync.Mutex
	answers []probe.Answer
}

func newProbing(sender probe.Sender) *probing {
	return &probing{sender: sender, answered: wake.NewSignal()}
}

// start sends probes.
func (p *probing) start(requests []probe.Request) {
	for _, r := range requests {
		if p.sender == nil {
			p.done(probe.Answer{ID: r.ID, Unable: "this program sends no probes"})
			continue
		}
		p.sender.Send(r, p.done)
	}
}

// done records an answer. Any goroutine may call it.
func (p *probing) done(a probe.Answer) {
	p.mu.Lock()
	p.answers = append(p.answers, a)
	p.mu.Unlock()
	p.answered.Send()
}

// take adds the answers since the last call to the input.
func (p *probing) take(in *node.Input) {
	p.mu.Lock()
	answers := p.answers
	p.answers = nil
	p.mu.Unlock()
	if in.Probed == nil {
		in.Probed = &node.Probed{}
	}
	in.Probed.Answers = append(in.Probed.Answers, answers...)
	if p.sender != nil {
		heard, listens := p.sender.Heard()
		in.Probed.Heard = append(in.Probed.Heard, heard...)
		in.Probed.Listens = listens
	}
}
