// Package complaint compares the texts of errors, so that a log line or a search tells a new
// reason from a repeated one.
package complaint

import "strings"

// Of returns a text without its digits: another port, revision or number of a node makes no
// new reason.
func Of(text string) string {
	return strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' {
			return -1
		}
		return r
	}, text)
}
