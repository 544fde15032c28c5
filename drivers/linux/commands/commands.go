package commands

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/flanneld/flannel/core/command"
	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/driver"
)

// Driver is the lane of the operator's commands. One goroutine uses it at a time.
type Driver struct {
	file   *file
	record *command.Record
	lock   *os.File // nil: another process may run commands
}

var _ driver.Lane = (*Driver)(nil)

// New opens the record in a file, "" for a record that ends with the process. An
// unreadable record counts as empty; the returned warning then tells why.
func New(path string) (d *Driver, warning error) {
	f := &file{path: path}
	kept, rebooted, warning := f.read(bootID())
	d = &Driver{file: f}
	d.record = command.Open(host{f}, kept, rebooted)
	return d, warning
}

// Look implements [driver.Lane].
func (d *Driver) Look(ctx context.Context, _ dataplane.Extent) (driver.Observation, error) {
	return driver.Observation{State: d.record.State()}, ctx.Err()
}

// Apply implements [driver.Lane].
func (d *Driver) Apply(ctx context.Context, ops []dataplane.Op) []error {
	failed := d.hold()
	return driver.ApplyEach(ops, func(op dataplane.Op) error {
		if failed != nil {
			return failed
		}
		return d.record.Apply(ctx, op)
	})
}

// hold makes this process the only one that runs the commands of the record, until it
// ends. Two processes would undo each other's commands, and each would keep its own record.
func (d *Driver) hold() error {
	if d.lock != nil || d.file.path == "" {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(d.file.path), dirMode); err != nil {
		return fmt.Errorf("record of commands: %w", err)
	}
	lock, err := os.OpenFile(d.file.path+".lock", os.O_CREATE|os.O_RDWR, fileMode)
	if err != nil {
		return fmt.Errorf("record of commands: %w", err)
	}
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		if errors.Is(err, unix.EWOULDBLOCK) {
			err = fmt.Errorf("another flanneld runs the commands of this host; end one of the two: %w", driver.ErrBusy)
		}
		return errors.Join(fmt.Errorf("lock %s: %w", lock.Name(), err), lock.Close())
	}
	kept, rebooted, _ := d.file.read(bootID()) // another process may have written it since New told its faults
	d.lock, d.record = lock, command.Open(host{d.file}, kept, rebooted)
	return nil
}

// Hints implements [driver.Lane]. Only the lane itself changes the record.
func (d *Driver) Hints() <-chan struct{} { return nil }

// Close closes the files.
func (d *Driver) Close() error {
	err := d.file.close()
	if d.lock != nil {
		err = errors.Join(err, d.lock.Close())
	}
	return err
}

// host implements [command.Host].
type host struct{ file *file }

// Run implements [command.Host].
func (h host) Run(ctx context.Context, text string, about command.About) (string, error) {
	return run(ctx, h.file.folder(), text, about)
}

// Keep implements [command.Host].
func (h host) Keep(c dataplane.Command) error { return h.file.append(keepWord, c.String()) }

// Forget implements [command.Host].
func (h host) Forget(k dataplane.CommandKey) error { return h.file.append(forgetWord, k.String()) }
