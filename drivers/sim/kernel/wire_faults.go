package kernel

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/flanneld/flannel/drivers/sim/world"
)

// heldBack is how late a reordered frame arrives.
const heldBack = 20 * time.Millisecond

// Deny makes the wire keep all packets of a host from its link, whatever path
// they took, or ends that. It does not affect the other direction: one such rule
// makes a one-way partition, two make a complete one.
func (w *Wire) Deny(from *Host, on bool) {
	w.deny = slices.DeleteFunc(w.deny, func(s *stack) bool { return s == from.stack })
	if on {
		w.deny = append(w.deny, from.stack)
	}
	w.segment.world.Note(w.name+": deny", from.name)
}

// denies reports whether the wire refuses a frame from another wire: a denied
// host sent it, or it carries an address of one.
func (w *Wire) denies(from *Wire, frame []byte) bool {
	if len(w.deny) == 0 {
		return false
	}
	h, _, err := parseIP(frame[etherLen:])
	return slices.ContainsFunc(w.deny, func(s *stack) bool {
		return from.link.stack == s || err == nil && s.isLocal(h.src)
	})
}

// disturb draws how much longer a frame takes and how often it comes again. It
// draws nothing for faults that are switched off.
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
