// Package event holds the lines that a node logs.
//
// It owns the text that was logged last of each kind, so that a state which lasts is logged once. It is
// given lines, and gives them back in their order when the step ends. It decides nothing.
package event

// Event is a line for the log. Kind is stable and greppable, such as
// "lease-acquired"; Text is for people.
type Event struct {
	Kind  string
	Text  string
	Level Level
	// Output holds the words of an operator's command. They may name secrets, so only the log and root get them.
	Output string
}

// Whole returns the text with the output.
func (e Event) Whole() string {
	if e.Output == "" {
		return e.Text
	}
	return e.Text + ": " + e.Output
}

// Level is the severity of an event.
type Level uint8

// The levels, as klog has them.
const (
	Info Level = iota
	Warning
	Error
)

// Log collects the events of a step.
type Log struct {
	events []Event
	said   map[string]string // the last text of each kind that Once logs
}

// NewLog returns an empty log.
func NewLog() *Log { return &Log{said: map[string]string{}} }

// Add logs an event.
func (l *Log) Add(level Level, kind, text string) {
	l.AddEvent(Event{Kind: kind, Text: text, Level: level})
}

// AddEvent logs an event that may have an output.
func (l *Log) AddEvent(e Event) { l.events = append(l.events, e) }

// Once logs an event unless its text equals that of the last event of its kind.
// No text means that the event's reason is over: nothing is logged now.
func (l *Log) Once(level Level, kind, text string) {
	l.OnceEvent(Event{Kind: kind, Text: text, Level: level})
}

// OnceEvent is Once for an event that may have an output.
func (l *Log) OnceEvent(e Event) {
	if e.Text != "" && e.Whole() != l.said[e.Kind] {
		l.AddEvent(e)
	}
	l.said[e.Kind] = e.Whole()
}

// Over ends the reason of an event: if it comes back, it is logged again.
func (l *Log) Over(kind string) { delete(l.said, kind) }

// Lasts reports whether the reason of an event that Once has logged lasts.
func (l *Log) Lasts(kind string) bool { return l.said[kind] != "" }

// Take returns the events since the last call.
func (l *Log) Take() []Event {
	events := l.events
	l.events = nil
	return events
}
