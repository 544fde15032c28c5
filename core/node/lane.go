package node

import (
	"errors"
	"fmt"
	"time"

	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/driver"
)

// LaneID names one part of the host. Every lane has its own driver, pace,
// backoff and reasons not to be ready.
type LaneID uint8

// The lanes. A further one is added here and in newLanes.
const (
	HostLane     LaneID = iota // the kernel's network tables and settings
	FirewallLane               // the chains of nftables and iptables
	LaneCount                  // how many lanes there are
)

// String returns the lane's name in lower case.
func (id LaneID) String() string {
	return [...]string{"host", "firewall"}[id]
}

// eager is how many plans in a row are tried without a pause.
const eager = 3

// lane is the loop that keeps one part of the host as desired: look, compare,
// change, and look again to see what the change led to.
type lane struct {
	id   LaneID
	part part

	busy     bool           // a look or a plan is under way
	plan     []dataplane.Op // the plan under way
	fresh    bool           // the last look came after the last change and is not yet compared
	retry    bool           // the plan only tries again what was refused before
	clean    bool           // the last comparison found no difference, or only what is tried again
	lookDue  time.Time      // when to look next; zero: no look is due
	lastLook time.Time      // when the last look ended
	lookErr  error          // why the last look failed
	failures []error        // of the last plan
	attempts int            // plans and looks in a row that did not lead to an empty diff
	pauses   int            // attempts in a row that were followed by a pause
}

// part is what makes one lane different from the others.
type part interface {
	pace() pace
	kinds() kinds

	// follow takes in what has changed outside the lane. It returns false while
	// the node knows too little to look at this part of the host.
	follow() bool
	// watches reports whether there is a reason to look from time to time.
	watches() bool
	// look returns what the next look has to read.
	look() Look
	// take stores the result of a successful look.
	take(Looked)
	// compare returns the ops that close the difference between the last look
	// and the desired state. It returns false while the node knows too little
	// to desire anything.
	compare() (plan []dataplane.Op, ok bool)
	// retries reports whether a plan only tries again what the kernel refused
	// before and the part can do without. Such a plan is no sign of trouble.
	retries(plan []dataplane.Op) bool
	// failed returns how a failed op is reported, or nil if it is no failure.
	failed(op dataplane.Op, err error) error
	// describe returns a plan as the text of one log line.
	describe(plan []dataplane.Op) string
	// settled is called when a comparison found no difference. It returns the
	// text to log if there was one before.
	settled() string
	// reasons lists why this part keeps the node from being ready.
	reasons() []string
}

// pace says how often a lane looks and tries again.
type pace struct {
	every   time.Duration // from one look to the next without a hint, give or take a fifth
	hintGap time.Duration // least time between two looks that hints asked for
	most    time.Duration // longest pause after a failure
	insists bool          // plans that failed are also tried again without a pause
}

// kinds are the events that a lane logs, still without their texts.
type kinds struct{ lookFailed, applied, failed, clean Event }

func newLanes(n *Node) [LaneCount]*lane {
	return [LaneCount]*lane{
		HostLane:     {id: HostLane, part: hostPart{n}},
		FirewallLane: {id: FirewallLane, part: firewallPart{n}},
	}
}

// lookBy moves the next look forward to at. It never moves a look back.
func (l *lane) lookBy(at time.Time) {
	if l.lookDue.IsZero() || at.Before(l.lookDue) {
		l.lookDue = at
	}
}

// restart begins with a new aim: the attempts so far were for another one.
func (l *lane) restart() { l.attempts, l.pauses = 0, 0 }

// absorbLane records what happened in a lane; it decides nothing.
func (n *Node) absorbLane(l *lane, in LaneInput) {
	if in.Hint {
		n.hinted(l)
	}
	if in.Looked != nil {
		n.finishedLook(l, *in.Looked)
	}
	if in.Applied != nil {
		n.finishedPlan(l, *in.Applied)
	}
}

// hinted schedules a look one debounce from now, or later if the last look was
// just now: a busy host changes all the time, and every look has its price.
// However many hints follow, the look stays due when the first one put it.
func (n *Node) hinted(l *lane) {
	at := n.now.Add(n.opts.Debounce)
	if gap := l.lastLook.Add(l.part.pace().hintGap); gap.After(at) {
		at = gap
	}
	l.lookBy(at)
}

func (n *Node) finishedLook(l *lane, looked Looked) {
	kind := l.part.kinds().lookFailed
	l.busy, l.lastLook = false, n.now
	l.lookErr = looked.Err
	if looked.Err != nil {
		n.once(kind.Level, kind.Kind, looked.Err.Error())
		l.clean = false
		l.attempts++
		l.lookBy(n.now.Add(n.pause(l)))
		return
	}
	delete(n.said, kind.Kind)
	l.fresh = true
	l.part.take(looked)
	l.lookBy(n.now.Add(n.jitter(l.part.pace().every)))
}

// pause returns how long to wait after a failure: longer each time.
func (n *Node) pause(l *lane) time.Duration {
	l.pauses++
	most := l.part.pace().most
	return min(n.backoff(l.pauses, n.opts.Debounce, most), most)
}

// followLane looks when a look is due and closes the difference it shows. A
// plan is made only from what was just read, never from memory.
func (n *Node) followLane(l *lane) {
	if n.effects.Exit != nil || l.busy || !l.part.follow() {
		return
	}
	if l.fresh {
		n.reconcile(l)
	}
	if !l.busy && l.part.watches() && !n.now.Before(l.lookDue) {
		look := l.part.look()
		l.busy, l.fresh, l.lookDue = true, false, time.Time{}
		n.effects.Lanes[l.id].Look = &look
	}
}

func (n *Node) reconcile(l *lane) {
	plan, ok := l.part.compare()
	if !ok {
		return
	}
	l.fresh, l.retry = false, len(plan) > 0 && l.part.retries(plan)
	l.clean = len(plan) == 0 || l.retry
	if len(plan) > 0 {
		l.busy, l.plan = true, plan
		n.effects.Lanes[l.id].Plan = plan
		return
	}
	text := l.part.settled()
	if l.attempts > 0 {
		clean := l.part.kinds().clean
		n.event(clean.Level, clean.Kind, text)
	}
	l.restart()
	l.failures = nil
	delete(n.said, l.part.kinds().failed.Kind)
}

// finishedPlan notes the failures, and looks again at once to see what the plan
// led to. Deleting an object that is already gone is a success.
func (n *Node) finishedPlan(l *lane, applied Applied) {
	l.failures = nil
	var done []dataplane.Op // and failed; without what the part can do without
	for i, err := range applied.Errs {
		op := l.plan[i]
		if err == nil || op.Verb == dataplane.Delete && errors.Is(err, driver.ErrNotFound) {
			done = append(done, op)
			continue
		}
		if failure := l.part.failed(op, err); failure != nil {
			l.failures = append(l.failures, failure)
			done = append(done, op)
		}
	}
	if len(done) > 0 {
		n.reportPlan(l, done)
	}
	l.busy, l.plan = false, nil
	if l.retry && len(l.failures) == 0 {
		l.lookDue = n.now
		return
	}
	l.attempts++
	if l.attempts <= eager && (len(l.failures) == 0 || l.part.pace().insists) {
		l.lookDue = n.now
		return
	}
	l.lookDue = n.now.Add(n.pause(l))
}

// reportPlan logs one line for each plan, with the first of its failures.
func (n *Node) reportPlan(l *lane, plan []dataplane.Op) {
	text, kinds := l.part.describe(plan), l.part.kinds()
	if len(l.failures) == 0 {
		n.event(kinds.applied.Level, kinds.applied.Kind, text)
		return
	}
	text = fmt.Sprintf("%s; %d failed, first: %v", text, len(l.failures), l.failures[0])
	n.once(kinds.failed.Level, kinds.failed.Kind, text)
}
