package kernel

import (
	"slices"

	"github.com/flanneld/flannel/drivers/sim/world"
)

// hinter tells who wants to know that something may have changed: in virtual
// time, and those who ask a driver.
type hinter struct {
	pending *world.Event // a hint under way
	hearers []*listener  // who is told of hints in virtual time
	channel chan struct{}
}

// listener is told of hints, until it is nobody.
type listener struct{ hear func() }

func newHinter() hinter { return hinter{channel: make(chan struct{}, 1)} }

// on lets fn happen with each hint. What it returns ends that.
func (h *hinter) on(fn func()) (end func()) {
	l := &listener{fn}
	h.hearers = append(h.hearers, l)
	return func() {
		h.hearers = slices.DeleteFunc(slices.Clone(h.hearers), func(o *listener) bool { return o == l })
	}
}

// tell gives a hint, as an event of that name.
func (h *hinter) tell(w *world.World, label string) {
	select {
	case h.channel <- struct{}{}:
	default:
	}
	if len(h.hearers) == 0 || h.pending.Pending() {
		return
	}
	h.pending = w.After(0, label, func() {
		for _, l := range h.hearers {
			l.hear()
		}
	})
}
