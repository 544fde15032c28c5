package commands

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/flanneld/flannel/core/command"
)

// mostOutput is how much of a command's output is kept, in bytes.
const mostOutput = 1 << 20

// afterKill is how long a killed command may hold its output open: a process
// that left its group can still have it.
const afterKill = time.Second

// run runs a text with the shell in a folder. Standard input is written while the command
// runs, so neither a large input nor a large output can block it.
func run(ctx context.Context, dir, text string, about command.About) (string, error) {
	limited, cancel := context.WithTimeout(ctx, about.Limit)
	defer cancel()
	cmd := exec.CommandContext(limited, "sh", "-c", text)
	var output head
	cmd.Dir, cmd.Stdin = dir, strings.NewReader(about.Input)
	cmd.Stdout, cmd.Stderr = &output, &output
	cmd.Env = append(os.Environ(), strings.Fields(about.Env)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = afterKill
	// The kernel sends Pdeathsig when the thread that started the shell ends.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := cmd.Run()
	text = strings.TrimSpace(output.String())
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		return text, &command.ExitError{Why: "killed because the daemon ends"}
	case limited.Err() != nil:
		return text, &command.ExitError{Why: fmt.Sprintf("killed after its time limit of %s", about.Limit)}
	case errors.As(err, &exit) && exit.Exited():
		return text, &command.ExitError{Status: exit.ExitCode()}
	case errors.As(err, &exit):
		return text, &command.ExitError{Why: exit.String()}
	case errors.Is(err, exec.ErrWaitDelay): // it ended well, and a child in the background holds its output
		return text, nil
	case err != nil:
		return "", fmt.Errorf("start the shell in folder %s: %w", dir, err)
	}
	return text, nil
}

// head keeps the first bytes that are written to it, and accepts all.
type head struct{ strings.Builder }

// Write implements [io.Writer].
func (h *head) Write(p []byte) (int, error) {
	room := max(0, mostOutput-h.Len())
	_, _ = h.Builder.Write(p[:min(room, len(p))])
	return len(p), nil
}
