package linux

import (
	"context"
	"errors"
	"fmt"
	"runtime"

	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/flanneld/flannel/core/driver"
)

// Driver is one network namespace. Its sockets belong to that namespace, so
// that it may be called from any thread; calls are made one at a time.
type Driver struct {
	ns    netns.NsHandle // closed unless the driver was opened for a given one
	bulk  *conn          // dumps and batches
	query *conn          // single requests, also while a dump or batch is in work
	hints *hints
	peers int // how many routes were seen last, to size maps
}

var _ driver.Driver = (*Driver)(nil)

// New opens the driver of the network namespace that the process is in.
func New(ctx context.Context) (*Driver, error) {
	return open(ctx, netns.None())
}

// Open opens the driver of the given network namespace, of which it keeps a
// handle of its own.
func Open(ctx context.Context, ns netns.NsHandle) (*Driver, error) {
	own, err := duplicate(ns)
	if err != nil {
		return nil, fmt.Errorf("keep network namespace: %w", err)
	}
	d, err := open(ctx, own)
	if err != nil {
		return nil, errors.Join(err, own.Close())
	}
	return d, nil
}

func open(ctx context.Context, ns netns.NsHandle) (*Driver, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	d := &Driver{ns: ns}
	err := d.inside(func() (err error) {
		if d.bulk, err = openConn(); err != nil {
			return err
		}
		if d.query, err = openConn(); err != nil {
			return errors.Join(err, d.bulk.close())
		}
		if d.hints, err = startHints(d.bulk.port, d.query.port); err != nil {
			return errors.Join(err, d.bulk.close(), d.query.close())
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return d, nil
}

// Close ends the driver's goroutine and releases what it holds.
func (d *Driver) Close() error {
	err := errors.Join(d.hints.stop(), d.bulk.close(), d.query.close())
	if d.ns.IsOpen() {
		err = errors.Join(err, d.ns.Close())
	}
	return err
}

// Hints implements [driver.Driver].
func (d *Driver) Hints() <-chan struct{} { return d.hints.out }

// duplicate returns a second handle of a namespace.
func duplicate(ns netns.NsHandle) (netns.NsHandle, error) {
	fd, err := unix.FcntlInt(uintptr(ns), unix.F_DUPFD_CLOEXEC, 0)
	return netns.NsHandle(fd), err
}

// inside runs f where the driver's namespace is the current one, which
// /proc/sys and new sockets go by. A driver made by New never switches, which
// would take CAP_SYS_ADMIN.
func (d *Driver) inside(f func() error) error {
	if !d.ns.IsOpen() {
		return f()
	}
	done := make(chan error)
	go func() {
		// A thread that cannot go back is not unlocked and ends with the goroutine.
		runtime.LockOSThread()
		home, err := netns.Get()
		if err != nil {
			done <- fmt.Errorf("find own network namespace: %w", err)
			return
		}
		defer home.Close()
		if err := netns.Set(d.ns); err != nil {
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
