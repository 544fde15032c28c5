package harness

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// DaemonEnv and ToolEnv are the variables that name a flanneld and a flannelctl
// which are already built.
const (
	DaemonEnv = "FLANNEL_LAB_DAEMON"
	ToolEnv   = "FLANNEL_LAB_TOOL"
)

// BuildDaemon returns the path of a flanneld: the one that DaemonEnv names, or
// one that it builds from the module of the working directory. A built one is
// removed with the program's scratch file system. The build downloads nothing:
// the namespaces of a lab have no network.
func BuildDaemon(ctx context.Context) (string, error) { return build(ctx, DaemonEnv, "flanneld") }

// BuildTool returns the path of a flannelctl, as BuildDaemon does with ToolEnv.
func BuildTool(ctx context.Context) (string, error) { return build(ctx, ToolEnv, "flannelctl") }

func build(ctx context.Context, env, program string) (string, error) {
	if path := os.Getenv(env); path != "" {
		return path, nil
	}
	path := filepath.Join(scratch, program)
	// No version stamp: in a user namespace the tree may belong to another
	// user, and git refuses to read it.
	cmd := exec.CommandContext(ctx, "go", "build", "-buildvcs=false", "-o", path,
		"github.com/flanneld/flannel/cmd/"+program)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOPROXY=off")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build %s (make build builds it outside, and %s names it): %w\n%s", program, env, err, out)
	}
	return path, nil
}
