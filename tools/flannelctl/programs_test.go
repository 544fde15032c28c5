package flannelctl

import (
	"errors"
	"strings"
	"testing"
)

// TestRunProgram runs programs that succeed, fail and never stop printing.
func TestRunProgram(t *testing.T) {
	out, err := runProgram(t.Context(), "sh", "-c", "echo printed; echo why >&2; exit 3")
	if string(out) != "printed\n" || err == nil || err.Error() != "exit status 3: why" {
		t.Errorf("a program that fails: %q, %v", out, err)
	}
	out, err = runProgram(t.Context(), "sh", "-c", "echo printed; echo why >&2")
	if string(out) != "printed\n" || err != nil {
		t.Errorf("a program that succeeds: %q, %v", out, err)
	}
	for _, endless := range []string{"exec yes", "exec yes >&2", "yes"} {
		out, err = runProgram(t.Context(), "sh", "-c", endless)
		if len(out) > outputLimit || !errors.Is(err, errTooMuch) {
			t.Errorf("%s: %d bytes, %v", endless, len(out), err)
		}
	}
	_, err = runProgram(t.Context(), "/nonexistent/flannelctl")
	if err == nil || !strings.Contains(err.Error(), "no such file") {
		t.Errorf("no program: %v", err)
	}
}
