package harness

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/harness/internal/netspace"
)

// healthPort is the port, on loopback, of every node's health listener.
const healthPort = 8081

// Node is a host that runs flanneld.
type Node struct {
	*Host
	Number int // from 1
	Pods   []*Pod
	Env    []string // further variables of the daemon's environment, as NAME=value

	// NoTUN keeps /dev/net/tun from the next daemon.
	NoTUN bool
	// OwnSys gives the next daemon and its commands a /sys that shows the node's links.
	OwnSys bool
	// Confined limits the daemon to the rights of its container in the
	// manifest.
	Confined bool

	segment  *segment
	underlay [2]netip.Prefix   // addresses of the uplink, by family
	proc     *netspace.Process // the latest daemon; nil before the first Start
	second   *netspace.Process // a second daemon; see StartSecond
	trap     *trap             // see KillAtChange
	disks    []string          // see FillDisk
	made     int               // counts the pods ever made, for the names of their devices
}

func (l *Lab) addNode(ctx context.Context, number int, s *segment) error {
	h, err := l.newHost(fmt.Sprintf("n%d", number), routerSettings...)
	if err != nil {
		return err
	}
	n := &Node{Host: h, Number: number, segment: s}
	for _, f := range l.families() {
		n.underlay[f] = underlayAddr(f, s.index, number)
	}
	l.Nodes = append(l.Nodes, n)
	for _, file := range []string{n.SubnetFile(), n.StateFile()} {
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return fmt.Errorf("node %s: %w", n.Name, err)
		}
	}
	if err := n.InstallCharon(); err != nil {
		return fmt.Errorf("node %s: %w", n.Name, err)
	}
	return l.plugWithDefault(ctx, s, h, number)
}

// file returns the path of a file of the node; without parts, its directory.
func (n *Node) file(parts ...string) string {
	return n.lab.path(append([]string{n.Name}, parts...)...)
}

// Underlay returns the address of the node's uplink with its length, invalid if
// the underlay lacks that family.
func (n *Node) Underlay(f cidr.Family) netip.Prefix { return n.underlay[f] }

// SubnetFile returns the path of the node's subnet file.
func (n *Node) SubnetFile() string { return n.file("run", "subnet.env") }

// SubnetFileOf returns the path of the subnet file of a named network.
func (n *Node) SubnetFileOf(network string) string { return n.file("run", "networks", network+".env") }

// StateFile returns the path of the node's saved snapshot.
func (n *Node) StateFile() string { return n.file("lib", "state.json") }

// KeyFile returns the path of the node's private key of WireGuard.
func (n *Node) KeyFile() string { return n.file("wgkey") }

// args returns the daemon's command line.
func (n *Node) args(extra []string) []string {
	o := n.lab.Options
	args := []string{
		n.lab.Options.Daemon,
		"--etcd-endpoints=" + n.lab.Store.nodeEndpoint(),
		"--etcd-prefix=" + Prefix,
		"--subnet-file=" + n.SubnetFile(),
		"--subnet-dir=" + filepath.Dir(n.SubnetFileOf("")),
		"--state-file=" + n.StateFile(),
		"--healthz-ip=127.0.0.1",
		fmt.Sprintf("--healthz-port=%d", healthPort),
		"--iptables-forward-rules=false", // unless DaemonArgs set them: most labs have no firewall to overcome
	}
	if o.LeaseTTL != 0 {
		args = append(args, "--subnet-lease-ttl="+o.LeaseTTL.String())
	}
	if o.StoreUsers {
		args = append(args, "--etcd-username="+n.Name, "--etcd-password="+n.Name)
	}
	args = append(args, n.charonArgs()...)
	return append(append(args, o.DaemonArgs...), extra...)
}

// Command returns the command line with which Start would start the daemon.
func (n *Node) Command(extra ...string) []string { return n.args(extra) }

// Start starts the daemon and does not wait for it. Its log is appended to Log.
func (n *Node) Start(extra ...string) (err error) {
	if n.Running() {
		return fmt.Errorf("node %s: start: it runs already", n.Name)
	}
	n.proc, err = n.launch(n.LogFile(), extra)
	if err == nil && n.trap != nil {
		n.trap.target.Store(n.proc)
	}
	return err
}

// launch starts a flanneld on the node that writes to the log.
func (n *Node) launch(logFile string, extra []string) (*netspace.Process, error) {
	return n.launchAs(n.args(extra), logFile)
}

// launchAs starts the daemon with that command line on the node.
func (n *Node) launchAs(args []string, logFile string) (*netspace.Process, error) {
	log, err := os.OpenFile(logFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, fmt.Errorf("node %s: %w", n.Name, err)
	}
	defer log.Close() // the daemon has its own copy
	daemon, err := filepath.Abs(args[0])
	if err != nil {
		return nil, fmt.Errorf("node %s: %w", n.Name, err)
	}
	cmd := &exec.Cmd{Path: daemon, Args: args, Dir: n.file(), Stdout: log, Stderr: log,
		Env: append([]string{
			"PATH=" + os.Getenv("PATH"), "HOME=" + n.file(), "WIREGUARD_KEY_FILE=" + n.KeyFile(),
			lockVariable + "=" + os.Getenv(lockVariable),
		}, n.Env...)}
	switch {
	case n.Confined:
		cmd = through(childConfined, cmd)
	case n.NoTUN:
		cmd = through(childNoTUN, cmd)
	case n.OwnSys:
		cmd = through(childOwnSys, cmd)
	}
	proc, err := n.space.Start(cmd)
	if err != nil {
		return nil, fmt.Errorf("node %s: %w", n.Name, err)
	}
	return proc, nil
}

// Running reports whether the daemon runs, paused or not.
func (n *Node) Running() bool { return n.proc != nil && n.proc.State() == nil }

// PID returns the id of the daemon's process, the latest if it has ended; 0 if
// it was never started.
func (n *Node) PID() int {
	if n.proc == nil {
		return 0
	}
	return n.proc.PID()
}

// ExitStatus returns how the daemon ended, nil while it runs and before its
// first start.
func (n *Node) ExitStatus() *os.ProcessState {
	if n.proc == nil {
		return nil
	}
	return n.proc.State()
}

// Ended returns a channel that is closed when the daemon's process has ended.
func (n *Node) Ended() <-chan struct{} { return n.proc.Done() }

// Stop ends the daemon in order. It does nothing if none runs.
func (n *Node) Stop(ctx context.Context) error {
	if !n.Running() {
		return nil
	}
	if err := errors.Join(n.proc.Signal(syscall.SIGTERM), n.proc.Resume()); err != nil {
		return fmt.Errorf("node %s: %w", n.Name, err)
	}
	if _, err := n.proc.Wait(ctx); err != nil {
		return fmt.Errorf("node %s: stop: %w; its log:\n%s", n.Name, err, n.LogTail(20))
	}
	return nil
}

// Kill ends the daemon at once. It does nothing if none runs.
func (n *Node) Kill() error {
	if !n.Running() {
		return nil
	}
	if err := n.proc.Kill(); err != nil {
		return fmt.Errorf("node %s: %w", n.Name, err)
	}
	return nil
}

// Pause freezes the daemon.
func (n *Node) Pause() error {
	if !n.Running() {
		return fmt.Errorf("node %s: pause: the daemon does not run", n.Name)
	}
	return n.proc.Pause()
}

// Resume undoes Pause.
func (n *Node) Resume() error {
	if !n.Running() {
		return fmt.Errorf("node %s: resume: the daemon does not run", n.Name)
	}
	return n.proc.Resume()
}

// WaitReady waits until the daemon says it is ready.
func (n *Node) WaitReady(ctx context.Context) error {
	var why error
	err := n.Await(ctx, "the daemon to be ready", func() (ready bool, err error) {
		ready, why = n.Ready(ctx)
		if !ready && !n.Running() {
			return false, fmt.Errorf("node %s: the daemon does not run (%v)", n.Name, n.ExitStatus())
		}
		return ready, nil
	})
	if err != nil {
		return fmt.Errorf("%w; last answer: %v; its log:\n%s", err, why, n.LogTail(20))
	}
	return nil
}

// Ready asks the daemon once whether it is ready; the error holds the reason if
// not.
func (n *Node) Ready(ctx context.Context) (bool, error) {
	status, body, err := n.Get(ctx, "/readyz")
	if err != nil {
		return false, err
	}
	if status != http.StatusOK {
		return false, fmt.Errorf("%d %s", status, body)
	}
	return true, nil
}

// Get asks the daemon's health listener for a path.
func (n *Node) Get(ctx context.Context, path string) (status int, body string, err error) {
	return n.get(ctx, healthPort, path)
}

func (n *Node) get(ctx context.Context, port int, path string) (status int, body string, err error) {
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true,
		DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) { return n.Dial(ctx, network, addr) }}}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("http://127.0.0.1:%d%s", port, path), nil)
	if err != nil {
		return 0, "", fmt.Errorf("node %s: %w", n.Name, err)
	}
	resp, err := client.Do(req)
	if err != nil {
		return 0, "", fmt.Errorf("node %s: %w", n.Name, err)
	}
	defer resp.Body.Close()
	var text bytes.Buffer
	_, err = text.ReadFrom(resp.Body)
	return resp.StatusCode, text.String(), err
}

// LogFile returns the path of the node's log.
func (n *Node) LogFile() string { return n.file("log") }

// Log returns the log of all the node's daemons so far.
func (n *Node) Log() string {
	text, err := os.ReadFile(n.LogFile())
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err.Error()
	}
	return string(text)
}

// LogTail returns the last lines of Log.
func (n *Node) LogTail(lines int) string {
	text := bytes.TrimRight([]byte(n.Log()), "\n")
	at := len(text)
	for ; lines > 0 && at >= 0; lines-- {
		at = bytes.LastIndexByte(text[:at], '\n')
	}
	return string(text[at+1:])
}

// SubnetEnv reads the node's subnet file.
func (n *Node) SubnetEnv() (SubnetEnv, error) { return n.readSubnetEnv(n.SubnetFile()) }

func (n *Node) readSubnetEnv(path string) (SubnetEnv, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return SubnetEnv{}, fmt.Errorf("node %s: %w", n.Name, err)
	}
	env, err := parseSubnetEnv(string(text))
	if err != nil {
		return SubnetEnv{}, fmt.Errorf("node %s: subnet file %s: %w", n.Name, path, err)
	}
	return env, nil
}
