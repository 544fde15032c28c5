package guest

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/flanneld/flannel/harness/vm/wire"
)

// outputGrace is how long a command's output may stay open after its end. Only
// processes that it left behind hold it open.
const outputGrace = 2 * time.Second

// agent runs the host's commands.
type agent struct {
	conn *wire.Conn

	mu      sync.Mutex
	running map[int]*os.Process
	inputs  map[int]*os.File // the ends to write to, of the commands that read input
}

// serve runs commands until the host closes the serial port.
func serve() error {
	loopback, err := netlink.LinkByName("lo")
	if err == nil {
		err = netlink.LinkSetUp(loopback)
	}
	if err != nil {
		return fmt.Errorf("set the loopback device up: %w", err)
	}
	// The module makes /dev/net/tun. Programs that open it expect that to load the module.
	if said, err := exec.Command("modprobe", "tun").CombinedOutput(); err != nil {
		return fmt.Errorf("load the module tun: %w: %s", err, said)
	}
	// Otherwise each new namespace has a tunl0 as soon as a test has loaded ipip.
	if err := os.WriteFile("/proc/sys/net/core/fb_tunnels_only_for_init_net", []byte("1"), 0); err != nil {
		return fmt.Errorf("keep fallback tunnels out of namespaces: %w", err)
	}
	port, err := openPort()
	if err != nil {
		return err
	}
	a := &agent{conn: wire.NewConn(port), running: map[int]*os.Process{}, inputs: map[int]*os.File{}}
	if err := a.conn.Send(wire.Message{Ready: true}); err != nil {
		return err
	}
	for {
		m, err := a.conn.Receive()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read from the host: %w", err)
		}
		switch {
		case m.Alive:
			if err := a.conn.Send(m); err != nil {
				return err
			}
		case m.Start != nil:
			a.start(m.ID, m.Start)
		case m.Stdin != nil:
			a.input(m.ID, m.Stdin)
		case m.Signal != 0:
			a.signal(m.ID, m.Signal)
		}
	}
}

// openPort opens the serial port with our name. There is no udev to make a link
// with that name.
func openPort() (*os.File, error) {
	names, err := filepath.Glob("/sys/class/virtio-ports/*/name")
	if err != nil {
		return nil, err
	}
	for _, file := range names {
		name, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		if strings.TrimSpace(string(name)) == PortName {
			// Without Go's poller, which reports the port as unusable until the host has written.
			fd, err := unix.Open("/dev/"+filepath.Base(filepath.Dir(file)), unix.O_RDWR|unix.O_CLOEXEC, 0)
			if err != nil {
				return nil, fmt.Errorf("open the serial port: %w", err)
			}
			return os.NewFile(uintptr(fd), PortName), nil
		}
	}
	return nil, fmt.Errorf("serial port %s: %w", PortName, fs.ErrNotExist)
}

// start starts a command. Its input waits in a pipe until it reads.
func (a *agent) start(id int, c *wire.Command) {
	if !c.Input {
		go a.run(id, c, nil)
		return
	}
	read, write, err := os.Pipe()
	if err != nil {
		a.report(id, wire.End{Status: 127, Reason: fmt.Sprintf("make a pipe for its input: %v", err)})
		return
	}
	a.mu.Lock()
	a.inputs[id] = write
	a.mu.Unlock()
	go func() {
		a.run(id, c, read)
		a.mu.Lock()
		delete(a.inputs, id)
		a.mu.Unlock()
		_, _ = read.Close(), write.Close() // nothing was buffered
	}()
}

// input writes text to a command's input.
func (a *agent) input(id int, text []byte) {
	a.mu.Lock()
	to := a.inputs[id]
	a.mu.Unlock()
	_, _ = to.Write(text) // the command may just have ended
}

// run runs a command, and reports its end once the host can read all of its output.
func (a *agent) run(id int, c *wire.Command, stdin *os.File) {
	end := a.perform(id, c, stdin)
	unix.Sync()
	a.report(id, end)
}

// report tells the host how a command ended.
func (a *agent) report(id int, end wire.End) {
	if err := a.conn.Send(wire.Message{ID: id, End: &end}); err != nil {
		fmt.Fprintln(os.Stderr, "guest:", err)
	}
}

func (a *agent) perform(id int, c *wire.Command, stdin *os.File) wire.End {
	if len(c.Args) == 0 {
		return wire.End{Status: 127, Reason: "no program is named"}
	}
	cmd := exec.Command(c.Args[0], c.Args[1:]...)
	cmd.Dir = c.Dir
	cmd.Env = c.Env
	if stdin != nil {
		cmd.Stdin = stdin
	}
	cmd.Stdout = a.conn.Stdout(id)
	cmd.Stderr = a.conn.Stderr(id)
	cmd.WaitDelay = outputGrace
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return wire.End{Status: 127, Reason: err.Error()}
	}
	a.remember(id, cmd.Process)
	err := cmd.Wait()
	a.remember(id, nil)
	_ = unix.Kill(-cmd.Process.Pid, unix.SIGKILL) // the processes that it left behind, if any
	if cmd.ProcessState == nil {
		return wire.End{Status: 1, Reason: err.Error()}
	}
	if ws, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return wire.End{Status: 128 + int(ws.Signal())}
	}
	return wire.End{Status: cmd.ProcessState.ExitCode()}
}

// remember records the process of a command; nil: it has ended.
func (a *agent) remember(id int, p *os.Process) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if p == nil {
		delete(a.running, id)
		return
	}
	a.running[id] = p
}

// signal passes a signal on to a command, if it still runs.
func (a *agent) signal(id int, s syscall.Signal) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if p := a.running[id]; p != nil {
		_ = p.Signal(s) // it may just have ended
	}
}
