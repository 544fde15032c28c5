package node

import (
	"slices"
	"time"

	"github.com/flanneld/flannel/core/dataplane"
)

// cause is the reason of a look.
type cause uint8

// The causes.
const (
	causeStart  cause = iota // the process has begun
	causeHint                // the driver hinted
	causeResync              // the time of a full look has come
	causeChange              // the desired state may have changed
	causePlan                // a plan has ended
	causeRetry               // a look, a plan or an object failed before
	causes                   // the number of causes
)

var causeNames = [causes]string{"start", "hint", "resync", "change", "plan", "retry"}

// Work counts what a lane has done since the process began. Times are in
// nanoseconds.
type Work struct {
	Looks       map[string]uint64 `json:"Looks"`       // by cause: start, hint, resync, change, plan, retry
	FailedLooks uint64            `json:"FailedLooks"` // looks that read nothing
	LookTime    time.Duration     `json:"LookTime"`    // of all looks
	LastLook    time.Time         `json:"LastLook"`    // end of the last look; zero: none yet
	Plans       uint64            `json:"Plans"`       // sets of changes
	PlanTime    time.Duration     `json:"PlanTime"`    // of all plans
	Changes     uint64            `json:"Changes"`     // objects changed
	FailedOps   uint64            `json:"FailedOps"`   // changes that the host refused
	// Repairs are those of the Changes that undid what another program, or the kernel,
	// had done: by kind of object and verb. It holds every kind that the lane has changed, so
	// that a first repair is a step from 0 and not a number out of nothing.
	Repairs map[string]map[string]uint64 `json:"Repairs"`
}

// Repair is a plan that restored the desired state after another program, or the
// kernel, had changed the host.
type Repair struct {
	At      time.Time `json:"At"`
	Lane    string    `json:"Lane"`
	Changes int       `json:"Changes"` // objects restored
	Text    string    `json:"Text"`    // what was done
}

// mostRepairs is the number of repairs that a node remembers.
const mostRepairs = 10

// tally is the running count of a lane's work.
type tally struct {
	looks              [causes]uint64
	failedLooks        uint64
	plans              uint64
	changes, failedOps uint64
	lookTime, planTime time.Duration
	repairs            map[string]*[verbs]uint64 // by kind of object
	began              time.Time                 // of the look or plan under way
}

// verbs is the length of an array that a verb indexes.
const verbs = dataplane.Delete + 1

// looked counts the end of a look.
func (t *tally) looked(now time.Time, err error) {
	t.lookTime += now.Sub(t.began)
	if err != nil {
		t.failedLooks++
	}
}

// applied counts the end of a plan, of which these ops were done and so many failed.
func (t *tally) applied(now time.Time, done []dataplane.Op, failed int) {
	t.plans++
	t.planTime += now.Sub(t.began)
	t.changes += uint64(len(done))
	t.failedOps += uint64(failed)
	for _, op := range done {
		t.know(dataplane.Word(op.Object))
	}
}

// know makes the counts of a kind of objects begin at 0.
func (t *tally) know(kind string) {
	if t.repairs == nil {
		t.repairs = map[string]*[verbs]uint64{}
	}
	if t.repairs[kind] == nil {
		t.repairs[kind] = new([verbs]uint64)
	}
}

// repaired counts objects that were restored by ops that applied has seen.
func (t *tally) repaired(ops []dataplane.Op) {
	for _, op := range ops {
		t.repairs[dataplane.Word(op.Object)][op.Verb]++
	}
}

// work returns the counts so far.
func (t *tally) work() Work {
	w := Work{
		Looks: map[string]uint64{}, LookTime: t.lookTime, FailedLooks: t.failedLooks,
		Plans: t.plans, PlanTime: t.planTime, Changes: t.changes, FailedOps: t.failedOps,
		Repairs: map[string]map[string]uint64{},
	}
	for c, number := range t.looks {
		w.Looks[causeNames[c]] = number
	}
	for kind, of := range t.repairs {
		w.Repairs[kind] = map[string]uint64{}
		for verb := dataplane.Create; verb < verbs; verb++ {
			w.Repairs[kind][verb.String()] = of[verb]
		}
	}
	return w
}

// remember adds a repair to those that the status lists, newest first.
func (n *Node) remember(r Repair) {
	n.repairs = slices.Insert(n.repairs, 0, r)
	n.repairs = n.repairs[:min(len(n.repairs), mostRepairs)]
}
