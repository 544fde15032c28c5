package main

import (
	"bytes"
	"cmp"
	"slices"
)

// edit replaces the source between two offsets. Most edits only insert.
type edit struct {
	from, to int
	text     string
	kind     editKind
	order    int // of its making: an outer expression comes before its parts
}

// editKind orders the edits at one offset.
type editKind int

const (
	closes   editKind = iota // inserts behind an expression
	opens                    // inserts before one
	replaces                 // replaces an operator
)

// compareEdits orders edits as their texts follow each other in the result.
// Pairs that open and close at the same offsets are nested like parentheses.
func compareEdits(a, b edit) int {
	order := cmp.Compare(a.order, b.order)
	if a.kind == closes {
		order = -order
	}
	return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(a.kind, b.kind), order)
}

// rewrite returns the source with all edits made. No line moves.
func rewrite(source []byte, edits []edit) []byte {
	edits = slices.SortedFunc(slices.Values(edits), compareEdits)
	var out bytes.Buffer
	done := 0
	for _, e := range edits {
		out.Write(source[done:e.from])
		out.WriteString(e.text)
		done = e.to
	}
	out.Write(source[done:])
	return out.Bytes()
}
