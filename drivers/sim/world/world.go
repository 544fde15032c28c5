package world

import (
	"fmt"
	"math/rand/v2"
	"time"
)

// epoch is the date at which every world begins.
var epoch = time.Date(2024, time.January, 1, 0, 0, 0, 0, time.UTC)

// stuckAfter is the number of events at one instant after which the world is
// declared stuck: two parties that answer each other without delay never end.
const stuckAfter = 1_000_000

// World is a simulated world: its clock, its events and its chance.
type World struct {
	seed  uint64
	now   time.Duration // since the epoch
	seq   uint64
	queue eventQueue
	rands map[string]*rand.Rand
	trace trace

	always []invariant
	err    error
}

// invariant is a condition that must hold after every event.
type invariant struct {
	name  string
	check func() error
}

// New returns an empty world at a fixed date. All its chance follows from the
// seed.
func New(seed uint64) *World {
	return &World{
		seed:  seed,
		rands: map[string]*rand.Rand{},
		trace: newTrace(),
	}
}

// Seed returns the seed of the world.
func (w *World) Seed() uint64 { return w.seed }

// Now returns the virtual time.
func (w *World) Now() time.Time { return epoch.Add(w.now) }

// Elapsed returns the virtual time since the world began.
func (w *World) Elapsed() time.Duration { return w.now }

// Rand returns the stream of chance with this label. Streams are independent:
// to draw more from one, or to add one, does not shift the others. Calls with
// an equal label continue the same stream.
func (w *World) Rand(label string) *rand.Rand {
	r := w.rands[label]
	if r == nil {
		h := HashString(HashUint64(HashStart, w.seed), label)
		r = rand.New(rand.NewPCG(w.seed, h))
		w.rands[label] = r
	}
	return r
}

// After schedules fn to run when d has passed; a negative d counts as zero.
// Events of one instant run in the order of the calls. The label goes into the
// trace when the event runs, and names it, such as "n1: debounce".
func (w *World) After(d time.Duration, label string, fn func()) *Event {
	e := &Event{world: w, at: w.now + max(d, 0), seq: w.seq, label: label, fn: fn}
	w.seq++
	w.queue.push(e)
	return e
}

// At schedules fn to run at t, or now if t has passed.
func (w *World) At(t time.Time, label string, fn func()) *Event {
	return w.After(t.Sub(w.Now()), label, fn)
}

// Always adds a condition to check after every event. The first violation stops
// the world: runs return at once, and Err returns it.
func (w *World) Always(name string, check func() error) {
	w.always = append(w.always, invariant{name, check})
}

// Err returns the first violated invariant, or nil.
func (w *World) Err() error { return w.err }

// Fail stops the world with an error, as a violated invariant does.
func (w *World) Fail(err error) {
	if w.err == nil {
		w.err = fmt.Errorf("at %s, seed %d: %w", w.now, w.seed, err)
		w.NoteWords("world: failed", w.err.Error())
	}
}

// Run lets the time d pass, and runs the events due in it.
func (w *World) Run(d time.Duration) {
	w.RunUntil(func() bool { return false }, d)
}

// RunUntil lets time pass until cond holds, and reports whether it did before
// the time was over. It checks the condition first and then after every event.
func (w *World) RunUntil(cond func() bool, within time.Duration) bool {
	deadline := w.now + within
	instant := 0
	for w.err == nil {
		if cond() {
			return true
		}
		e := w.queue.peek()
		if e == nil || e.at > deadline {
			w.now = deadline
			return false
		}
		instant++
		if e.at > w.now {
			instant = 0
		}
		if instant > stuckAfter {
			w.Fail(fmt.Errorf("more than %d events at one instant, the next is %q", stuckAfter, e.label))
			return false
		}
		w.step()
	}
	return false
}

// step runs the next event.
func (w *World) step() {
	e := w.queue.pop()
	w.now = e.at
	w.Note(e.label, "")
	fn := e.fn
	e.fn = nil
	fn()
	for _, inv := range w.always {
		if err := inv.check(); err != nil {
			w.Fail(fmt.Errorf("invariant %q: %w", inv.name, err))
			return
		}
	}
}

// Pending returns the number of events to come.
func (w *World) Pending() int { return len(w.queue) }
