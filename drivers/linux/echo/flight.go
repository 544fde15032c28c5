package echo

import (
	"net/netip"
	"sync"
	"time"

	"github.com/flanneld/flannel/core/probe"
)

// slack is how long after its time an echo without an answer may end. While probes are
// sent all the time, the next one ends those before it, and no timer has to.
const slack = 500 * time.Millisecond

// sentEcho is a small echo that waits for its answer.
type sentEcho struct {
	id   uint64
	to   netip.Addr
	sent time.Time
	done func(probe.Answer)
}

// flight holds the small echoes that wait for their answers.
type flight struct {
	mu      sync.Mutex
	waiting map[nonce]sentEcho
	order   []nonce     // as they were sent; some of them have ended
	timer   *time.Timer // ends the first of them; nil: none waits
	closed  bool
}

// begin lets an echo wait.
func (f *flight) begin(n nonce, e sentEcho) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return
	}
	f.waiting[n] = e
	f.order = append(f.order, n)
	if f.timer == nil {
		f.timer = time.AfterFunc(probe.Timeout+slack, f.alarm)
	}
}

// cancel ends the wait of an echo without telling. It returns false if it has ended.
func (f *flight) cancel(n nonce) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	_, waits := f.waiting[n]
	delete(f.waiting, n)
	return waits
}

// answered ends the wait of an echo that a host has answered. Only the host that was
// asked may do so.
func (f *flight) answered(n nonce, from netip.Addr) {
	f.mu.Lock()
	e, waits := f.waiting[n]
	theirs := waits && e.to == from
	if theirs {
		delete(f.waiting, n)
	}
	f.mu.Unlock()
	if theirs {
		a := answered(e.sent)
		a.ID = e.id
		e.done(a)
	}
}

// expire ends the wait of the echoes whose time is up.
func (f *flight) expire(now time.Time) {
	for _, e := range f.expired(now) {
		e.done(probe.Answer{ID: e.id})
	}
}

// expired takes out the echoes whose time is up.
func (f *flight) expired(now time.Time) (late []sentEcho) {
	f.mu.Lock()
	defer f.mu.Unlock()
	ended := 0
	for _, n := range f.order {
		e, waits := f.waiting[n]
		if waits && now.Sub(e.sent) < probe.Timeout {
			break
		}
		if waits {
			late = append(late, e)
			delete(f.waiting, n)
		}
		ended++
	}
	f.order = append(f.order[:0], f.order[ended:]...)
	return late
}

// alarm ends what no later probe has ended, and waits for the rest.
func (f *flight) alarm() {
	now := time.Now()
	f.expire(now)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.timer = nil
	if len(f.order) > 0 && !f.closed {
		first := f.waiting[f.order[0]] // it waits, unless its answer came just now: then the alarm comes at once
		f.timer = time.AfterFunc(first.sent.Add(probe.Timeout+slack).Sub(now), f.alarm)
	}
}

// close forgets all echoes.
func (f *flight) close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = true
	clear(f.waiting)
	f.order = nil
	if f.timer != nil {
		f.timer.Stop()
	}
}
