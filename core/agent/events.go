package agent

import (
	"strings"
	"time"

	"github.com/flanneld/flannel/core/control"
	"github.com/flanneld/flannel/core/node"
)

// mostEvents is the number of events that the daemon remembers for operators, and
// mostEventText the largest length of the text of one of them, in bytes.
const (
	mostEvents    = 300
	mostEventText = 400
)

// remembered is an event with what a command of the operator wrote, which only root gets.
type remembered struct {
	control.Event
	whole string // the text with the output
}

// memory holds the last events, as a ring.
type memory struct {
	events []remembered
	next   int // the oldest event, once the ring is full
	total  int // events since the process began
}

// cut shortens the text of an event.
func cut(text string) string {
	if len(text) > mostEventText {
		return strings.ToValidUTF8(text[:mostEventText], "") + "…"
	}
	return text
}

// add remembers an event, whose text with the output is whole.
func (m *memory) add(event control.Event, whole string) {
	event.Text = cut(event.Text)
	e := remembered{event, cut(whole)}
	m.total++
	if len(m.events) < mostEvents {
		m.events = append(m.events, e)
		return
	}
	m.events[m.next] = e
	m.next = (m.next + 1) % mostEvents
}

// all returns the events, oldest first.
func (m *memory) all() []remembered {
	all := make([]remembered, 0, len(m.events))
	all = append(all, m.events[m.next:]...)
	return append(all, m.events[:m.next]...)
}

var levelNames = [...]string{node.Info: "info", node.Warning: "warning", node.Error: "error"}

// remembering returns a log that also keeps the events for operators.
func (h *Health) remembering(log func(node.Event)) func(node.Event) {
	return func(e node.Event) {
		log(e)
		h.mu.Lock()
		defer h.mu.Unlock()
		event := control.Event{At: time.Now(), Kind: e.Kind, Level: levelNames[e.Level], Text: e.Text}
		h.memory.add(event, e.Whole())
	}
}

// events returns the answer at its page.
func (h *Health) events(r reader) (any, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	all, now := h.memory.all(), time.Now()
	events := make([]control.Event, len(all))
	for i, e := range all {
		events[i] = e.Event
		events[i].At = dated(e.At, now, now.Sub(e.At))
		if r == root {
			events[i].Text = e.whole
		}
	}
	return control.Events{TakenAt: now, Dropped: h.memory.total - len(all), Events: events}, true
}

// dated returns when an event happened that was noted at a time of the clock, and since which
// so much time has passed. A clock that was set back meanwhile would put it after later ones,
// so the present clock counts then.
func dated(at, now time.Time, passed time.Duration) time.Time {
	at = at.Round(0) // the clock alone, without the time since the machine began
	if byNow := now.Round(0).Add(-passed); byNow.Before(at) {
		return byNow
	}
	return at
}
