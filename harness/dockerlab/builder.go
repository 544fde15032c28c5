package dockerlab

import (
	"context"
	"strings"
)

// Build builds an image with docker build and these arguments, and returns its messages. The steps of the build
// have the network of the engine. The builder is BuildKit, or with classic the one that Docker had before.
func (e *Engine) Build(ctx context.Context, classic bool, args ...string) (string, error) {
	command := []string{"DOCKER_BUILDKIT=1", "docker", "--host=unix://" + socket, "build", "--network=host"}
	if classic {
		command[0] = "DOCKER_BUILDKIT=0"
	} else {
		command = append(command, "--progress=plain")
	}
	out, err := e.machine.Run(ctx, append(command, args...)...)
	return strings.TrimSpace(out), err
}
