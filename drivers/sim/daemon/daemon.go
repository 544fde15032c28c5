package daemon

import (
	"context"
	"fmt"
	"time"

	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/driver"
	"github.com/flanneld/flannel/core/lease"
	"github.com/flanneld/flannel/core/node"
	"github.com/flanneld/flannel/core/subnetfile"
	"github.com/flanneld/flannel/drivers/sim/charon"
	"github.com/flanneld/flannel/drivers/sim/cloud"
	"github.com/flanneld/flannel/drivers/sim/kernel"
	"github.com/flanneld/flannel/drivers/sim/store"
	"github.com/flanneld/flannel/drivers/sim/world"
)

// Options say how a host runs its flanneld.
type Options struct {
	// Node fixes the node's behaviour. The daemon sets Rand, Previous and
	// Saved.
	Node node.Options
	// Reachable reports whether the host's packets get to the datastore and
	// back at present; default always.
	Reachable func() bool
	// Servers are the flannel servers that the daemon gets its leases from; none: from the datastore.
	Servers []*store.Server
	// Cloud is the provider of which the host is an instance; nil: it is none.
	Cloud *cloud.Cloud
	// OneByOne lets time pass between any two ops of a plan, so that other
	// events, or a kill, may come in between.
	OneByOne bool
	// Respawn is the supervisor's delay before it starts a failed daemon again;
	// 0: it does not.
	Respawn time.Duration
	// Wrap may wrap the parts of each new process; by default they are used as
	// they are.
	Wrap func(Parts) Parts

	OnSubnetFile func(text []byte) // the subnet file has been replaced
	OnLog        func(line string)
	OnExit       func(node.Exit)
}

// Daemon is flanneld as a service of a host: at most one process at a time,
// files that outlive it, and a clock that may be wrong. The process does with a
// [node.Node] in virtual time the work of package agent.
type Daemon struct {
	host  *kernel.Host
	store *store.Store
	opts  Options

	crew    *Crew  // nil: the process has no other nodes
	network string // of a crew's daemon

	process *process // nil: not running
	files   daemonFiles
	secrets *diskSecrets
	// commands is shared by the daemons of one host.
	commands *commandDisk
	noIKE    error         // why the host's IKE daemon cannot be started; nil: it can
	offset   time.Duration // of the host's clock
	log      []string
	exit     *node.Exit   // of the last process, if it ended by itself or by Stop
	again    *world.Event // the supervisor's next start
	restart  bool         // start again as soon as the process has stopped

	boundaries int
	killAt     int // the boundary at which to kill; 0: none
}

// New installs flanneld on the host, not yet started.
func New(h *kernel.Host, s *store.Store, opts Options) *Daemon {
	secrets := &diskSecrets{host: h, kept: map[dataplane.SecretName]dataplane.Secret{}}
	commands := &commandDisk{host: h, kept: map[dataplane.CommandKey]dataplane.Command{}}
	return &Daemon{host: h, store: s, opts: opts, files: newDaemonFiles(), secrets: secrets, commands: commands}
}

// Second installs flanneld on the host a second time, as an operator may do by
// mistake. Both use the same files; only the record of commands has a lock.
func (d *Daemon) Second() *Daemon {
	opts := d.opts
	opts.Wrap, opts.OnExit = nil, nil // these belong to the intended one
	return &Daemon{
		host: d.host, store: d.store, opts: opts, files: d.files, secrets: d.secrets, commands: d.commands,
	}
}

// Host returns the host of the daemon.
func (d *Daemon) Host() *kernel.Host { return d.host }

// Running reports whether there is a process, including a paused or stopping
// one.
func (d *Daemon) Running() bool { return d.process != nil }

// Active reports whether the daemon's process runs and was not asked to end. The process of a crew may
// run without a node for the daemon's network.
func (d *Daemon) Active() bool {
	if d.crew != nil {
		return d.crew.run != nil && d.crew.run.ending == nil
	}
	return d.Running() && !d.Stopping()
}

// Ended reports whether there is no process.
func (d *Daemon) Ended() bool {
	if d.crew != nil {
		return d.crew.run == nil
	}
	return !d.Running()
}

// Driver returns the host's lane as the running process sees it, with its
// packet paths; without a process, as every other program sees it.
func (d *Daemon) Driver() driver.Lane {
	if d.process == nil {
		return d.host.Driver()
	}
	return d.process.program.Driver()
}

// Observe returns the state of the host within an extent, with what belongs to the running
// process: its packet paths, and its IKE daemon if the extent asks for policies.
func (d *Daemon) Observe(extent dataplane.Extent) (*dataplane.State, error) {
	seen, err := d.Driver().Look(context.Background(), extent)
	ike := d.IKE()
	if err != nil || ike == nil || !extent.Policies {
		return seen.State, err
	}
	state := seen.State.Clone()
	ike.Observe(state)
	return state, nil
}

// IKE returns the lane of the running process's IKE daemon, or nil.
func (d *Daemon) IKE() *charon.Lane {
	if d.process == nil {
		return nil
	}
	return d.process.charon
}

// BreakIKE makes each start of the IKE daemon fail, as if its program were missing; nil ends that.
func (d *Daemon) BreakIKE(err error) {
	d.noIKE = err
	if d.process != nil {
		d.process.charon.Break(err)
	}
}

// Node returns the running process's node, or nil.
func (d *Daemon) Node() Machine {
	if d.process == nil {
		return nil
	}
	return d.process.node
}

// Client returns the running process's connection to the store, or nil.
func (d *Daemon) Client() *store.Client {
	if d.process == nil {
		return nil
	}
	return d.process.client
}

// Status returns the status of the running node; without one, the zero value.
func (d *Daemon) Status() node.Status {
	if d.process == nil {
		return node.Status{}
	}
	return d.process.node.Status()
}

// Exit returns the exit of the last process, if it ended by itself or by Stop;
// nil while one runs and after a kill.
func (d *Daemon) Exit() *node.Exit {
	if d.crew != nil {
		return d.crew.exit
	}
	return d.exit
}

// Log returns all log lines of the daemon's processes, with the virtual time.
func (d *Daemon) Log() []string { return d.log }

// name is the daemon's name in the log and in the labels of events.
func (d *Daemon) name() string {
	if d.crew != nil {
		return d.host.Name() + "/" + d.network
	}
	return d.host.Name()
}

// Start begins a process, which reads the files of the last one. It does
// nothing if there is one; after a stopping process it starts another.
func (d *Daemon) Start() {
	if d.crew != nil {
		d.crew.start()
		return
	}
	d.start()
}

func (d *Daemon) start() {
	d.again.Cancel()
	if d.process != nil {
		d.restart = d.process.stopping
		return
	}
	d.exit = nil
	d.note("start", "")
	opts := d.opts.Node
	opts.Rand = d.host.World().Rand("node/" + d.name())
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

// Stop asks the process to end, as SIGTERM does: it finishes its current
// changes of the host and of its files, and drops all else.
func (d *Daemon) Stop() {
	if d.crew != nil {
		d.crew.stop()
		return
	}
	d.stop()
}

func (d *Daemon) stop() {
	d.again.Cancel()
	d.restart = false
	if p := d.process; p != nil && !p.stopping {
		d.note("stop", "")
		p.stopping = true
		p.arrive(p.stopIfIdle)
	}
}

// Kill ends the process at once, in the middle of its work. The supervisor does
// not start it again.
func (d *Daemon) Kill() {
	if d.crew != nil {
		d.crew.kill()
		return
	}
	d.kill()
}

func (d *Daemon) kill() {
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

// Pause halts the process for a while, as SIGSTOP does: its clock continues.
func (d *Daemon) Pause(length time.Duration) { d.halt(length, false) }

// Suspend halts the process and its clock, as a sleeping or migrating machine
// does: it cannot know how long it was away. The host's kernel continues.
func (d *Daemon) Suspend(length time.Duration) { d.halt(length, true) }

func (d *Daemon) halt(length time.Duration, clock bool) {
	for _, o := range d.ofProcess() {
		o.haltNode(length, clock)
	}
}

// ofProcess returns the daemons whose nodes share the process.
func (d *Daemon) ofProcess() []*Daemon {
	if d.crew != nil {
		return d.crew.members
	}
	return []*Daemon{d}
}

func (d *Daemon) haltNode(length time.Duration, clock bool) {
	p := d.process
	if p == nil || p.halted {
		return
	}
	d.note("halt", fmt.Sprintf("%s, clock stands: %t", length, clock))
	p.halt()
	p.suspended = clock
	p.restart = d.host.World().After(length, d.name()+": continue", p.resume)
}

// Resume ends a Pause at once, as SIGCONT does.
func (d *Daemon) Resume() {
	for _, o := range d.ofProcess() {
		if p := o.process; p != nil && p.halted {
			p.restart.Cancel()
			o.note("continue", "")
			p.resume()
		}
	}
}

// SetClock sets the host's clock, relative to the world's. A running process
// does not notice, since it measures with a monotonic clock; the next one does.
func (d *Daemon) SetClock(offset time.Duration) {
	for _, o := range d.ofProcess() {
		o.offset = offset
	}
	d.note("clock", offset.String())
}

// KillAtBoundary kills the process at the n-th boundary from now; 0 cancels
// that.
func (d *Daemon) KillAtBoundary(n int) {
	d.killAt = 0
	if n > 0 {
		d.killAt = d.boundaries + n
	}
}

// ended records the end of the process.
func (d *Daemon) ended(exit node.Exit) {
	d.process.die()
	d.process = nil
	d.exit = &exit
	d.note("exited", fmt.Sprintf("%d %s", exit.Status, exit.Reason))
	if d.opts.OnExit != nil {
		d.opts.OnExit(exit)
	}
	if d.process != nil { // started by OnExit
		return
	}
	if d.restart {
		d.restart = false
		d.Start()
		return
	}
	if exit.Status != 0 && d.opts.Respawn > 0 {
		d.again = d.host.World().After(d.opts.Respawn, d.host.Name()+": respawn", d.Start)
	}
}

// note adds a line to the log and the trace.
func (d *Daemon) note(kind, text string) {
	w := d.host.World()
	w.NoteWords(d.name()+": daemon "+kind, text)
	line := fmt.Sprintf("%12.6f %s %s", w.Elapsed().Seconds(), d.name(), kind)
	if text != "" {
		line += ": " + text
	}
	d.log = append(d.log, line)
	if d.opts.OnLog != nil {
		d.opts.OnLog(line)
	}
}
