package world

import "time"

// Event is a function that runs at a set time, unless it is cancelled.
type Event struct {
	world *World
	at    time.Duration // since the epoch
	seq   uint64
	label string
	fn    func() // nil once it ran or was cancelled
	index int    // in the queue
}

// Cancel removes the event from the queue and reports whether it was still
// pending.
func (e *Event) Cancel() bool {
	if e == nil || e.fn == nil {
		return false
	}
	e.fn = nil
	e.world.queue.remove(e.index)
	return true
}

// Pending reports whether the event is still to run.
func (e *Event) Pending() bool { return e != nil && e.fn != nil }

// At returns the time of the event, past or future.
func (e *Event) At() time.Time { return epoch.Add(e.at) }

func (e *Event) before(o *Event) bool {
	if e.at == o.at {
		return e.seq < o.seq
	}
	return e.at < o.at
}

// eventQueue is a binary heap by (time, sequence). It does not use
// container/heap, which costs an interface call for each comparison: this is
// the innermost loop of every simulation.
type eventQueue []*Event

func (q eventQueue) peek() *Event {
	if len(q) == 0 {
		return nil
	}
	return q[0]
}

func (q *eventQueue) push(e *Event) {
	e.index = len(*q)
	*q = append(*q, e)
	q.up(e.index)
}

func (q *eventQueue) pop() *Event {
	e := (*q)[0]
	q.remove(0)
	return e
}

func (q *eventQueue) remove(i int) {
	h := *q
	last := len(h) - 1
	h.swap(i, last)
	h[last] = nil
	*q = h[:last]
	if i < last && !q.down(i) {
		q.up(i)
	}
}

func (q eventQueue) swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].index, q[j].index = i, j
}

func (q eventQueue) up(i int) {
	for i > 0 {
		parent := (i - 1) / 2
		if !q[i].before(q[parent]) {
			return
		}
		q.swap(i, parent)
		i = parent
	}
}

// down sinks the event at an index and reports whether it moved.
func (q eventQueue) down(i int) bool {
	start := i
	for {
		child := 2*i + 1
		if child >= len(q) {
			break
		}
		if child+1 < len(q) && q[child+1].before(q[child]) {
			child++
		}
		if !q[child].before(q[i]) {
			break
		}
		q.swap(i, child)
		i = child
	}
	return i > start
}
