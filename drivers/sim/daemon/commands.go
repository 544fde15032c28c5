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
	changes  int      // of kept
	rebooted bool     // since the last process read the record
	holder   *process // runs commands until it dies
	broken   bool
	slow     time.Duration
}

// BreakCommands makes every command fail, as if the programs that it needs were missing.
func (d *Daemon) BreakCommands(on bool) { d.commands.broken = on }

// SlowCommands makes every command take that much longer.
func (d *Daemon) SlowCommands(by time.Duration) { d.commands.slow = by }

// delay returns how much longer an op takes while commands are slow. A command is killed at its limit.
func (d *commandDisk) delay(op dataplane.Op) time.Duration {
	if c, ok := op.Object.(dataplane.Command); ok {
		return min(d.slow, c.Limit)
	}
	return d.slow
}

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
func (d *commandDisk) Keep(c dataplane.Command) error {
	d.kept[c.CommandKey] = c
	d.changes++
	return nil
}

// Forget implements [command.Host].
func (d *commandDisk) Forget(k dataplane.CommandKey) error {
	delete(d.kept, k)
	d.changes++
	return nil
}

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
	process *process
	disk    *commandDisk
	record  *command.Record
	read    int // changes of the disk that the record has seen
}

var _ driver.Lane = (*commandLane)(nil)

func newCommandLane(p *process, disk *commandDisk) *commandLane {
	lane := &commandLane{process: p, disk: disk}
	lane.open()
	return lane
}

// open reads the record.
func (l *commandLane) open() {
	kept := dataplane.NewState()
	for _, k := range slices.SortedFunc(maps.Keys(l.disk.kept), dataplane.CommandKey.Compare) {
		kept.AddCommand(l.disk.kept[k])
	}
	l.record = command.Open(l.disk, kept, l.disk.rebooted)
	l.disk.rebooted = false
	l.read = l.disk.changes
}

// lock makes this process the one that runs the host's commands, unless another one does.
func (l *commandLane) lock() error {
	holder := l.disk.holder
	switch {
	case holder == l.process:
		return nil
	case holder != nil && !holder.dead:
		return fmt.Errorf("another flanneld runs the commands of this host: %w", driver.ErrBusy)
	}
	l.disk.holder = l.process
	if l.read != l.disk.changes {
		l.open()
	}
	return nil
}

// Look implements [driver.Lane].
func (l *commandLane) Look(ctx context.Context, _ dataplane.Extent) (driver.Observation, error) {
	return driver.Observation{State: l.record.State()}, ctx.Err()
}

// Apply implements [driver.Lane].
func (l *commandLane) Apply(ctx context.Context, ops []dataplane.Op) []error {
	failed := l.lock()
	return driver.ApplyEach(ops, func(op dataplane.Op) error {
		if failed != nil {
			return failed
		}
		return l.record.Apply(ctx, op)
	})
}

// Hints implements [driver.Lane]. There are none, because only the lane itself changes the record.
func (l *commandLane) Hints() <-chan struct{} { return nil }
