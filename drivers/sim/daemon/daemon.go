package daemon

import (
	"fmt"
	"time"

	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/driver"
	"github.com/flanneld/flannel/core/lease"
	"github.com/flanneld/flannel/core/node"
	"github.com/flanneld/flannel/core/subnetfile"
	"github.com/flanneld/flannel/drivers/sim/kernel"
	"github.com/flanneld/flannel/drivers/sim/store"
	"github.com/flanneld/flannel/drivers/sim/world"
)

// DaemonOptions say how a host runs its flanneld.
type Options struct {
	// Node fixes the node's behaviour. Rand, Previous and Saved are filled in.
	Node node.Options
	// Reachable tells whether the host's packets get to the datastore and
	// back at present; default always.
	Reachable func() bool
	// OneByOne lets time pass between any two ops of a plan, so that what
	// happens elsewhere, or a kill, may come in between.
	OneByOne bool
	// Respawn is how long after a failure the supervisor starts the daemon
	// again; 0: it does not.
	Respawn time.Duration
	// Wrap may put something around the parts of each new process; default
	// they are taken as they are.
	Wrap func(Parts) Parts

	OnSubnetFile func(text []byte) // the subnet file has been replaced
	OnLog        func(line string)
	OnExit       func(node.Exit)
}

// Daemon is flanneld as a service of a host: at most one process at a time,
// files that outlive it, and a clock that need not be right. The process does
// with a [node.Node] what package agent does, in virtual time.
type Daemon struct {
	host  *kernel.Host
	store *store.Store
	opts  Options

	process *process // nil: not running
	files   daemonFiles
	secrets *diskSecrets
	offset  time.Duration // of the host's clock
	log     []string
	exit    *node.Exit   // how the last process ended, if by itself or by Stop
	again   *world.Event // the supervisor's next start
	restart bool         // start again as soon as the process has stopped

	boundaries int
	killAt     int // the boundary at which to kill; 0: none
}

// NewDaemon installs flanneld on the host, not yet started.
func New(h *kernel.Host, s *store.Store, opts Options) *Daemon {
	secrets := &diskSecrets{host: h, kept: map[dataplane.SecretName]driver.Secret{}}
	return &Daemon{host: h, store: s, opts: opts, files: newDaemonFiles(), secrets: secrets}
}

// Second installs flanneld on the host once more, by mistake: with the same
// files, and nothing that keeps the two apart.
func (d *Daemon) Second() *Daemon {
	opts := d.opts
	opts.Wrap, opts.OnExit = nil, nil // which are about the one that should be there
	return &Daemon{host: d.host, store: d.store, opts: opts, files: d.files, secrets: d.secrets}
}

// Host is where the daemon runs.
func (d *Daemon) Host() *kernel.Host { return d.host }

// Running reports whether there is a process, paused and stopping ones included.
func (d *Daemon) Running() bool { return d.process != nil }

// Driver returns the host's lane as the running process sees it, with the packet
// paths that it runs; without a process, as every other program sees it.
func (d *Daemon) Driver() driver.Lane {
	if d.process == nil {
		return d.host.Driver()
	}
	return d.process.program.Driver()
}

// Node is the running process's node, or nil.
func (d *Daemon) Node() Machine {
	if d.process == nil {
		return nil
	}
	return d.process.node
}

// Client is the running process's connection to the store, or nil.
func (d *Daemon) Client() *store.Client {
	if d.process == nil {
		return nil
	}
	return d.process.client
}

// Status is what the running node says of itself; of none, nothing.
func (d *Daemon) Status() node.Status {
	if d.process == nil {
		return node.Status{}
	}
	return d.process.node.Status()
}

// Exit is how the last process ended, if by itself or by Stop; nil while one
// runs and after a kill.
func (d *Daemon) Exit() *node.Exit { return d.exit }

// Log lists all that the daemon's processes logged, with the virtual time.
func (d *Daemon) Log() []string { return d.log }

// Start begins a process, which reads what the last one left in its files. It
// does nothing if there is one; one that is stopping is followed by another.
func (d *Daemon) Start() {
	d.again.Cancel()
	if d.process != nil {
		d.restart = d.process.stopping
		return
	}
	d.exit = nil
	d.note("start", "")
	opts := d.opts.Node
	opts.Rand = d.host.World().Rand("node/" + d.host.Name())
	opts.Previous, opts.Saved = lease.Key{}, nil
	if text, ok := d.File(node.SubnetFile); ok {
		opts.Previous = subnetfile.Previous(text)
	}
	if data, ok := d.File(node.StateFile); ok {
		opts.Saved = data
	}
	d.process = newProcess(d, opts)
	d.process.begin()
}

// Stop asks the process to end, as SIGTERM does: what it is doing to the host
// or to its files it finishes, all else it drops.
func (d *Daemon) Stop() {
	d.again.Cancel()
	d.restart = false
	if p := d.process; p != nil && !p.stopping {
		d.note("stop", "")
		p.stopping = true
		p.arrive(p.stopIfIdle)
	}
}

// Kill ends the process at once, in the middle of whatever it does. The
// supervisor takes no notice.
func (d *Daemon) Kill() {
	d.again.Cancel()
	d.restart = false
	if d.process != nil {
		d.note("kill", "")
		d.process.die()
		d.process = nil
	}
}

// Restart stops the process, and starts one as soon as there is none.
func (d *Daemon) Restart() {
	d.Stop()
	if d.process == nil {
		d.Start()
		return
	}
	d.restart = true
}

// Pause halts the process for a while, as SIGSTOP does: its clock goes on.
func (d *Daemon) Pause(length time.Duration) { d.halt(length, false) }

// Suspend halts the process and its clock, as a sleeping or migrating machine
// does: it cannot know how long it was away. The host's kernel goes on.
func (d *Daemon) Suspend(length time.Duration) { d.halt(length, true) }

func (d *Daemon) halt(length time.Duration, clock bool) {
	p := d.process
	if p == nil || p.halted {
		return
	}
	d.note("halt", fmt.Sprintf("%s, clock stands: %t", length, clock))
	p.halt()
	p.suspended = clock
	p.restart = d.host.World().After(length, d.host.Name()+": continue", p.resume)
}

// Resume ends a Pause at once, as SIGCONT does.
func (d *Daemon) Resume() {
	if p := d.process; p != nil && p.halted {
		p.restart.Cancel()
		d.note("continue", "")
		p.resume()
	}
}

// SetClock sets the host's clock, relative to the world's. A running process
// does not notice, since it measures with a monotonic clock; the next one does.
func (d *Daemon) SetClock(offset time.Duration) {
	d.offset = offset
	d.note("clock", offset.String())
}

// Boundaries counts the moments so far at which a kill would leave the host,
// its files or the store in a state of their own: before and after every
// effect of a process, and between the ops of a plan if they go one by one.
func (d *Daemon) Boundaries() int { return d.boundaries }

// KillAtBoundary kills the process at the n-th boundary from now; 0 takes that back.
func (d *Daemon) KillAtBoundary(n int) {
	d.killAt = 0
	if n > 0 {
		d.killAt = d.boundaries + n
	}
}

// ended takes note that the process is gone.
func (d *Daemon) ended(exit node.Exit) {
	d.process.die()
	d.process = nil
	d.exit = &exit
	d.note("exited", fmt.Sprintf("%d %s", exit.Status, exit.Reason))
	if d.opts.OnExit != nil {
		d.opts.OnExit(exit)
	}
	switch {
	case d.process != nil: // started by OnExit
	case d.restart:
		d.restart = false
		d.Start()
	case exit.Status != 0 && d.opts.Respawn > 0:
		d.again = d.host.World().After(d.opts.Respawn, d.host.Name()+": respawn", d.Start)
	}
}

// note puts something into the log and the trace.
func (d *Daemon) note(kind, text string) {
	w := d.host.World()
	w.Note(d.host.Name()+": daemon "+kind, text)
	line := fmt.Sprintf("%12.6f %s %s", w.Elapsed().Seconds(), d.host.Name(), kind)
	if text != "" {
		line += ": " + text
	}
	d.log = append(d.log, line)
	if d.opts.OnLog != nil {
		d.opts.OnLog(line)
	}
}
