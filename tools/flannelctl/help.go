package flannelctl

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"
)

// fitHelp breaks the lines of all help texts between words, at the width of the terminal.
func (a *app) fitHelp(root *cobra.Command) {
	write := root.HelpFunc()
	root.SetHelpFunc(func(c *cobra.Command, args []string) {
		var text bytes.Buffer
		c.SetOut(&text)
		write(c, args)
		c.SetOut(a.Out)
		fmt.Fprint(a.Out, fitted(text.String(), a.Width))
	})
}

// column begins a text beside the name of a flag or command.
var column = regexp.MustCompile(`   +\S[^ ]* ?[^ ]*   +`)

// fitted returns a text whose lines are not wider than that, unless a word is. What stands
// beside a flag stays in its column. Width 0 changes nothing.
func fitted(text string, width int) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		hang := 0
		if strings.HasPrefix(line, " ") {
			hang = len(column.FindString(line))
		}
		at := 0
		for i, word := range strings.Split(line[hang:], " ") {
			size := utf8.RuneCountInString(word)
			switch {
			case i == 0:
				b.WriteString(line[:hang] + word)
				at = hang
			case width > 0 && at+1+size > width:
				b.WriteString("\n" + strings.Repeat(" ", hang) + word)
				at = hang
			default:
				b.WriteString(" " + word)
				at++
			}
			at += size
		}
		b.WriteByte('\n')
	}
	return b.String()
}
