package node

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/flanneld/flannel/core/config"
	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/driver"
	"github.com/flanneld/flannel/core/firewall"
	"github.com/flanneld/flannel/core/lease"
	"github.com/flanneld/flannel/core/reconcile"
)

// ruleGap is the least time between two looks at the packet filter that hints
// asked for: where services come and go, others change rules all the time.
const ruleGap = time.Second

// wallState is what the firewall told, and what is under way there. It has a
// loop of its own beside the host's, since a packet filter may be locked by
// somebody else and routes shall not wait for it.
type wallState struct {
	facts driver.FirewallFacts
	have  *dataplane.State
	fresh bool // have was read after the last change and not yet compared
	clean bool // the last diff was empty

	busy     bool // an Inspect or a set of Chains is under way
	plan     []dataplane.Op
	lookDue  time.Time
	lastLook time.Time
	attempts int // in a row that did not lead to an empty diff
	lookErr  error
	problems []error  // why the wanted chains cannot be made, or do not help
	notes    []string // that may matter to an operator
	failures []error  // of the last plan

	aim aim // what the last comparison was with
}

// aim is all that the wanted chains depend on beside the host.
type aim struct {
	net config.Network
	own lease.Key
}

func (a aim) same(b aim) bool {
	return a.own == b.own && a.net.V4 == b.net.V4 && a.net.V6 == b.net.V6 && a.net.EnableNFTables == b.net.EnableNFTables
}

func (n *Node) absorbFirewall(in Input) {
	w := &n.wall
	if in.FirewallHint {
		at := n.now.Add(n.opts.Debounce)
		if gap := w.lastLook.Add(ruleGap); gap.After(at) {
			at = gap
		}
		w.lookBy(at)
	}
	if in.Inspected != nil {
		n.inspected(*in.Inspected)
	}
	if in.ChainsApplied != nil {
		n.appliedChains(*in.ChainsApplied)
	}
}

func (w *wallState) lookBy(at time.Time) {
	if w.lookDue.IsZero() || at.Before(w.lookDue) {
		w.lookDue = at
	}
}

func (n *Node) inspected(i Inspected) {
	w := &n.wall
	w.busy, w.lastLook = false, n.now
	if w.lookErr = i.Err; i.Err != nil {
		w.clean = false
		w.attempts++
		n.once(Error, "firewall-look-failed", i.Err.Error())
		w.lookBy(n.now.Add(n.ruleBackoff()))
		return
	}
	delete(n.said, "firewall-look-failed")
	w.facts, w.have, w.fresh = i.Facts, i.Have, true
	// A fifth at most is taken off, so that it is never later than promised.
	w.lookBy(n.now.Add(n.jitter(n.opts.Rules * 5 / 6)))
}

// ruleBackoff is the pause after a failure: with rules to keep, never longer
// than from look to look.
func (n *Node) ruleBackoff() time.Duration {
	most := n.opts.Rules
	if !n.opts.Firewall.Any() {
		most = n.opts.Resync
	}
	return min(n.backoff(n.wall.attempts, n.opts.Debounce, most), most)
}

// guards reports whether there is a reason to look at the packet filter. With
// nothing to want, there is none once nothing was found to take away either.
func (n *Node) guards() bool { return n.opts.Firewall.Any() || !n.wall.clean }

// followFirewall looks at the packet filter when a look is due, and closes the
// difference it shows.
func (n *Node) followFirewall() {
	w := &n.wall
	if n.ready.Exit != nil || w.busy || !n.network.known || !n.lease.self.Key.IsValid() {
		return
	}
	a := aim{n.network.config, n.lease.self.Key}
	if !a.same(w.aim) {
		w.aim, w.fresh, w.clean, w.attempts = a, false, false, 0
		w.lookDue = n.now
	}
	if w.fresh {
		n.reconcileChains()
	}
	if !w.busy && !n.now.Before(w.lookDue) && n.guards() {
		w.busy, w.lookDue = true, time.Time{}
		n.ready.Inspect = true
	}
}

func (n *Node) reconcileChains() {
	w := &n.wall
	wanted := firewall.Render(n.opts.Firewall, w.aim.net, w.aim.own, w.facts)
	if w.notes = wanted.Notes; len(w.notes) > 0 {
		n.once(Info, "firewall-note", strings.Join(w.notes, "; "))
	} else {
		delete(n.said, "firewall-note")
	}
	if w.problems = wanted.Problems; len(w.problems) > 0 {
		n.once(Error, "firewall-problem", errors.Join(w.problems...).Error())
	} else {
		delete(n.said, "firewall-problem")
	}
	plan := reconcile.Chains(wanted.Chains, w.have)
	w.fresh, w.have = false, nil
	if w.clean = len(plan) == 0; w.clean {
		if w.attempts > 0 {
			n.event(Info, "firewall", fmt.Sprintf("the rules are as they should be: %d chains", wanted.Chains.Len()))
		}
		w.attempts, w.failures = 0, nil
		delete(n.said, "firewall-failed")
		return
	}
	w.busy, w.plan = true, plan
	n.ready.Chains = plan
}

// appliedChains notes what failed, and looks again to see what it led to.
func (n *Node) appliedChains(a Applied) {
	w := &n.wall
	w.failures = nil
	for i, err := range a.Errs {
		if op := w.plan[i]; err != nil && !(op.Verb == dataplane.Delete && errors.Is(err, driver.ErrNotFound)) {
			w.failures = append(w.failures, fmt.Errorf("%s: %w", nameChain(op), err))
		}
	}
	n.reportChains(w.plan)
	w.busy, w.plan = false, nil
	if w.attempts++; w.attempts <= eager && len(w.failures) == 0 {
		w.lookDue = n.now
		return
	}
	w.lookDue = n.now.Add(n.ruleBackoff())
}

func (n *Node) reportChains(plan []dataplane.Op) {
	names := make([]string, len(plan))
	for i, op := range plan {
		names[i] = nameChain(op)
	}
	text := strings.Join(names, ", ")
	if failures := n.wall.failures; len(failures) > 0 {
		n.once(Error, "firewall-failed", fmt.Sprintf("%s; %d failed, first: %v", text, len(failures), failures[0]))
		return
	}
	n.event(Info, "firewall-applied", text)
}

// nameChain says which chain an op is about, without its rules.
func nameChain(op dataplane.Op) string {
	return fmt.Sprintf("%s %s", op.Verb, op.Object.(dataplane.Chain).ChainKey)
}

// firewallReasons say what keeps the node from being ready, of the firewall.
func (n *Node) firewallReasons() (rs []string) {
	w := &n.wall
	if !n.opts.Firewall.Any() {
		return nil // what could not be taken away keeps no pod from the network
	}
	for _, p := range w.problems {
		rs = append(rs, fmt.Sprintf("firewall: %v", p))
	}
	if w.lookErr != nil {
		rs = append(rs, fmt.Sprintf("firewall: cannot read its rules: %v", w.lookErr))
	}
	for _, f := range w.failures {
		rs = append(rs, fmt.Sprintf("firewall: %v", f))
	}
	if n.lease.self.Key.IsValid() && !w.clean && len(rs) == 0 {
		rs = append(rs, "firewall: the rules are not yet as they should be")
	}
	return rs
}
