// Package shellword writes texts of other programs, such as names of chains and devices, into commands that people
// paste.
package shellword

import (
	"regexp"
	"strings"
)

// plain matches the words that a shell takes as they are.
var plain = regexp.MustCompile(`^[A-Za-z0-9@%_+=:,./][A-Za-z0-9@%_+=:,./-]*$`)

// Plain reports whether a text is one word for each shell and program, and no option.
func Plain(text string) bool { return plain.MatchString(text) }

// Of returns a text of another program, such as the name of a chain or device, as one word of a shell, so that a
// command with it can be pasted.
func Of(text string) string {
	if Plain(text) {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}
