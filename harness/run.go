package harness

import (
	"context"
	"fmt"
	"os/exec"
)

// AddHost adds a host that is connected to nothing yet, such as the namespace
// of a pod that a CNI plugin is about to attach.
func (l *Lab) AddHost(name string) (*Host, error) { return l.newHost(name) }

// Run runs a command inside the host and waits for its end. The error is the
// command's exit status, unless the command could not be started or ctx ended
// first.
func (h *Host) Run(ctx context.Context, cmd *exec.Cmd) error {
	p, err := h.space.Start(cmd)
	if err != nil {
		return fmt.Errorf("host %s: %s: %w", h.Name, cmd.Path, err)
	}
	state, err := p.Wait(ctx)
	if err != nil {
		return fmt.Errorf("host %s: %s: %w", h.Name, cmd.Path, err)
	}
	if !state.Success() {
		return &exec.ExitError{ProcessState: state}
	}
	return nil
}

// Background starts a command inside the host. Stop kills it; so does the end
// of the lab.
func (h *Host) Background(cmd *exec.Cmd) (stop func() error, err error) {
	p, err := h.space.Start(cmd)
	if err != nil {
		return nil, fmt.Errorf("host %s: %s: %w", h.Name, cmd.Path, err)
	}
	return p.Kill, nil
}
