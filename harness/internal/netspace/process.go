package netspace

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"
)

// Process is a process that runs in a Space.
type Process struct {
	cmd  *exec.Cmd
	done chan struct{} // closed once cmd.ProcessState is set
}

func (p *Process) reap() {
	_ = p.cmd.Wait() // the state holds the result
	close(p.done)
}

// PID returns the process id.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Done returns a channel that is closed when the process has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// State returns how the process ended, nil while it runs.
func (p *Process) State() *os.ProcessState {
	select {
	case <-p.done:
		return p.cmd.ProcessState
	default:
		return nil
	}
}

// Wait waits until the process has ended.
func (p *Process) Wait(ctx context.Context) (*os.ProcessState, error) {
	select {
	case <-p.done:
		return p.cmd.ProcessState, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("wait for process %d to end: %w", p.PID(), ctx.Err())
	}
}

// Signal sends a signal. A process that has ended is no error.
func (p *Process) Signal(sig syscall.Signal) error {
	if err := p.cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("send %s to process %d: %w", sig, p.PID(), err)
	}
	return nil
}

// Pause freezes the process and returns when all its threads stand still; the
// signal alone does not wait for that.
func (p *Process) Pause() error {
	if err := p.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	for {
		// This does not consume the state: reap still gets it.
		err := unix.Waitid(unix.P_PID, p.PID(), nil, unix.WSTOPPED|unix.WEXITED|unix.WNOWAIT, nil)
		if err == nil || errors.Is(err, unix.ECHILD) {
			return nil
		}
		if !errors.Is(err, unix.EINTR) {
			return fmt.Errorf("wait for process %d to stop: %w", p.PID(), err)
		}
	}
}

// Resume undoes Pause.
func (p *Process) Resume() error { return p.Signal(syscall.SIGCONT) }

// Kill ends the process at once and waits for its end.
func (p *Process) Kill() error {
	if err := p.Signal(syscall.SIGKILL); err != nil {
		return err
	}
	<-p.done
	return nil
}
