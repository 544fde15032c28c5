package shellword

import (
	"os/exec"
	"testing"
)

// TestOf: a shell reads each text as the one word that it is.
func TestOf(t *testing.T) {
	for _, text := range []string{
		"cni0", "br-1a2b", "eth0.7", "a b", "x;reboot", "$(reboot)", "`id`", "it's",
		`back\slash`, "-rf", "~", "*", "", "ä", "a\nb",
	} {
		out, err := exec.CommandContext(t.Context(), "sh", "-c", "printf %s "+Of(text)).Output()
		if err != nil || string(out) != text {
			t.Errorf("%q becomes %q, which a shell reads as %q, %v", text, Of(text), out, err)
		}
	}
	if Of("cni0") != "cni0" || Plain("a;b") || Plain("-x") {
		t.Error("plain words are not told from others")
	}
}
