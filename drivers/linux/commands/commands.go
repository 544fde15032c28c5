package commands

import (
	"context"

	"github.com/flanneld/flannel/core/command"
	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/driver"
)

// Driver is the lane of the operator's commands. One goroutine uses it at a time.
type Driver struct {
	file   *file
	record *command.Record
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
	errs := make([]error, len(ops))
	for i, op := range ops {
		errs[i] = d.record.Apply(ctx, op)
	}
	return errs
}

// Hints implements [driver.Lane]. Nothing but the lane itself changes the record.
func (d *Driver) Hints() <-chan struct{} { return nil }

// Close closes the file.
func (d *Driver) Close() error { return d.file.close() }

// host is the machine as package command needs it.
type host struct{ file *file }

// Run implements [command.Host].
func (host) Run(ctx context.Context, text string, about command.About) (string, error) {
	return run(ctx, text, about)
}

// Keep implements [command.Host].
func (h host) Keep(c dataplane.Command) error { return h.file.append(keepWord, c.String()) }

// Forget implements [command.Host].
func (h host) Forget(k dataplane.CommandKey) error { return h.file.append(forgetWord, k.String()) }
