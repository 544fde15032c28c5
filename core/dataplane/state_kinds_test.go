package dataplane

import (
	"strings"
	"testing"
)

// A clone of a State, the union of two and their comparison know every kind of object.
func TestStateKnowsEveryKind(t *testing.T) {
	lines := strings.Split(strings.TrimSpace(everyKind), "\n")
	for i, line := range lines {
		o, err := ParseObject(line)
		if err != nil {
			t.Fatal(err)
		}
		without, err := ParseDump(strings.Join(append(append([]string{}, lines[:i]...), lines[i+1:]...), "\n"))
		if err != nil {
			t.Fatal(err)
		}
		before := without.Dump()
		with := without.Clone()
		with.Put(o)
		if without.Dump() != before {
			t.Errorf("%s: a change of the clone reached the original", line)
		}
		if with.Equal(without) || without.Equal(with) {
			t.Errorf("%s: two states are equal although one lacks it", line)
		}
		if with.Len() != without.Len()+1 {
			t.Errorf("%s: %d objects with it, %d without", line, with.Len(), without.Len())
		}
		without.AddAll(with)
		if !without.Equal(with) || without.Dump() != with.Dump() {
			t.Errorf("%s: the union of both states lacks it", line)
		}
	}
}
