// Package complaint compares the texts of errors, so that a log or a search can tell a new
// reason from a repeated one.
package complaint

import "strings"

// Of returns a text without its digits: texts that differ only in a port, a revision or the
// number of a node have one reason.
func Of(text string) string {
	return strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' {
			return -1
		}
		return r
	}, text)
}

// mostTold bounds the reasons that an outage may have.
const mostTold = 100

// Told holds the reasons that a log has named in the present outage. The reasons of one outage
// may come in turn: one server is refused and the other silent.
type Told struct{ reasons map[string]bool }

// IsNew notes a text and reports whether its reason is a new one.
func (t *Told) IsNew(text string) bool {
	reason := Of(text)
	if t.reasons[reason] || len(t.reasons) == mostTold {
		return false
	}
	if t.reasons == nil {
		t.reasons = map[string]bool{}
	}
	t.reasons[reason] = true
	return true
}

// Any reports whether there was a reason since the last call of Forget.
func (t *Told) Any() bool { return len(t.reasons) > 0 }

// Forget begins anew: the outage has ended.
func (t *Told) Forget() { t.reasons = nil }
