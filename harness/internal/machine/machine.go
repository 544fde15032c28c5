package machine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/flanneld/flannel/harness/vm"
)

// Options say what a machine consists of.
type Options struct {
	Name     string
	Group    *Group
	Disk     string            // the folder that keeps its files across reboots
	Root     string            // a folder for its root, empty before the first boot
	Log      string            // the file for the messages of its first process
	Binds    map[string]string // the folders and files of this system that it sees, and at which places
	Kept     []string          // its folders that must not be in an overlay: overlays lie in them, or programs mount there
	Settings map[string]string // values of kernel settings that no namespace separates, by their paths below /proc/sys
	Forward  bool              // it forwards packets
	Path     []string          // the folders of programs before the usual ones
	Network  *os.File          // its network namespace; nil makes a new one

	// Guest is a virtual machine that it has for itself, with cgroups of version 2: then it has no Group, and
	// no namespace of Network. Its disk and root are in the memory of the guest, and end with it.
	Guest *vm.Machine
}

// Machine is a running machine.
type Machine struct {
	options Options
	place   place
	ended   chan struct{}
	in      io.WriteCloser
	asking  sync.Mutex // of in

	mu      sync.Mutex
	last    int
	waiting map[int]chan answer
}

// Boot starts a machine and returns when its first process serves.
func Boot(ctx context.Context, o Options) (*Machine, error) {
	m := &Machine{options: o, ended: make(chan struct{}), waiting: map[int]chan answer{}}
	m.place = &namespaces{network: o.Network}
	if o.Guest != nil {
		m.place = &emulated{guest: o.Guest}
	}
	started := make(chan answer, 1)
	m.waiting[0] = started
	if err := m.start(); err != nil {
		return nil, fmt.Errorf("boot %s: %w", o.Name, err)
	}
	select {
	case <-started:
		return m, nil
	case <-m.ended:
		text, _ := os.ReadFile(o.Log)
		return nil, fmt.Errorf("boot %s: its first process ended: %s", o.Name, text)
	case <-ctx.Done():
		return nil, errors.Join(fmt.Errorf("boot %s: %w", o.Name, ctx.Err()), m.PowerOff())
	}
}

// start starts the first process.
func (m *Machine) start() error {
	p, err := m.plan()
	if err != nil {
		return err
	}
	log, err := os.OpenFile(m.options.Log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer log.Close() // the process has its own copy
	std, err := m.place.start(p, log)
	if err != nil {
		return err
	}
	m.in = std.in
	go m.listen(std.out)
	return nil
}

// plan returns the argument of the first process.
func (m *Machine) plan() (string, error) {
	o := m.options
	cgroups := guestCgroups
	if o.Guest == nil {
		var err error
		cgroups, err = o.Group.makeFor(o.Name)
		if err != nil {
			return "", err
		}
	}
	text, err := json.Marshal(plan{Name: o.Name, Disk: o.Disk, Root: o.Root, Binds: o.Binds, Kept: o.Kept,
		Settings: o.Settings, Forward: o.Forward, Path: o.Path, Cgroups: cgroups, Network: o.Network != nil})
	return string(text), err
}

// listen hands out the answers of the first process.
func (m *Machine) listen(out io.ReadCloser) {
	answers := json.NewDecoder(out)
	for {
		var a answer
		if err := answers.Decode(&a); err != nil {
			_ = out.Close() // so that nothing waits to write more
			m.place.wait()
			close(m.ended)
			return
		}
		m.mu.Lock()
		waiting := m.waiting[a.ID]
		delete(m.waiting, a.ID)
		m.mu.Unlock()
		if waiting != nil {
			waiting <- a
		}
	}
}

// ask sends a request to the first process.
func (m *Machine) ask(ctx context.Context, r request) (answer, error) {
	reply := make(chan answer, 1)
	m.mu.Lock()
	m.last++
	r.ID = m.last
	m.waiting[r.ID] = reply
	m.mu.Unlock()
	m.asking.Lock()
	err := json.NewEncoder(m.in).Encode(r)
	m.asking.Unlock()
	if err != nil {
		return answer{}, fmt.Errorf("%s: %w", m.options.Name, err)
	}
	select {
	case a := <-reply:
		if a.Err != "" {
			return a, fmt.Errorf("%s: %s", m.options.Name, a.Err)
		}
		return a, nil
	case <-m.ended:
		return answer{}, fmt.Errorf("%s: the machine went off", m.options.Name)
	case <-ctx.Done():
		return answer{}, fmt.Errorf("%s: %s: %w", m.options.Name, strings.Join(r.Args, " "), ctx.Err())
	}
}

// PID returns the id of the first process, whose namespaces are the machine's. It is 0 for one in a guest.
func (m *Machine) PID() int { return m.place.pid() }

// Run runs a program to its end and returns its output.
func (m *Machine) Run(ctx context.Context, args ...string) (string, error) {
	a, err := m.ask(ctx, request{Args: append([]string{"/usr/bin/env"}, args...)})
	if err == nil && a.Status != 0 {
		err = fmt.Errorf("%s: %s: status %d: %s", m.options.Name, strings.Join(args, " "), a.Status, a.Output)
	}
	return a.Output, err
}

// Daemon starts a program and does not wait for its end. Its log is named after it.
func (m *Machine) Daemon(ctx context.Context, name string, args ...string) error {
	_, err := m.ask(ctx, request{Log: name, Args: append([]string{"/usr/bin/env"}, args...)})
	return err
}

// Kill kills one of the machine's daemons, by its name.
func (m *Machine) Kill(ctx context.Context, daemon string) error {
	_, err := m.ask(ctx, request{Stop: daemon})
	return err
}

// PowerOff ends all processes of the machine at once. Its disk stays, except in a guest.
func (m *Machine) PowerOff() error {
	if err := m.place.kill(); err != nil {
		return fmt.Errorf("power off %s: %w", m.options.Name, err)
	}
	<-m.ended
	return nil
}

// LogTail returns the end of the log of a daemon. Only that in a guest needs the machine to run.
func (m *Machine) LogTail(daemon string) string {
	if m.options.Guest == nil {
		text := m.Log(daemon)
		return text[max(0, len(text)-4000):]
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	text, err := m.Run(ctx, "tail", "--bytes=4000", filepath.Join(logDir, logFile(daemon)))
	if err != nil {
		return err.Error()
	}
	return text
}

// Log returns the whole log of a daemon, also of former boots, or why it cannot be read. The machine must have
// no guest.
func (m *Machine) Log(daemon string) string {
	text, err := os.ReadFile(filepath.Join(keptPath(m.options.Disk, logDir), logFile(daemon)))
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// logFile returns the name of the file with the log of a daemon.
func logFile(daemon string) string { return daemon + ".log" }
