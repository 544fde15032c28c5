package kernel

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/flanneld/flannel/drivers/sim/world"
)

// heldBack is how late a frame arrives that others shall overtake.
const heldBack = 20 * time.Millisecond

// Deny lets the wire hand none of a host's packets to its link, by whatever
// way they come, or ends that. The other direction is not touched: with one
// such rule a partition is one-way, with two it is whole.
func (w *Wire) Deny(from *Host, on bool) {
	w.deny = slices.DeleteFunc(w.deny, func(s *stack) bool { return s == from.stack })
	if on {
		w.deny = append(w.deny, from.stack)
	}
	w.segment.world.Note(w.name+": deny", from.name)
}

// denies reports whether a frame from another wire is not handed on: it was
// sent by a host that is denied, or carries the address of one.
func (w *Wire) denies(from *Wire, frame []byte) bool {
	if len(w.deny) == 0 {
		return false
	}
	h, _, err := parseIP(frame[etherLen:])
	return slices.ContainsFunc(w.deny, func(s *stack) bool {
		return from.link.stack == s || err == nil && s.isLocal(h.src)
	})
}

// disturb draws how much longer a frame takes and how often it comes again.
// Nothing is drawn for what cannot happen.
func (w *Wire) disturb() (delay time.Duration, again int) {
	if w.Jitter == 0 && w.Reorder == 0 && w.Duplicate == 0 {
		return 0, 0
	}
	rng := w.chance()
	delay = world.UpTo(rng, w.Jitter)
	if world.Chance(rng, w.Reorder) {
		delay += heldBack
	}
	if world.Chance(rng, w.Duplicate) {
		again = 1
	}
	return delay, again
}

func (w *Wire) chance() *rand.Rand { return w.segment.world.Rand(w.name + "/disturb") }
