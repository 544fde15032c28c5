package netspace

import (
	"errors"
	"fmt"
	"os/exec"
	"runtime"
	"sync"
	"syscall"

	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// Space is a network namespace of this process.
type Space struct {
	ns    netns.NsHandle
	using sync.RWMutex // of ns: readers enter, the writer closes
	calls chan func()  // run by the home thread
	ended chan struct{}
	close sync.Once
}

// New makes a namespace that is empty except for the loopback device, down.
func New() (*Space, error) {
	s := &Space{ns: netns.None(), calls: make(chan func()), ended: make(chan struct{})}
	ready := make(chan error)
	onOwnThread(func() { s.home(ready) })
	if err := <-ready; err != nil {
		return nil, fmt.Errorf("make a network namespace: %w", err)
	}
	return s, nil
}

// home runs on the thread that keeps the namespace.
func (s *Space) home(ready chan<- error) {
	defer close(s.ended)
	var err error
	s.ns, err = netns.New()
	ready <- err
	if err != nil {
		return
	}
	for call := range s.calls {
		call()
	}
}

// onOwnThread runs fn on a thread that ends with it. It avoids the main thread:
// Linux shows its namespace as that of the process, and Go cannot end it.
func onOwnThread(fn func()) {
	locked := func(holding chan<- struct{}) {
		runtime.LockOSThread()
		close(holding)
		fn()
	}
	go func() {
		runtime.LockOSThread()
		if unix.Gettid() != unix.Getpid() {
			fn()
			return
		}
		// While this goroutine holds the main thread, no other goroutine gets
		// it.
		holding := make(chan struct{})
		go locked(holding)
		<-holding
		runtime.UnlockOSThread()
	}()
}

// FD returns a file descriptor of the namespace, valid until Close.
func (s *Space) FD() int { return int(s.ns) }

// Do runs fn inside the namespace, on the calling goroutine. Sockets that fn
// opens belong to the namespace and work everywhere; goroutines and processes
// that it starts do not: for a process use Start.
func (s *Space) Do(fn func() error) (err error) {
	runtime.LockOSThread()
	before, err := netns.Get()
	if err != nil {
		runtime.UnlockOSThread()
		return fmt.Errorf("remember the current network namespace: %w", err)
	}
	defer func() {
		if back := netns.Set(before); back != nil {
			// The thread stays locked, so it ends with the goroutine and
			// no other goroutine runs in the wrong namespace.
			err = errors.Join(err, fmt.Errorf("return from a network namespace: %w", back))
		} else {
			runtime.UnlockOSThread()
		}
		err = errors.Join(err, before.Close())
	}()
	s.using.RLock()
	err = netns.Set(s.ns)
	s.using.RUnlock()
	if err != nil {
		return fmt.Errorf("enter a network namespace: %w", err)
	}
	return fn()
}

// Start starts a process inside the namespace. The kernel kills it when this
// process dies or the Space is closed. It is in a process group of its own, so
// that a Ctrl-C at the terminal reaches only this process, which ends it in order.
func (s *Space) Start(cmd *exec.Cmd) (*Process, error) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	started := make(chan error)
	s.calls <- func() { started <- cmd.Start() }
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start a process: %w", err)
	}
	p := &Process{cmd: cmd, done: make(chan struct{})}
	go p.reap()
	return p, nil
}

// Close releases the namespace, which ends with the last socket opened in it.
// Do fails from then on: the client of a store may still be dialling. Do not
// call Start after Close.
func (s *Space) Close() error {
	var err error
	s.close.Do(func() {
		close(s.calls)
		<-s.ended
		s.using.Lock()
		defer s.using.Unlock()
		err = s.ns.Close()
	})
	return err
}
