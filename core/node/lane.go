package node

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/flanneld/flannel/core/command"
	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/driver"
)

// LaneID names one part of the host. Every lane has its own driver, pace,
// backoff and reasons why the node is not ready.
type LaneID uint8

// The lanes. Add a new lane here, in laneNames, laneKinds and newLanes.
const (
	HostLane     LaneID = iota // the kernel's network tables and settings
	FirewallLane               // the chains of nftables and iptables
	CommandsLane               // the record of the operator's commands
	IKELane                    // the IKE daemon of IPsec, its keys and connections
	CloudLane                  // the route tables of a cloud provider
	LaneCount                  // the number of lanes
)

var laneNames = [LaneCount]string{
	HostLane: "host", FirewallLane: "firewall", CommandsLane: "commands", IKELane: "ike", CloudLane: "cloud",
}

// String returns the lane's name in lower case.
func (id LaneID) String() string { return laneNames[id] }

// eager is the number of plans in a row that a lane tries without a pause.
const eager = 3

// lane is the loop that keeps one part of the host as desired: look, compare,
// change, and look again to see the effect of the change.
type lane struct {
	id   LaneID
	part part
	logs kinds

	busy     bool           // a look or a plan is under way
	plan     []dataplane.Op // the plan under way
	fresh    bool           // the last look came after the last change and is not yet compared
	stopped  bool           // the last plan before an orderly end has begun
	retry    bool           // the plan only retries refused objects
	retried  bool           // the plan follows such a one, and removes the other objects of a peer
	clean    bool           // the last comparison found no difference except refused objects
	repairs  bool           // the plans undo changes that another program made
	found    []dataplane.Op // the difference that the last comparison found
	lookDue  time.Time      // time of the next look; zero: no look is due
	cause    cause          // of the next look
	hinted   bool           // the driver has hinted since the last whole look began
	whole    bool           // the look under way reads everything
	resync   time.Time      // of the next whole look that needs no hint
	lastLook time.Time      // end of the last look
	prompted time.Time      // time of the last look that news asked for after a quiet time
	lookErr  error          // why the last look failed
	failures []error        // of the last plan
	attempts int            // plans and looks in a row that did not lead to an empty diff
	pauses   int            // attempts in a row with a pause after them
	tally    tally

	contests contests
}

// part holds the differences between the lanes.
type part interface {
	pace() pace

	// follow takes in changes from outside the lane. It returns false while the
	// node knows too little to look at this part of the host.
	follow() bool
	// watches reports whether there is a reason to look from time to time.
	watches() bool
	// look returns the extent of the next look.
	look() Look
	// take stores the result of a successful look.
	take(Looked)
	// compare returns the ops that close the difference between the last look
	// and the desired state. It returns false while the node knows too little
	// to desire anything.
	compare() (plan []dataplane.Op, ok bool)
	// tables returns the desired state of the last comparison, and the state that
	// the last look read. Each is nil while it is not known; want is also nil if it
	// is part of the host's.
	tables() (want, have *dataplane.State)
	// retries reports whether a plan only retries objects that the kernel
	// refused before and that the part does not need. Such a plan is no sign of
	// trouble.
	retries(plan []dataplane.Op) bool
	// failed returns the error to report for a failed op, or nil to report none.
	failed(op dataplane.Op, err error) error
	// describe returns a plan as the text of one log line.
	describe(plan []dataplane.Op) string
	// settled is called when a comparison found no difference. It returns the
	// text to log if there was one before.
	settled() string
	// reasons lists why this part keeps the node from being ready.
	reasons() []string
}

// limiter is a part whose plans have a time limit of their own.
type limiter interface {
	limit(plan []dataplane.Op) time.Duration
}

// quieter is a part some of whose ops need no line in the log when they succeed.
type quieter interface {
	routine(op dataplane.Op) bool
}

// misser is a part for which a delete that found nothing is no proof that the key is free.
type misser interface {
	// missed notes such a delete: the object may have been replaced since the last look.
	missed(op dataplane.Op)
}

// stopper is a part that changes the host when the process ends in order.
type stopper interface {
	// stop returns the ops to perform before the end.
	stop() []dataplane.Op
}

// pace sets the times between looks and between attempts.
type pace struct {
	every   time.Duration // from one look to the next without a hint, give or take a fifth; 0: no look without a reason
	hintGap time.Duration // shortest time between two looks that hints asked for
	first   time.Duration // shortest pause after a failure; 0: the debounce
	most    time.Duration // longest one
	insists bool          // failed plans are also retried without a pause
}

// kinds are the kinds of the events that a lane logs.
type kinds struct{ lookFailed, applied, failed, clean string }

// laneKinds holds the kinds of the events of each lane.
var laneKinds = [LaneCount]kinds{
	HostLane: {lookFailed: "look-failed", applied: "applied", failed: "apply-failed", clean: "programmed"},
	FirewallLane: {
		lookFailed: "firewall-look-failed", applied: "firewall-applied", failed: "firewall-failed", clean: "firewall",
	},
	CommandsLane: {
		lookFailed: "commands-look-failed", applied: "commands-applied", failed: "commands-failed", clean: "commands",
	},
	IKELane:   {lookFailed: "ike-look-failed", applied: "ike-applied", failed: "ike-failed", clean: "ike"},
	CloudLane: {lookFailed: "cloud-look-failed", applied: "cloud-applied", failed: "cloud-failed", clean: "cloud"},
}

func newLanes(n *Node) (lanes [LaneCount]*lane) {
	parts := [LaneCount]part{
		HostLane:     hostPart{n},
		FirewallLane: firewallPart{n},
		CommandsLane: commandsPart{n},
		IKELane:      ikePart{n},
		CloudLane:    cloudPart{n},
	}
	for id, p := range parts {
		lanes[id] = &lane{id: LaneID(id), part: p, logs: laneKinds[id]}
	}
	lanes[IKELane].clean = true // no process of a former run is left
	lanes[CloudLane].clean = true
	return lanes
}

// lookBy moves the next look forward to at. It never moves a look back.
func (l *lane) lookBy(at time.Time, because cause) {
	if l.lookDue.IsZero() || at.Before(l.lookDue) {
		l.lookAt(at, because)
	}
}

// lookAt sets the time of the next look.
func (l *lane) lookAt(at time.Time, because cause) { l.lookDue, l.cause = at, because }

// moved notes that the desired state has changed: another program did not cause the
// differences found from now on.
func (l *lane) moved() { l.clean, l.repairs = false, false }

// waits notes that what the last look showed is not compared yet, and may differ from what
// is desired.
func (l *lane) waits() { l.repairs, l.clean = l.repairs || l.clean, false }

// outdated notes that the last comparison was with another desired state: the
// node is not ready until a look has shown that the host is as desired.
func (l *lane) outdated(now time.Time) {
	l.moved()
	l.lookBy(now, causeChange)
}

// retarget starts over for another desired state. The node compares it only with a
// look that begins after this call.
func (l *lane) retarget(now time.Time) {
	l.restart()
	l.fresh = false
	l.outdated(now)
}

// troubles lists why a lane keeps the node from being ready, besides its part's reasons:
// a failed look, failed ops, or otherwise that it has not finished (unless that is "").
func (l *lane) troubles(unreadable, unfinished string) []string {
	var texts []string
	if l.lookErr != nil {
		texts = append(texts, fmt.Sprintf("%s: cannot read %s: %v", l.id, unreadable, l.lookErr))
	}
	for _, failure := range l.failures {
		text, _ := command.Split(failure)
		texts = append(texts, fmt.Sprintf("%s: %s", l.id, text))
	}
	if !l.clean && len(texts) == 0 && unfinished != "" {
		texts = append(texts, fmt.Sprintf("%s: %s", l.id, unfinished))
	}
	return texts
}

// restart forgets the attempts so far: they were for another desired state.
func (l *lane) restart() { l.attempts, l.pauses = 0, 0 }

// absorbLane records the news of a lane; it decides nothing.
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

// hinted schedules a look soon, or later if the last look was just now: a busy host
// changes all the time, and every look costs time. Later hints do not move the look.
func (n *Node) hinted(l *lane) {
	l.hinted = true
	n.lookSoon(l, l.part.pace().hintGap, causeHint)
}

// prompt is the pause before a look after a quiet time. News that come together, such as the kernel's announcements
// about a device that goes, are one reason to look.
const prompt = 5 * time.Millisecond

// lookSoon schedules a look because of news: promptly after a quiet time, else one debounce from now and a gap after
// the last look, so that one look follows many news. After a prompt look the next one waits one debounce
// longer. So in a storm the node does not look more often than with a debounce before each look.
func (n *Node) lookSoon(l *lane, gap time.Duration, because cause) {
	d := n.opts.Debounce
	pause := max(gap, d) + d // after a prompt look
	early := n.now.Add(min(prompt, d))
	if !l.busy && !early.Before(l.lastLook.Add(pause)) && !early.Before(l.prompted.Add(pause)) {
		l.prompted = early
		l.lookBy(early, because)
		return
	}
	at := n.now.Add(d)
	for _, least := range []time.Time{l.lastLook.Add(gap), l.prompted.Add(pause)} {
		if least.After(at) {
			at = least
		}
	}
	l.lookBy(at, because)
}

func (n *Node) finishedLook(l *lane, looked Looked) {
	l.busy, l.lastLook = false, n.now
	l.lookErr = looked.Err
	l.tally.looked(n.now, looked.Err)
	if looked.Err != nil {
		n.once(Error, l.logs.lookFailed, looked.Err.Error())
		l.clean = false
		l.attempts++
		l.lookBy(n.now.Add(n.pause(l)), causeRetry)
		return
	}
	n.log.Over(l.logs.lookFailed)
	l.fresh = true
	l.part.take(looked)
	if every := l.part.pace().every; every > 0 {
		next := n.now.Add(n.jitter(every))
		if l.whole {
			l.resync = next
		}
		l.lookBy(l.resync, causeResync)
	}
}

// pause returns the time to wait after a failure: longer each time.
func (n *Node) pause(l *lane) time.Duration {
	l.pauses++
	pace := l.part.pace()
	return min(n.backoff(l.pauses, cmp.Or(pace.first, n.opts.Debounce), pace.most), pace.most)
}

// followLane looks when a look is due, and closes the difference it shows. It
// makes every plan from a fresh look, never from memory.
func (n *Node) followLane(l *lane) {
	if n.effects.Exit != nil || l.busy || !l.part.follow() {
		return
	}
	if l.fresh {
		n.reconcile(l)
	}
	due := !l.lookDue.IsZero() && !n.now.Before(l.lookDue)
	if !l.busy && l.part.watches() && due {
		look := l.part.look()
		l.whole = look.Extent.Again == nil
		l.hinted = l.hinted && !l.whole
		l.busy, l.fresh = true, false
		l.lookDue, l.tally.began = time.Time{}, n.now
		l.tally.looks[l.cause]++
		n.effects.Lanes[l.id].Look = &look
	}
}

func (n *Node) reconcile(l *lane) {
	plan, ok := l.part.compare()
	if !ok {
		return
	}
	l.contests.forget(n.now, l.quiet())
	l.retried = l.retry
	l.fresh, l.retry = false, len(plan) > 0 && l.part.retries(plan)
	l.found = plan
	l.repairs = (l.repairs || l.clean) && len(plan) > 0 && !l.retry && !l.retried
	l.clean = len(plan) == 0 || l.retry
	if len(plan) > 0 {
		if now := n.beginnable(l, plan); len(now) > 0 {
			n.begin(l, now)
		}
		return
	}
	if again := l.contests.settle(n.now); !again.IsZero() {
		l.lookBy(again, causeRetry)
	}
	text := l.part.settled()
	if l.attempts > 0 && !l.contests.silent {
		n.event(Info, l.logs.clean, text)
	}
	l.restart()
	l.failures = nil
	n.log.Over(l.logs.failed)
}

// beginnable returns the ops of a plan that may begin now. The lane plans the others again from
// a look at their time.
func (n *Node) beginnable(l *lane, plan []dataplane.Op) []dataplane.Op {
	now, again := n.putOff(l, plan)
	if !again.IsZero() {
		l.lookBy(again, causeRetry)
	}
	return now
}

// begin asks for a plan to be applied.
func (n *Node) begin(l *lane, plan []dataplane.Op) {
	l.busy, l.plan = true, plan
	l.tally.began = n.now
	e := LaneEffects{Plan: plan}
	if p, ok := l.part.(limiter); ok {
		e.PlanLimit = p.limit(plan)
	}
	n.effects.Lanes[l.id] = e
}

// stopLane begins the last plan of a lane. A look under way does not matter any more.
func (n *Node) stopLane(l *lane) {
	p, ok := l.part.(stopper)
	if !ok || l.plan != nil || l.stopped {
		return
	}
	l.stopped = true
	if plan := p.stop(); len(plan) > 0 {
		n.begin(l, plan)
	}
}

// finishedPlan records the failures, and looks again at once to see the effect
// of the plan, at least if it is the first one without a failure. Deleting an object that is already gone is a success.
func (n *Node) finishedPlan(l *lane, applied Applied) {
	recovers := len(l.failures) > 0
	l.failures = nil
	var undone, unsaid []int // indices in the plan
	quiet, _ := l.part.(quieter)
	misses, _ := l.part.(misser)
	for i, err := range applied.Errs {
		op := l.plan[i]
		absent := op.Verb == dataplane.Delete && errors.Is(err, driver.ErrNotFound)
		if absent && misses != nil {
			misses.missed(op)
		}
		if err == nil || absent {
			if quiet != nil && quiet.routine(op) {
				unsaid = append(unsaid, i)
			}
			continue
		}
		undone = append(undone, i)
		if failure := l.part.failed(op, err); failure != nil {
			l.failures = append(l.failures, failure)
		} else { // the part ignores it
			unsaid = append(unsaid, i)
		}
	}
	n.countPlan(l, except(l.plan, undone))
	if said := except(l.plan, unsaid); len(said) > 0 {
		n.reportPlan(l, said)
	}
	l.busy, l.plan = false, nil
	if l.retry && len(l.failures) == 0 {
		l.lookAt(n.now, causePlan)
		return
	}
	l.attempts++
	recovers = recovers && len(l.failures) == 0
	if recovers || l.attempts <= eager && (len(l.failures) == 0 || l.part.pace().insists) {
		l.lookAt(n.now, causePlan)
		return
	}
	l.lookAt(n.now.Add(n.pause(l)), causeRetry)
}

// except returns the ops of a plan without those at some indices, in ascending order. A plan of
// thousands of ops that all succeed is not copied.
func except(plan []dataplane.Op, at []int) []dataplane.Op {
	if len(at) == 0 {
		return plan
	}
	rest := make([]dataplane.Op, 0, len(plan)-len(at))
	from := 0
	for _, i := range at {
		rest = append(rest, plan[from:i]...)
		from = i + 1
	}
	return append(rest, plan[from:]...)
}

// countPlan counts the plan under way, of which these ops succeeded.
func (n *Node) countPlan(l *lane, done []dataplane.Op) {
	l.tally.applied(n.now, done, len(l.plan)-len(done))
	n.noteRepairs(l, done)
	if !l.repairs || len(done) == 0 {
		return
	}
	l.tally.repaired(done)
	n.remember(Repair{At: n.now, Lane: l.id.String(), Changes: len(done), Text: l.part.describe(done)})
}

// reportPlan logs one line for each plan, with the first of its failures.
func (n *Node) reportPlan(l *lane, plan []dataplane.Op) {
	text := l.part.describe(plan)
	l.contests.silent = false
	switch {
	case len(l.failures) > 0:
		first, output := command.Split(l.failures[0])
		n.log.OnceEvent(Event{
			Kind: l.logs.failed, Text: fmt.Sprintf("%s; %d failed, first: %s", text, len(l.failures), first),
			Level: Error, Output: output,
		})
	case l.repairs && l.contests.allUndone(plan):
		l.contests.silent = true // a line for each would fill the log
	default:
		n.event(Info, l.logs.applied, text)
	}
}
