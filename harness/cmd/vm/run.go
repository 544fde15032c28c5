package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/flanneld/flannel/harness/vm"
	"github.com/flanneld/flannel/internal/pace"
)

// folders is a repeatable flag.
type folders []string

// String implements flag.Value.
func (f *folders) String() string { return strings.Join(*f, " ") }

// Set implements flag.Value.
func (f *folders) Set(dir string) error {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(abs, 0o755); err != nil {
		return err
	}
	*f = append(*f, abs)
	return nil
}

// silentStatus is the exit status if the guest stopped answering, whatever the status of
// the command: it may succeed in another machine. It is EX_TEMPFAIL of sysexits.h.
const silentStatus = 75

// run boots a machine, and runs a command on the host that uses it.
func run(args []string) (int, error) {
	flags := flag.NewFlagSet("vm run", flag.ContinueOnError)
	var writable folders
	flags.Var(&writable, "writable", "a folder of the host that programs in the machine may change (repeatable)")
	limit := flags.Duration("limit", 30*time.Minute, "the time after which the machine is killed")
	if err := flags.Parse(args); err != nil {
		return 2, err
	}
	if flags.NArg() == 0 {
		return 2, errors.New("run: no command")
	}
	// The machine dies with this process, and this process with its own parent.
	if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0); err != nil {
		return 1, fmt.Errorf("ask to end with the parent: %w", err)
	}
	signalled, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	ctx, cancel := context.WithTimeoutCause(signalled, *limit, fmt.Errorf("the machine ran for %s", *limit))
	defer cancel()
	status, err := withMachine(ctx, writable, flags.Args())
	if ctx.Err() != nil {
		err = errors.Join(context.Cause(ctx), err)
	}
	if errors.Is(err, vm.ErrSilent) {
		status = silentStatus
	}
	return status, err
}

func withMachine(ctx context.Context, writable []string, args []string) (int, error) {
	scratch, err := vm.NewScratch()
	if err != nil {
		return 1, err
	}
	defer scratch.Remove()
	work := scratch.Dir
	self, err := os.Executable()
	if err != nil {
		return 1, err
	}
	if err := vm.Check(); err != nil {
		return 1, err
	}
	kernel, err := vm.Fetch(ctx)
	if err != nil {
		return 1, err
	}
	started := time.Now()
	machine, err := vm.Boot(ctx, vm.Options{Kernel: kernel, Guest: self, Writable: append(writable, work)})
	if err != nil {
		return 1, err
	}
	defer machine.Close()
	booted := time.Since(started)
	slowness, err := machine.Slowness(ctx, self)
	if err != nil {
		return 1, err
	}
	fmt.Fprintf(os.Stderr, "vm: kernel %s booted in %.1fs; %.1f times slower than this host\n",
		kernel.Release, booted.Seconds(), slowness)
	server, err := vm.Serve(machine, work, []string{pace.Env + "=" + strconv.FormatFloat(slowness, 'f', 1, 64)})
	if err != nil {
		return 1, err
	}
	status, err := here(ctx, args, []string{vm.SocketEnv + "=" + server.Path(), "GOTMPDIR=" + work})
	// Close the machine first: the service waits for its commands, and a guest that hangs ends none.
	return status, errors.Join(err, machine.Silent(), machine.Close(), server.Close())
}

// here runs the command on the host. Go keeps its files in the folder that
// programs in the machine may change, so that tests find their profiles there.
func here(ctx context.Context, args, env []string) (int, error) {
	runtime.LockOSThread() // the command ends with this thread
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Stdin = os.Stdin
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 10 * time.Second // then it is killed
	err := cmd.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return max(1, exit.ExitCode()), nil
	}
	return 0, err
}
