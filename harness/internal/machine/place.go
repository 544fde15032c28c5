package machine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/flanneld/flannel/harness/vm"
	"github.com/flanneld/flannel/harness/vm/wire"
)

// place is where the first process of a machine runs.
type place interface {
	// start starts the first process with its argument. Its error output goes to log, which
	// the caller closes.
	start(plan string, log *os.File) (streams, error)
	// wait waits for its end, once all of its output is read.
	wait()
	// kill ends all processes of the machine.
	kill() error
	// pid returns its process id on this system; 0 if it is on another.
	pid() int
}

// streams are the input and the output of the first process.
type streams struct {
	in  io.WriteCloser
	out io.ReadCloser
}

// namespaces are a part of this system.
type namespaces struct {
	network *os.File // see Options.Network
	first   *exec.Cmd
}

func (s *namespaces) start(plan string, log *os.File) (streams, error) {
	s.first = &exec.Cmd{Path: "/proc/self/exe", Args: []string{childEnter, plan}, Stderr: log}
	s.first.SysProcAttr = &syscall.SysProcAttr{
		Pdeathsig:  syscall.SIGKILL,
		Cloneflags: unix.CLONE_NEWPID | unix.CLONE_NEWNS | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC,
	}
	if s.network != nil {
		s.first.ExtraFiles = []*os.File{s.network}
	} else {
		s.first.SysProcAttr.Cloneflags |= unix.CLONE_NEWNET
	}
	in, err := s.first.StdinPipe()
	if err != nil {
		return streams{}, err
	}
	out, err := s.first.StdoutPipe()
	if err != nil {
		return streams{}, err
	}
	return streams{in, out}, s.first.Start()
}

func (s *namespaces) wait() { _ = s.first.Wait() }

func (s *namespaces) kill() error {
	if err := s.first.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	return nil
}

func (s *namespaces) pid() int { return s.first.Process.Pid }

// emulated is a virtual machine, whose network is the machine's. It sees this program under the same path.
type emulated struct{ guest *vm.Machine }

// inGuest starts the first process in the namespaces that it expects, except for the network's.
const inGuest = `exec unshare --mount --pid --uts --ipc --fork --kill-child ` +
	`bash -c 'exec -a ` + childEnter + ` "$0" "$1"' "$0" "$1"`

func (e *emulated) start(plan string, log *os.File) (streams, error) {
	self, err := os.Executable()
	if err != nil {
		return streams{}, err
	}
	messages, err := os.OpenFile(log.Name(), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return streams{}, err
	}
	stdin, in, err := os.Pipe() // which takes what a guest that hangs does not read
	if err != nil {
		return streams{}, errors.Join(err, messages.Close())
	}
	out, stdout := io.Pipe()
	go func() {
		defer messages.Close()
		c := wire.Command{Args: []string{"bash", "-c", inGuest, self, plan}, Env: os.Environ()}
		status, err := e.guest.Converse(context.Background(), c, stdin, stdout, messages)
		_, _ = fmt.Fprintf(messages, "the first process ended: status %d, %v\n", status, err)
		_, _ = stdin.Close(), stdout.Close()
	}()
	return streams{in, out}, nil
}

func (e *emulated) wait() {}

func (e *emulated) kill() error { return e.guest.Close() }

func (e *emulated) pid() int { return 0 }
