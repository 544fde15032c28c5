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
