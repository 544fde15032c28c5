package wake

import "testing"

// A signal waits for its reader, and no sender does.
func TestSignal(t *testing.T) {
	s := NewSignal()
	for range 3 {
		s.Send()
	}
	<-s
	select {
	case <-s:
		t.Error("three changes are two signals")
	default: // they are one
	}
}
