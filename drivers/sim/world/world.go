package world

import (
	"fmt"
	"math/rand/v2"
	"time"
)

// epoch is when every world begins.
var epoch = time.Date(2024, time.January, 1, 0, 0, 0, 0, time.UTC)

// stuckAfter is how many events may happen at one instant before the world is
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

// invariant is a condition that holds after every event.
type invariant struct {
	name  string
	check func() error
}

// NewWorld returns an empty world, at a fixed date, whose every chance
// follows from the seed.
func New(seed uint64) *World {
	return &World{
		seed:  seed,
		rands: map[string]*rand.Rand{},
		trace: newTrace(),
	}
}

// Seed returns what the world was made from.
func (w *World) Seed() uint64 { return w.seed }

// Now is the virtual time.
func (w *World) Now() time.Time { return epoch.Add(w.now) }

// Elapsed is the virtual time since the world began.
func (w *World) Elapsed() time.Duration { return w.now }

// Rand returns the stream of chance of that label. Streams are independent:
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

// After lets fn happen when d has passed; no less than zero. Events of one
// instant happen in the order in which they were asked for. The label goes
// into the trace when the event happens; it names what happens, such as
// "n1: debounce".
func (w *World) After(d time.Duration, label string, fn func()) *Event {
	e := &Event{world: w, at: w.now + max(d, 0), seq: w.seq, label: label, fn: fn}
	w.seq++
	w.queue.push(e)
	return e
}

// At lets fn happen at t, or now if t has passed.
func (w *World) At(t time.Time, label string, fn func()) *Event {
	return w.After(t.Sub(w.Now()), label, fn)
}

// Always adds a condition to be checked after every event. The first violation
// stops the world: runs return at once and Err tells.
func (w *World) Always(name string, check func() error) {
	w.always = append(w.always, invariant{name, check})
}

// Err is the first violated invariant, or nil.
func (w *World) Err() error { return w.err }

// Fail stops the world with an error, as a violated invariant does.
func (w *World) Fail(err error) {
	if w.err == nil {
		w.err = fmt.Errorf("at %s, seed %d: %w", w.now, w.seed, err)
		w.Note("world: failed", w.err.Error())
	}
}

// Run lets time pass by d, with all that happens meanwhile.
func (w *World) Run(d time.Duration) {
	w.RunUntil(func() bool { return false }, d)
}

// RunUntil lets time pass until cond holds, and reports whether it did before
// the time was over. The condition is asked first and then after every event.
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
		if instant++; e.at > w.now {
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

// step lets the next event happen.
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

// Pending is the number of events to come.
func (w *World) Pending() int { return len(w.queue) }
