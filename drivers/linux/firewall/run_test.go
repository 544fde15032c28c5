package firewall

import (
	"context"
	"os/exec"
	"strings"
	"testing"

	"github.com/flanneld/flannel/drivers/linux/internal/namespace"
)

// A program that writes without end fails, and is not kept in memory.
func TestEndlessOutput(t *testing.T) {
	sh, err := exec.LookPath("sh")
	if err != nil {
		t.Fatal(err)
	}
	for _, to := range []string{"", " >&2"} {
		out, err := run(context.Background(), namespace.Current(), "", sh, "-c", "exec yes"+to)
		if out != "" || err == nil || !strings.Contains(err.Error(), "writes more than") {
			t.Errorf("yes%s: %d bytes, %.100v", to, len(out), err)
		}
	}
}
