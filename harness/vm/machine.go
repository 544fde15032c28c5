package vm

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/flanneld/flannel/harness/vm/guest"
	"github.com/flanneld/flannel/harness/vm/wire"
)

// Options describe a machine.
type Options struct {
	Kernel   Kernel
	Guest    string    // a static program that calls guest.Main first
	Writable []string  // folders of the host that commands may change, as absolute paths
	CPUs     int       // 1 by default: see docs/vm.md
	Memory   int       // MiB; 2048 by default
	Networks []Network // its devices besides loopback

	// Silence is how long the guest may fail to answer before the machine is
	// killed; 3 minutes by default.
	Silence time.Duration
}

// Network is a device of the guest, which is the other end of a tap device of the host. The first
// is eth0.
type Network struct {
	Tap *os.File // a queue of the device, with IFF_VNET_HDR
	MAC net.HardwareAddr
}

// silence is the default of Options.Silence: a guest on a busy host answers within
// seconds.
const silence = 3 * time.Minute

// Machine is a running virtual machine.
type Machine struct {
	files   *Scratch
	process *process
	conn    *wire.Conn
	port    io.Closer

	over       chan struct{} // closed when nothing more comes from the guest
	heard      atomic.Bool   // the guest sent something since it was last asked
	delivering atomic.Bool   // a caller is slow to read output, which is no silence of the guest

	mu       sync.Mutex
	next     int
	commands map[int]*command
	ended    error // why no command can run any more
}

// command is one that runs in the guest.
type command struct {
	stdout, stderr io.Writer
	end            chan wire.End
}

// ErrEnded says that the machine ended while a command ran, or before.
var ErrEnded = errors.New("the machine has ended")

// ErrSilent says that the machine was killed because its guest no longer answered. It
// is an [ErrEnded].
var ErrSilent = fmt.Errorf("%w: its guest does not answer", ErrEnded)

// Crash is the error of a machine that ended by itself. It is an [ErrEnded].
type Crash struct {
	Console string // a file with everything that the machine's console printed
	tail    string
}

// Error implements error.
func (c *Crash) Error() string {
	return fmt.Sprintf("%v; its console, all of it in %s, ends with:\n%s", ErrEnded, c.Console, c.tail)
}

// Unwrap makes the error an ErrEnded.
func (c *Crash) Unwrap() error { return ErrEnded }

// Boot starts a machine and waits until it accepts commands, or until ctx ends. The
// caller closes it.
func Boot(ctx context.Context, o Options) (*Machine, error) {
	if err := Check(); err != nil {
		return nil, err
	}
	files, err := NewScratch()
	if err != nil {
		return nil, err
	}
	m := &Machine{files: files, over: make(chan struct{}), commands: map[int]*command{}}
	if err := m.boot(ctx, o); err != nil {
		return nil, errors.Join(fmt.Errorf("boot kernel %s: %w", o.Kernel.Release, err), m.Close())
	}
	return m, nil
}

func (m *Machine) boot(ctx context.Context, o Options) error {
	plan := guest.Plan{Release: o.Kernel.Release, Modules: o.Kernel.Modules(), Writable: o.Writable}
	initramfs := filepath.Join(m.files.Dir, "initramfs")
	var modules []string
	if len(o.Networks) > 0 {
		modules = append(modules, "virtio_net")
	}
	if err := writeInitramfs(initramfs, o.Kernel, o.Guest, plan, modules...); err != nil {
		return err
	}
	ours, theirs, err := socketPair()
	if err != nil {
		return err
	}
	m.port, m.conn = ours, wire.NewConn(ours)
	m.process, err = startQEMU(o, initramfs, m.console(), theirs)
	_ = theirs.Close() // QEMU has its own
	if err != nil {
		return err
	}
	ready := make(chan struct{})
	go m.receive(ready)
	select {
	case <-ready:
		go m.watch(cmp.Or(o.Silence, silence))
		return os.Remove(initramfs)
	case <-m.over:
		return m.why()
	case <-ctx.Done():
		err := m.process.kill()
		<-m.over
		return errors.Join(fmt.Errorf("wait for the guest: %w", ctx.Err()), m.why(), err)
	}
}

// receive reads what the guest sends until the machine ends.
func (m *Machine) receive(ready chan<- struct{}) {
	defer close(m.over)
	for {
		message, err := m.conn.Receive()
		if err != nil {
			break
		}
		m.heard.Store(true)
		if message.Ready {
			close(ready)
			continue
		}
		m.delivering.Store(true)
		m.deliver(message)
		m.delivering.Store(false)
	}
	_ = m.process.kill()
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.ended == nil { // not by Close
		m.ended = m.explain()
	}
	for _, c := range m.commands {
		close(c.end)
	}
	m.commands = nil
}

// watch kills the machine if its guest is silent for that long. A guest whose kernel or
// emulator hangs would keep callers waiting forever.
func (m *Machine) watch(silence time.Duration) {
	ask := time.NewTicker(silence)
	defer ask.Stop()
	for {
		m.heard.Store(false)
		// In another goroutine, because a guest that hangs does not read either.
		go func() { _ = m.conn.Send(wire.Message{Alive: true}) }()
		select {
		case <-m.over:
			return
		case <-ask.C:
		}
		if m.heard.Load() || m.delivering.Load() {
			continue
		}
		m.mu.Lock()
		if m.ended == nil {
			m.ended = fmt.Errorf("%w for %s: %w", ErrSilent, silence, m.explain())
		}
		m.mu.Unlock()
		_ = m.process.kill() // receive sees the end
		return
	}
}

// deliver passes a message on to the command's owner.
func (m *Machine) deliver(message wire.Message) {
	m.mu.Lock()
	c := m.commands[message.ID]
	if message.End != nil {
		delete(m.commands, message.ID)
	}
	m.mu.Unlock()
	switch {
	case c == nil:
		return
	case message.End != nil:
		c.end <- *message.End
	case message.Stdout != nil:
		_, _ = c.stdout.Write(message.Stdout) // the command continues, like one with a closed pipe
	case message.Stderr != nil:
		_, _ = c.stderr.Write(message.Stderr)
	}
}

// Run runs a command, and returns its exit status when it has ended and all its
// output is written. When ctx ends, the guest kills the command. The error is not nil if
// the command could not run, ctx ended, or the machine did.
func (m *Machine) Run(ctx context.Context, c wire.Command, stdout, stderr io.Writer) (int, error) {
	return m.run(ctx, c, stdout, stderr, func(int) {})
}

// Converse is Run for a command with input. The command must read it: 64 kB unread stop the
// guest. The caller closes stdin afterwards, if a read from it blocks.
func (m *Machine) Converse(
	ctx context.Context, c wire.Command, stdin io.Reader, stdout, stderr io.Writer,
) (int, error) {
	c.Input = true
	return m.run(ctx, c, stdout, stderr, func(id int) { go m.feed(id, stdin) })
}

// feed sends a command its input.
func (m *Machine) feed(id int, stdin io.Reader) {
	text := make([]byte, 16<<10)
	for {
		n, err := stdin.Read(text)
		if n > 0 && m.conn.Send(wire.Message{ID: id, Stdin: text[:n]}) != nil {
			return // the machine has ended
		}
		if err != nil {
			return
		}
	}
}

// run is Run, and also reports the command's number once the guest knows of it.
func (m *Machine) run(
	ctx context.Context, c wire.Command, stdout, stderr io.Writer, started func(id int),
) (int, error) {
	running := &command{stdout: stdout, stderr: stderr, end: make(chan wire.End, 1)}
	id, err := m.enlist(running)
	if err != nil {
		return 1, err
	}
	if err := m.conn.Send(wire.Message{ID: id, Start: &c}); err != nil {
		return 1, errors.Join(err, m.why())
	}
	started(id)
	stopped := context.AfterFunc(ctx, func() {
		_ = m.conn.Send(wire.Message{ID: id, Signal: syscall.SIGKILL}) // the machine may just have ended
	})
	defer stopped()
	end, ok := <-running.end
	switch {
	case !ok:
		return 1, m.why()
	case end.Reason != "":
		return end.Status, fmt.Errorf("run %q in the machine: %s", c.Args, end.Reason)
	default:
		return end.Status, ctx.Err()
	}
}

// enlist gives a command its number.
func (m *Machine) enlist(c *command) (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.ended != nil {
		return 0, m.ended
	}
	m.next++
	m.commands[m.next] = c
	return m.next, nil
}

func (m *Machine) why() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.ended
}

// Silent returns the error of a machine that was killed because its guest did not answer,
// or nil. It is an [ErrSilent].
func (m *Machine) Silent() error {
	if err := m.why(); errors.Is(err, ErrSilent) {
		return err
	}
	return nil
}

// Close ends the machine and removes its files. A second call does nothing.
func (m *Machine) Close() error {
	var errs []error
	m.mu.Lock()
	if m.ended == nil {
		m.ended = ErrEnded
	}
	m.mu.Unlock()
	if m.process != nil {
		errs = append(errs, m.process.kill())
	}
	if m.port != nil {
		_ = m.port.Close() // may be closed already
	}
	return errors.Join(append(errs, m.files.Remove())...)
}

func (m *Machine) console() string { return filepath.Join(m.files.Dir, "console.log") }

// consoleTail is the number of lines of the console that an error quotes. After a panic
// of the kernel it quotes all from the line that names the reason.
const consoleTail = 40

// explain says how the machine ended, and keeps its console.
func (m *Machine) explain() error {
	text, err := os.ReadFile(m.console())
	if err != nil {
		return fmt.Errorf("%w; its console: %w", ErrEnded, err)
	}
	kept, err := os.CreateTemp("", "flannel-vm-console-*.log")
	if err != nil {
		return fmt.Errorf("%w; keep its console: %w", ErrEnded, err)
	}
	defer kept.Close()
	if _, err := kept.Write(text); err != nil {
		return fmt.Errorf("%w; keep its console: %w", ErrEnded, err)
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	first := max(0, len(lines)-consoleTail)
	panicked := func(line string) bool { return strings.Contains(line, "Kernel panic") }
	if at := slices.IndexFunc(lines, panicked); at >= 0 {
		first = min(first, at)
	}
	lines = lines[first:]
	return &Crash{Console: kept.Name(), tail: strings.Join(lines, "\n")}
}
