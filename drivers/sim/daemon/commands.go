package daemon

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/flanneld/flannel/core/command"
	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/driver"
	"github.com/flanneld/flannel/drivers/sim/kernel"
	"github.com/flanneld/flannel/drivers/sim/shell"
)

// commandDisk is the part of a host that outlives the processes that run the
// operator's commands: the record of commands.
type commandDisk struct {
	host     *kernel.Host
	kept     map[dataplane.CommandKey]dataplane.Command
	rebooted bool // since the last process read the record
	broken   bool
	slow     time.Duration
}

// BreakCommands makes every command fail, as without the programs that it needs.
func (d *Daemon) BreakCommands(on bool) { d.commands.broken = on }

// SlowCommands makes every command take that much longer.
func (d *Daemon) SlowCommands(by time.Duration) { d.commands.slow = by }

// NoteReboot notes that the machine has booted since the last process.
func (d *Daemon) NoteReboot() { d.commands.rebooted = true }

// Run implements [command.Host].
func (d *commandDisk) Run(_ context.Context, text string, about command.About) (string, error) {
	d.host.World().Note(d.host.Name()+": command", fmt.Sprintf("%s %q %s %q", about.Env, about.Input, text, about.Limit))
	if d.slow >= about.Limit {
		return "", &command.ExitError{Why: fmt.Sprintf("killed after its time limit of %s", about.Limit)}
	}
	if d.broken {
		return "sh: 1: ip: not found", &command.ExitError{Status: shell.NotFound}
	}
	output, status := shell.Run(text, strings.Fields(about.Env), about.Input, ipRoute{d.host})
	if status != 0 {
		return output, &command.ExitError{Status: status}
	}
	return output, nil
}

// Keep implements [command.Host].
func (d *commandDisk) Keep(c dataplane.Command) error { d.kept[c.CommandKey] = c; return nil }

// Forget implements [command.Host].
func (d *commandDisk) Forget(k dataplane.CommandKey) error { delete(d.kept, k); return nil }

// ipRoute is the program ip of a host.
type ipRoute struct{ host *kernel.Host }

// Route implements [shell.Router]. The texts of errors are the kernel's.
func (r ipRoute) Route(verb string, dst netip.Prefix, via netip.Addr) error {
	err := r.host.IPRoute(verb, dst, via)
	for known, text := range map[error]string{
		driver.ErrExists:      "File exists",
		driver.ErrNotFound:    "No such process",
		driver.ErrUnreachable: "Network is unreachable",
	} {
		if errors.Is(err, known) {
			return errors.New(text)
		}
	}
	return err
}

// commandLane is the lane of commands of one process.
type commandLane struct {
	disk   *commandDisk
	record *command.Record
}

var _ driver.Lane = (*commandLane)(nil)

func newCommandLane(disk *commandDisk) *commandLane {
	kept := dataplane.NewState()
	for _, k := range slices.SortedFunc(maps.Keys(disk.kept), dataplane.CommandKey.Compare) {
		kept.AddCommand(disk.kept[k])
	}
	lane := &commandLane{disk: disk, record: command.Open(disk, kept, disk.rebooted)}
	disk.rebooted = false
	return lane
}

// Look implements [driver.Lane].
func (l *commandLane) Look(ctx context.Context, _ dataplane.Extent) (driver.Observation, error) {
	return driver.Observation{State: l.record.State()}, ctx.Err()
}

// Apply implements [driver.Lane].
func (l *commandLane) Apply(ctx context.Context, ops []dataplane.Op) []error {
	errs := make([]error, len(ops))
	for i, op := range ops {
		errs[i] = l.record.Apply(ctx, op)
	}
	return errs
}

// Hints implements [driver.Lane]: nothing changes the record but the lane itself.
func (l *commandLane) Hints() <-chan struct{} { return nil }
