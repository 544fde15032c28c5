package node

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/flanneld/flannel/core/backend"
	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/driver"
	"github.com/flanneld/flannel/core/reconcile"
)

// ikeEvery is the time between two looks at the IKE daemon without a hint.
const ikeEvery = 10 * time.Second

// The pauses before the node asks the IKE daemon again for tunnels that it lacks.
// The daemon itself tries forever to reach a peer, but it may not start a tunnel
// again that has ended.
const (
	tunnelFirst = 10 * time.Second
	tunnelMost  = 5 * time.Minute
)

// ikeState holds the last look at the IKE daemon.
type ikeState struct {
	have     *dataplane.State
	aim      *dataplane.State // of the last comparison
	attempts int              // to get tunnels and remove former keys, in a row
	at       time.Time        // of the next attempt; zero: there is nothing to try
}

// ikePart is the lane of the IKE daemon: the process, its keys and connections. A
// missing tunnel is a problem of its peer and keeps no node from being ready.
type ikePart struct{ n *Node }

func (p ikePart) lane() *lane { return p.n.lanes[IKELane] }

func (p ikePart) pace() pace {
	return pace{every: ikeEvery, hintGap: hintGap, most: p.n.opts.Resync}
}

// needed reports whether an IKE daemon is desired.
func (p ikePart) needed() bool {
	aim := p.n.host.want.state
	return aim != nil && len(aim.IKE) > 0
}

// watches returns false if no IKE daemon is desired and none is left to end.
func (p ikePart) watches() bool { return p.needed() || !p.lane().clean || p.remains() }

// remains reports whether the last look found an IKE daemon. Its end may have been withheld, since the
// desired state was not rendered from the newest records.
func (p ikePart) remains() bool { return p.n.ike.have != nil && len(p.n.ike.have.IKE) > 0 }

// follow waits for the first rendering of the host. A daemon begins without an IKE
// daemon, so there is none to end before a config has asked for one.
func (p ikePart) follow() bool {
	n := p.n
	aim := n.host.want.state
	if aim == nil || !p.needed() && n.ike.have == nil {
		return false
	}
	if aim != n.ike.aim {
		n.ike.aim = aim
		n.ike.attempts, n.ike.at = 0, time.Time{}
		p.lane().retarget(n.now)
	}
	return true
}

func (p ikePart) look() Look {
	return Look{Extent: dataplane.Extent{Passphrase: p.n.transition.Set().Extent().Passphrase}}
}

func (p ikePart) take(looked Looked) { p.n.ike.have = looked.Seen.State }

func (p ikePart) tables() (want, have *dataplane.State) { return nil, p.n.ike.have }

func (p ikePart) compare() ([]dataplane.Op, bool) {
	n := p.n
	opts := reconcile.Options{
		Own:   reconcile.Ownership{Networks: n.host.networks, Addr: n.host.uplink.IP},
		Prune: n.renderedLast(),
	}
	plan := reconcile.IKE(n.ike.aim, n.ike.have, opts)
	if len(plan.Ops) > 0 {
		return plan.Ops, true
	}
	return p.tryAgain(slices.Concat(reconcile.MissingTunnels(n.ike.aim, n.ike.have),
		reconcile.FormerKeys(n.ike.aim, n.ike.have, opts))), true
}

// tryAgain returns the ops that ask for missing tunnels and remove former keys, if they are due.
func (p ikePart) tryAgain(ops []dataplane.Op) []dataplane.Op {
	n, s := p.n, &p.n.ike
	if len(ops) == 0 {
		s.attempts, s.at = 0, time.Time{}
		return nil
	}
	due := !s.at.IsZero() && !n.now.Before(s.at)
	if s.at.IsZero() || due {
		s.at = n.now.Add(n.backoff(s.attempts, tunnelFirst, tunnelMost))
		s.attempts++
	}
	p.lane().lookBy(s.at, causeRetry)
	if !due {
		return nil
	}
	return ops
}

// retries reports whether a plan only asks for tunnels, and removes keys that no packet uses.
func (ikePart) retries(plan []dataplane.Op) bool {
	return !slices.ContainsFunc(plan, func(op dataplane.Op) bool {
		switch op.Object.(type) {
		case dataplane.Tunnel:
			return op.Verb == dataplane.Delete
		case dataplane.FormerKey:
			return false
		}
		return true
	})
}

// failed ignores three kinds of failures. The status names the peers whose tunnels are
// missing. A daemon that does not run has no keys and connections: its own op says why. Former keys harm nothing, and
// expire.
func (ikePart) failed(op dataplane.Op, err error) error {
	switch op.Object.(type) {
	case dataplane.Tunnel:
		if op.Verb == dataplane.Create {
			return nil
		}
	case dataplane.FormerKey:
		return nil
	case dataplane.SharedKey, dataplane.Conn:
		if errors.Is(err, driver.ErrNotFound) {
			return nil
		}
	}
	return fmt.Errorf("%s: %w", op, err)
}

func (ikePart) describe(plan []dataplane.Op) string {
	if len(plan) == 1 {
		return plan[0].String()
	}
	return fmt.Sprintf("%s and %d more", plan[0], len(plan)-1)
}

func (p ikePart) settled() string {
	have := p.n.ike.have
	if !p.needed() && !p.remains() {
		p.n.ike = ikeState{aim: p.n.ike.aim}
	}
	return fmt.Sprintf("the IKE daemon is as desired: %d connections, %d tunnels", have.Conns.Len(), have.Tunnels.Len())
}

// stop ends the IKE daemon in order: it removes its keys and tells the peers.
func (p ikePart) stop() []dataplane.Op {
	if p.n.ike.have == nil {
		return nil
	}
	daemon, runs := p.n.ike.have.IKE[dataplane.Charon]
	if !runs {
		return nil
	}
	return []dataplane.Op{{Verb: dataplane.Delete, Object: daemon}}
}

func (p ikePart) reasons() []string {
	if !p.needed() {
		return nil
	}
	return p.lane().troubles("the IKE daemon", "the IKE daemon is not yet as desired")
}

// missingTunnels returns the peers without a tunnel, and what their tunnels need.
func (n *Node) missingTunnels() []backend.Problem {
	if n.ike.have == nil || n.ike.aim == nil {
		return nil
	}
	var problems []backend.Problem
	for _, op := range reconcile.MissingTunnels(n.ike.aim, n.ike.have) {
		c := op.Object.(dataplane.Tunnel).ConnKey
		if p, ok := n.peerOf(c.RemoteNet); ok {
			problems = append(problems, backend.Problem{Key: p.Key, Err: fmt.Errorf(
				"no tunnel to %s yet; IKE needs UDP 500 and 4500, ESP protocol 50", c.Remote)})
		}
	}
	return problems
}
