package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// check is a program that passes, or fails, with the mutants of one package in it.
type check struct {
	name string
	dir  string // where it runs
	argv []string

	reached map[int]bool
	cpu     time.Duration // what it takes when nothing is wrong
	wall    time.Duration
}

// memory bounds the allocations of each process. A mutant may allocate without end.
const memory = 4 << 30

// limitMemory holds for this process and all that it starts.
func limitMemory() error {
	err := unix.Setrlimit(unix.RLIMIT_DATA, &unix.Rlimit{Cur: memory, Max: memory})
	if err != nil {
		return fmt.Errorf("limit memory: %w", err)
	}
	return nil
}

// limits bound every run of a check.
type limits struct {
	// apart gives each run a process namespace, whose end also ends all its
	// processes. It needs rights over the namespaces.
	apart bool
	// grace is the CPU time that each run may take beyond a multiple of what the
	// check needs without a mutant.
	grace time.Duration
}

// measure runs the check without any mutant, and notes which mutants it reaches
// and how long it takes. The check must pass, also under the limits of the runs
// that follow.
func (c *check) measure(ctx context.Context, scratch string, l limits) error {
	notes := filepath.Join(scratch, "reached")
	if err := os.Remove(notes); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	cmd := c.command(ctx, l, reachedEnv+"="+notes)
	output, err := os.Create(filepath.Join(scratch, "output"))
	if err != nil {
		return err
	}
	defer output.Close()
	cmd.Stdout, cmd.Stderr = output, output
	began := time.Now()
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s fails without any mutant: %w\n%s", c.name, err, tail(output.Name()))
	}
	c.wall = time.Since(began)
	c.cpu = cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	c.reached, err = readNumbers(notes)
	if err != nil {
		return err
	}
	failed, err := c.catches(ctx, 0, l)
	if err == nil && failed {
		err = fmt.Errorf("%s fails under its limits without any mutant", c.name)
	}
	return err
}

// catches reports whether the check fails with this mutant. A run that takes
// much longer than without a mutant has failed too.
func (c *check) catches(ctx context.Context, id int, l limits) (bool, error) {
	limited, cancel := context.WithTimeout(ctx, 10*(c.wall+l.grace))
	defer cancel()
	cmd := c.command(limited, l, chosenEnv+"="+strconv.Itoa(id))
	if err := cmd.Start(); err != nil {
		return false, fmt.Errorf("%s: %w", c.name, err)
	}
	limitErr := c.limit(cmd.Process.Pid, l.grace)
	err := cmd.Wait()
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		return false, ctx.Err()
	case errors.As(err, &exit):
		return true, nil
	case err != nil:
		return false, fmt.Errorf("%s: %w", c.name, err)
	case limitErr != nil && !errors.Is(limitErr, unix.ESRCH):
		return false, fmt.Errorf("limit %s: %w", c.name, limitErr)
	}
	return false, nil
}

// limit bounds the CPU time of a process just started. Unlike wall time, it does
// not depend on the load of the machine.
func (c *check) limit(pid int, grace time.Duration) error {
	seconds := uint64((5*c.cpu + grace) / time.Second)
	return unix.Prlimit(pid, unix.RLIMIT_CPU, &unix.Rlimit{Cur: seconds, Max: seconds}, nil)
}

// command runs the check on one core, since many run in parallel.
func (c *check) command(ctx context.Context, l limits, env ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, c.argv[0], c.argv[1:]...)
	cmd.Dir = c.dir
	cmd.Env = append(append(os.Environ(), "GOMAXPROCS=1", "WORLD=sim"), env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if l.apart {
		cmd.SysProcAttr.Cloneflags = unix.CLONE_NEWPID | unix.CLONE_NEWNS
	}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 10 * time.Second
	return cmd
}

// readNumbers reads a file with a number a line, which need not exist.
func readNumbers(name string) (map[int]bool, error) {
	text, err := os.ReadFile(name)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	numbers := map[int]bool{}
	for _, field := range strings.Fields(string(text)) {
		n, err := strconv.Atoi(field)
		if err != nil {
			return nil, fmt.Errorf("read the mutants reached: %w", err)
		}
		numbers[n] = true
	}
	return numbers, nil
}

// tail returns the end of a file.
func tail(name string) string {
	f, err := os.Open(name)
	if err != nil {
		return err.Error()
	}
	defer f.Close()
	text, err := io.ReadAll(f)
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-3000):])
}
