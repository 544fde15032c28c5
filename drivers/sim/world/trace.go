package world

import "fmt"

// trace folds all that happens into a running hash, and into lines for who
// wants to read them.
type trace struct {
	hash  uint64
	lines func(line string)
	notes func(label, detail string)
}

func newTrace() trace { return trace{hash: HashStart} }

// Trace hands every line of the trace to fn from now on; nil ends it. The
// lines are only made if somebody reads them.
func (w *World) Trace(fn func(line string)) { w.trace.lines = fn }

// OnNote hands all that goes into the trace to fn, as it was noted; nil ends
// it. Whoever listens must not change the world.
func (w *World) OnNote(fn func(label, detail string)) { w.trace.notes = fn }

// TraceHash is the hash of all that has happened. Two runs with equal hashes
// were the same run.
func (w *World) TraceHash() uint64 { return w.trace.hash }

// Note puts something that happened into the trace: who and what in the
// label, such as "n1: drop", the rest in the detail.
func (w *World) Note(label, detail string) {
	h := HashUint64(w.trace.hash, uint64(w.now))
	h = HashString(h, label)
	w.trace.hash = HashString(h, detail)
	w.tell(label, detail)
}

// foldDigest is Note for one of many things that happen at once, when and to
// whom was folded in before, and whose hash is known. The detail is only made if
// somebody reads it.
func (w *World) FoldDigest(label string, digest uint64, detail func() string) {
	w.trace.hash = Mix(w.trace.hash, digest)
	if w.trace.notes != nil || w.trace.lines != nil {
		w.tell(label, detail())
	}
}

// tell hands what was noted to who listens.
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

// fold puts bytes into the hash that no line shows.
func (w *World) Fold(b []byte) {
	h := w.trace.hash
	for _, c := range b {
		h = (h ^ uint64(c)) * HashPrime
	}
	w.trace.hash = h
}
