// Package namespace lets the drivers of this host work inside a given network
// namespace without being in it: sockets opened and processes started by
// [Namespace.Do] belong to it.
//
// It knows nothing of what is done there.
package namespace

import (
	"fmt"
	"runtime"

	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// Namespace is a network namespace. The zero value is not valid; see [Current].
type Namespace struct {
	handle netns.NsHandle // closed for the process's own namespace
}

// Current returns the process's own namespace. Working in it never switches,
// which would need CAP_SYS_ADMIN.
func Current() Namespace { return Namespace{netns.None()} }

// Keep returns the namespace of a handle. It keeps its own copy of the handle.
func Keep(ns netns.NsHandle) (Namespace, error) {
	fd, err := unix.FcntlInt(uintptr(ns), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return Current(), fmt.Errorf("keep network namespace: %w", err)
	}
	return Namespace{netns.NsHandle(fd)}, nil
}

// Close releases the namespace.
func (n Namespace) Close() error {
	if !n.handle.IsOpen() {
		return nil
	}
	return n.handle.Close()
}

// Do runs f inside the namespace. A process that f starts itself, not from a
// goroutine of its own, is inside, too.
func (n Namespace) Do(f func() error) error {
	if !n.handle.IsOpen() {
		return f()
	}
	done := make(chan error)
	go func() {
		// A thread that cannot switch back stays locked and ends with the
		// goroutine.
		runtime.LockOSThread()
		home, err := netns.Get()
		if err != nil {
			done <- fmt.Errorf("find own network namespace: %w", err)
			return
		}
		defer home.Close()
		if err := netns.Set(n.handle); err != nil {
			done <- fmt.Errorf("enter network namespace: %w", err)
			return
		}
		err = f()
		if netns.Set(home) == nil {
			runtime.UnlockOSThread()
		}
		done <- err
	}()
	return <-done
}
