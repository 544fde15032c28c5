package node

import (
	"slices"
	"strings"
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
	// had done: by kind of object and verb.
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
	repairs            map[repaired]uint64
	began              time.Time // of the look or plan under way
}

// repaired is a kind of objects, and the verb that restored one of them.
type repaired struct {
	kind string
	verb dataplane.Verb
}

// looked counts the end of a look.
func (t *tally) looked(now time.Time, err error) {
	t.lookTime += now.Sub(t.began)
	if err != nil {
		t.failedLooks++
	}
}

// applied counts the end of a plan with these results.
func (t *tally) applied(now time.Time, done, failed int) {
	t.plans++
	t.planTime += now.Sub(t.began)
	t.changes += uint64(done)
	t.failedOps += uint64(failed)
}

// repaired counts objects that were restored.
func (t *tally) repaired(ops []dataplane.Op) {
	if t.repairs == nil {
		t.repairs = map[repaired]uint64{}
	}
	for _, op := range ops {
		kind, _, _ := strings.Cut(op.Object.String(), " ")
		t.repairs[repaired{kind, op.Verb}]++
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
	for r, number := range t.repairs {
		if w.Repairs[r.kind] == nil {
			w.Repairs[r.kind] = map[string]uint64{}
		}
		w.Repairs[r.kind][r.verb.String()] = number
	}
	return w
}

// remember adds a repair to those that the status lists, newest first.
func (n *Node) remember(r Repair) {
	n.repairs = slices.Insert(n.repairs, 0, r)
	n.repairs = n.repairs[:min(len(n.repairs), mostRepairs)]
}
