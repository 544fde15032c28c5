package harness

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// DaemonEnv names a flanneld that is built already.
const DaemonEnv = "FLANNEL_LAB_DAEMON"

// BuildDaemon returns the path of a flanneld: the one that DaemonEnv names, or
// one built here from the module the program is run in. What it built is gone
// with the program.
func BuildDaemon(ctx context.Context) (string, error) {
	if path := os.Getenv(DaemonEnv); path != "" {
		return path, nil
	}
	path := filepath.Join(scratch, "flanneld")
	// The version stamp would need git to trust a tree that, from inside a
	// user namespace, may belong to somebody else.
	cmd := exec.CommandContext(ctx, "go", "build", "-buildvcs=false", "-o", path, "github.com/flanneld/flannel/cmd/flanneld")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build flanneld: %w\n%s", err, out)
	}
	return path, nil
}
