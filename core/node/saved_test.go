package node

import (
	"math/rand/v2"
	"testing"
)

// A text that is no state file is ignored, and the log says so.
func TestStateUnreadable(t *testing.T) {
	for text, want := range map[string]string{
		`{`:             "state file of the last run is ignored: unexpected end of JSON input",
		`{"Version":9}`: "state file of the last run is ignored: version 9, want 1",
		`{"Version":1,"Snapshot":{"Leases":[null]}}`: "state file of the last run is ignored: a lease is null",
	} {
		n := New(Options{Rand: rand.New(rand.NewPCG(1, 1)), Saved: []byte(text)})
		if e := n.Ready().Events; len(e) != 1 || e[0].Kind != "state-unreadable" || e[0].Text != want {
			t.Errorf("%s: %v, want %s", text, e, want)
		}
		if n.store.saved != nil {
			t.Errorf("%s: taken all the same", text)
		}
	}
}
