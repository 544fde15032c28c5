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
	hearers []*listener  // hear hints in virtual time
	channel wake.Signal
}

// listener hears hints until its function is nil.
type listener struct{ hear func() }

func newHinter() hinter { return hinter{channel: wake.NewSignal()} }

// on calls fn with each hint. The function that it returns ends that.
func (h *hinter) on(fn func()) (end func()) {
	l := &listener{fn}
	h.hearers = append(h.hearers, l)
	return func() {
		h.hearers = slices.DeleteFunc(slices.Clone(h.hearers), func(o *listener) bool { return o == l })
	}
}

// tell sends a hint, as an event of that name.
func (h *hinter) tell(w *world.World, label string) {
	h.channel.Send()
	if len(h.hearers) == 0 || h.pending.Pending() {
		return
	}
	h.pending = w.After(0, label, func() {
		for _, l := range h.hearers {
			l.hear()
		}
	})
}
