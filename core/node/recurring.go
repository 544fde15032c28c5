package node

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"io"
	"slices"
	"time"

	"github.com/flanneld/flannel/core/dataplane"
)

// The first of equal repairs are logged one by one, and the further ones once in a while, until
// none has come for that long. A lane knows the last few of different ones.
const (
	recurringEach  = 5
	recurringEvery = time.Minute
	recurringKinds = 8
)

// recurring are the repairs of a lane that another program may undo each time, such as a second
// flanneld with other options. A line for each would fill the log, and take the place of all other
// events that the daemon remembers.
type recurring struct {
	of     []repeated
	silent bool // the last repair has no line
}

// repeated are equal repairs.
type repeated struct {
	plan  uint64 // the hash of the ops
	times int    // without a quiet time between two
	last  time.Time
	told  time.Time // the last line about them
}

// hashOf returns a hash of what a plan does.
func hashOf(plan []dataplane.Op) uint64 {
	h := fnv.New64a()
	for _, op := range plan {
		_, _ = io.WriteString(h, op.String()+"\n")
	}
	return h.Sum64()
}

// again counts a repair, and returns those that are equal to it.
func (r *recurring) again(now time.Time, plan uint64) *repeated {
	r.of = slices.DeleteFunc(r.of, func(s repeated) bool { return now.Sub(s.last) > recurringEvery })
	i := slices.IndexFunc(r.of, func(s repeated) bool { return s.plan == plan })
	if i < 0 {
		if len(r.of) == recurringKinds {
			oldest := slices.MinFunc(r.of, func(a, b repeated) int { return cmp.Compare(a.last.UnixNano(), b.last.UnixNano()) })
			r.of = slices.DeleteFunc(r.of, func(s repeated) bool { return s == oldest })
		}
		i = len(r.of)
		r.of = append(r.of, repeated{plan: plan})
	}
	r.of[i].times++
	r.of[i].last = now
	return &r.of[i]
}

// reportRepair logs a repair, unless equal ones have come too often.
func (n *Node) reportRepair(l *lane, plan []dataplane.Op, text string) {
	r := l.recurring.again(n.now, hashOf(plan))
	switch {
	case r.times <= recurringEach:
		n.event(Info, l.logs.applied, text)
	case r.times == recurringEach+1 || n.now.Sub(r.told) >= recurringEvery:
		n.event(Warning, "repairs-undone", fmt.Sprintf("%s: for the %dth time; another program, such as a second flanneld "+
			"on this host, undoes this again and again: stop it. Until then a line comes once a minute", text, r.times))
	default:
		l.recurring.silent = true
		return
	}
	r.told = n.now
}
