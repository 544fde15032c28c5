package world

import "fmt"

// trace folds every event and note into a running hash, and into lines for a
// listener. The texts of logs have a hash of their own.
type trace struct {
	hash  uint64
	words uint64
	lines func(line string)
	notes func(label, detail string)
}

func newTrace() trace { return trace{hash: HashStart, words: HashStart} }

// Trace passes every line of the trace to fn from now on; nil ends it. The
// world makes the lines only while fn is set.
func (w *World) Trace(fn func(line string)) { w.trace.lines = fn }

// OnNote passes every note of the trace to fn; nil ends it. The function must
// not change the world.
func (w *World) OnNote(fn func(label, detail string)) { w.trace.notes = fn }

// TraceHash returns the hash of the whole trace. Two runs with equal hashes
// were the same run.
func (w *World) TraceHash() uint64 { return Mix(w.trace.hash, w.trace.words) }

// EventHash returns the hash of the trace without the texts of logs: it stays
// the same if only these change.
func (w *World) EventHash() uint64 { return w.trace.hash }

// Note adds an entry to the trace. The label names actor and action, such as
// "n1: drop"; the detail holds the rest.
func (w *World) Note(label, detail string) {
	h := HashUint64(w.trace.hash, uint64(w.now))
	h = HashString(h, label)
	w.trace.hash = HashString(h, detail)
	w.tell(label, detail)
}

// NoteWords is Note with a detail that only people read, such as the text of a log.
func (w *World) NoteWords(label, detail string) {
	w.trace.hash = HashString(HashUint64(w.trace.hash, uint64(w.now)), label)
	w.trace.words = HashString(w.trace.words, detail)
	w.tell(label, detail)
}

// FoldDigest is Note for one of many entries at one instant, with a known hash.
// The caller has folded in their time and actor before. FoldDigest makes the
// detail only for a listener.
func (w *World) FoldDigest(label string, digest uint64, detail func() string) {
	w.trace.hash = Mix(w.trace.hash, digest)
	if w.trace.notes != nil || w.trace.lines != nil {
		w.tell(label, detail())
	}
}

// tell passes a note to the listeners.
func (w *World) tell(label, detail string) {
	if w.trace.notes != nil {
		w.trace.notes(label, detail)
	}
	if w.trace.lines == nil {
		return
	}
	line := fmt.Sprintf("%12.6f %s", w.now.Seconds(), label)
	if detail != "" {
		line += " " + detail
	}
	w.trace.lines(line)
}

// Fold adds bytes to the hash that no line shows.
func (w *World) Fold(b []byte) {
	h := w.trace.hash
	for _, c := range b {
		h = (h ^ uint64(c)) * HashPrime
	}
	w.trace.hash = h
}
