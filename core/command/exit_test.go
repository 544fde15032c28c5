package command

import (
	"errors"
	"fmt"
	"testing"
)

// TestSplit separates what commands wrote from what is said about them.
func TestSplit(t *testing.T) {
	first := (&ExitError{Status: 2}).with(`token="1"`)
	second := (&ExitError{Why: "killed"}).with("token=2")
	plain := errors.New("no space left")
	for _, c := range []struct {
		err          error
		text, output string
	}{
		{plain, "no space left", ""},
		{first, "exit status 2", `token="1"`},
		{&ExitError{Status: 3}, "exit status 3", ""},
		{fmt.Errorf("command peer: %w", first), "command peer: exit status 2", `token="1"`},
		{errors.Join(fmt.Errorf("add: %w", first), plain, second), "add: exit status 2\nno space left\nkilled",
			`token="1"; token=2`},
		{reworded{first}, "exit status 2", `token="1"`},
	} {
		if text, output := Split(c.err); text != c.text || output != c.output {
			t.Errorf("%v: %q and %q, want %q and %q", c.err, text, output, c.text, c.output)
		}
	}
}

// reworded is an error that shows what it wraps in another form.
type reworded struct{ error }

func (r reworded) Error() string { return fmt.Sprintf("%q", r.error) }
func (r reworded) Unwrap() error { return r.error }
