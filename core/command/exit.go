package command

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
)

// ExitError is the end of a command that failed.
type ExitError struct {
	Status int    // exit status; 0 if a signal or the time limit ended the command
	Why    string // of an end without an exit status
	Output string // an excerpt in one line
}

// The exit statuses of a shell that could not run a program.
const (
	notExecutable = 126
	notFound      = 127
)

// cutShort reports whether a command failed without a word about its effect: a signal or the time limit ended it, or
// the shell did not find its program.
func cutShort(err error) bool {
	var end *ExitError
	if !errors.As(err, &end) {
		return false
	}
	return end.Status == 0 || end.Status == notExecutable || end.Status == notFound
}

// excerptSize is the longest part of a command's output in an error, in bytes.
const excerptSize = 300

// with returns the error with an excerpt of the command's output.
func (e *ExitError) with(output string) *ExitError {
	return &ExitError{Status: e.Status, Why: e.Why, Output: excerpt(output)}
}

// Error names the exit status and what the command wrote.
func (e *ExitError) Error() string {
	if e.Output == "" {
		return e.end()
	}
	return e.end() + ": " + e.Output
}

// end says how the command ended.
func (e *ExitError) end() string {
	text := e.Why
	switch {
	case e.Status == notFound:
		text = "a program was not found (exit status 127)"
	case e.Status == notExecutable:
		text = "a program cannot be executed (exit status 126)"
	case e.Status != 0:
		text = fmt.Sprintf("exit status %d", e.Status)
	}
	return text
}

// Split returns the text of an error without what commands wrote, and what they wrote. Commands name
// secrets, and so do their words: every local user may read the text, and only root the output.
func Split(err error) (text, output string) {
	text = err.Error()
	var outputs []string
	for _, e := range exits(err) {
		if e.Output == "" {
			continue
		}
		outputs = append(outputs, e.Output)
		if strings.Contains(text, e.Error()) {
			text = strings.ReplaceAll(text, e.Error(), e.end())
		} else { // the text has the output in another form
			text = e.end()
		}
	}
	return text, strings.Join(outputs, "; ")
}

// exits returns the ends of commands that an error wraps.
func exits(err error) []*ExitError {
	switch e := err.(type) {
	case *ExitError:
		return []*ExitError{e}
	case interface{ Unwrap() error }:
		return exits(e.Unwrap())
	case interface{ Unwrap() []error }:
		var all []*ExitError
		for _, wrapped := range e.Unwrap() {
			all = append(all, exits(wrapped)...)
		}
		return all
	}
	return nil
}

// excerpt returns the end of an output in one line: the last words usually say
// what went wrong.
func excerpt(output string) string {
	line := strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return ' '
	}, strings.ToValidUTF8(output, "?"))
	line = strings.Join(strings.Fields(line), " ")
	if len(line) > excerptSize {
		line = "…" + strings.ToValidUTF8(line[len(line)-excerptSize:], "")
	}
	return line
}
