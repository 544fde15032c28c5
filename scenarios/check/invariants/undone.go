package invariants

import (
	"slices"
	"time"

	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/node"
)

// What a node may do within a minute while another program undoes its repairs: it makes few at once, is not ready
// then, and pauses.
const (
	undoneReady = 8  // equal ops after which it must not be ready
	undoneMost  = 25 // equal ops at most
)

// undone follows the ops of a node while another program undoes them.
type undone struct {
	rivals int // programs that do so
	begun  map[string][]time.Duration
}

// SetRival notes that a program begins to do the same on the node's host again and again, or ends.
func (n *Node) SetRival(on bool) {
	if on {
		n.undone.rivals++
		return
	}
	n.undone.rivals--
	n.undone.begun = nil
}

// checkUndone checks the plans that a node begins while another program undoes them.
func (n *Node) checkUndone(lanes [node.LaneCount]node.LaneEffects, ready bool) {
	u, now := &n.undone, n.all.elapsed()
	if u.rivals == 0 {
		return
	}
	if u.begun == nil {
		u.begun = map[string][]time.Duration{}
	}
	for _, lane := range lanes {
		for _, op := range lane.Plan {
			n.countUndone(op, now, ready)
		}
	}
}

func (n *Node) countUndone(op dataplane.Op, now time.Duration, ready bool) {
	key := op.String()
	times := slices.DeleteFunc(n.undone.begun[key], func(at time.Duration) bool { return now-at > time.Minute })
	times = append(times, now)
	n.undone.begun[key] = times
	switch {
	case len(times) >= undoneReady && ready:
		n.all.broken("undone-is-named", "%s is ready, though it has to do %q for the %dth time in a minute",
			n.name, op, len(times))
	case len(times) > undoneMost:
		n.all.broken("undone-is-named", "%s did %q %d times in a minute, though another program undoes it each time",
			n.name, op, len(times))
	}
}
