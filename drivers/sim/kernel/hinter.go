package kernel

import (
	"slices"

	"github.com/flanneld/flannel/drivers/sim/world"
	"github.com/flanneld/flannel/internal/wake"
)

// hinter tells its listeners that something may have changed: in virtual time,
// and through a driver's channel.
type hinter struct {
	pending *world.Event // scheduled, not yet delivered
	by      *paths       // the program that does not hear it; nil: all do
	hearers []*listener  // hear hints in virtual time
	channel wake.Signal
}

// listener hears hints until its function is nil.
type listener struct {
	hear func()
	of   *paths // the program that listens; nil: any
}

func newHinter() hinter { return hinter{channel: wake.NewSignal()} }

// on calls fn with each hint, for a program. The function that it returns ends that.
func (h *hinter) on(fn func(), of *paths) (end func()) {
	l := &listener{fn, of}
	h.hearers = append(h.hearers, l)
	return func() {
		h.hearers = slices.DeleteFunc(slices.Clone(h.hearers), func(o *listener) bool { return o == l })
	}
}

// tell sends a hint, as an event of that name, to all but a program.
func (h *hinter) tell(w *world.World, label string, by *paths) {
	hears := func(l *listener) bool { return by == nil || l.of != by }
	if by == nil {
		h.channel.Send()
	}
	if !slices.ContainsFunc(h.hearers, hears) {
		return
	}
	if h.pending.Pending() {
		if h.by != by {
			h.by = nil
		}
		return
	}
	h.by = by
	h.pending = w.After(0, label, func() {
		for _, l := range h.hearers {
			if h.by == nil || l.of != h.by {
				l.hear()
			}
		}
	})
}
