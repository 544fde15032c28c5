package event

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestOnce(t *testing.T) {
	l := NewLog()
	full, denied := "the disk is full", "permission denied"
	l.Once(Error, "write", full)
	l.Once(Error, "write", full)
	l.Once(Error, "write", denied)
	if !l.Lasts("write") {
		t.Error("the reason of the last event does not last")
	}
	l.Once(Error, "write", "")
	if l.Lasts("write") {
		t.Error("the reason lasts though it is over")
	}
	l.Once(Error, "write", denied)
	l.Over("write")
	l.OnceEvent(Event{Kind: "write", Text: denied, Level: Error, Output: "token"})
	want := []Event{
		{Kind: "write", Text: full, Level: Error},
		{Kind: "write", Text: denied, Level: Error},
		{Kind: "write", Text: denied, Level: Error},
		{Kind: "write", Text: denied, Level: Error, Output: "token"},
	}
	if diff := cmp.Diff(want, l.Take()); diff != "" {
		t.Error(diff)
	}
	if more := l.Take(); more != nil {
		t.Errorf("events are returned twice: %v", more)
	}
}
