package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// Node is one of the cluster's nodes.
type Node struct {
	Name  string
	Addr  netip.Addr // on the underlay
	Addr6 netip.Addr // not valid with one stack

	cluster *Cluster
	first   *exec.Cmd // its first process, nil while it is off
	ended   chan struct{}
	in      io.WriteCloser
	log     string // of its first process

	mu      sync.Mutex
	last    int
	waiting map[int]chan answer
}

// PID returns the id of the node's first process, whose namespaces are the node's.
func (n *Node) PID() int { return n.first.Process.Pid }

// boot starts the node's first process, connects it to the underlay and waits until it serves.
func (n *Node) boot(ctx context.Context) error {
	p, err := n.plan()
	if err != nil {
		return fmt.Errorf("boot %s: %w", n.Name, err)
	}
	log, err := os.OpenFile(n.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("boot %s: %w", n.Name, err)
	}
	defer log.Close() // the process has its own copy
	n.first = &exec.Cmd{Path: "/proc/self/exe", Args: []string{childNode, p}, Stderr: log}
	n.first.SysProcAttr = &syscall.SysProcAttr{
		Pdeathsig:  syscall.SIGKILL,
		Cloneflags: unix.CLONE_NEWPID | unix.CLONE_NEWNS | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC | unix.CLONE_NEWNET,
	}
	n.in, err = n.first.StdinPipe()
	if err != nil {
		return err
	}
	out, err := n.first.StdoutPipe()
	if err != nil {
		return err
	}
	started := make(chan answer, 1)
	n.mu.Lock()
	n.last, n.waiting = 0, map[int]chan answer{0: started}
	n.mu.Unlock()
	if err := n.first.Start(); err != nil {
		return fmt.Errorf("boot %s: %w", n.Name, err)
	}
	n.ended = make(chan struct{})
	go n.listen(out, n.first, n.ended)
	select {
	case <-started:
		return n.cluster.plug(n)
	case <-n.ended:
		text, _ := os.ReadFile(n.log)
		return fmt.Errorf("boot %s: its first process ended: %s", n.Name, text)
	case <-ctx.Done():
		return errors.Join(ctx.Err(), n.PowerOff())
	}
}

// plan returns the argument of the first process.
func (n *Node) plan() (string, error) {
	p := plan{Name: n.Name, Disk: n.cluster.path("disks", n.Name), Root: n.cluster.path("roots", n.Name),
		Cgroups: map[string]hierarchy{}, Binds: map[string]string{
			n.cluster.options.Programs: programsDir,
			n.cluster.path("files"):    filesDir,
		}}
	for _, h := range n.cluster.hierarchies {
		dir, err := h.makeCgroup(filepath.Join(n.cluster.cgroup, n.Name))
		if err != nil {
			return "", fmt.Errorf("make its cgroups: %w", err)
		}
		p.Cgroups[dir] = h
	}
	text, err := json.Marshal(p)
	return string(text), err
}

// listen hands out the answers of the first process.
func (n *Node) listen(out io.Reader, first *exec.Cmd, ended chan struct{}) {
	answers := json.NewDecoder(out)
	for {
		var a answer
		if err := answers.Decode(&a); err != nil {
			_ = first.Wait()
			close(ended)
			return
		}
		n.mu.Lock()
		waiting := n.waiting[a.ID]
		delete(n.waiting, a.ID)
		n.mu.Unlock()
		if waiting != nil {
			waiting <- a
		}
	}
}

// ask sends a request to the first process.
func (n *Node) ask(ctx context.Context, r request) (answer, error) {
	reply := make(chan answer, 1)
	n.mu.Lock()
	n.last++
	r.ID = n.last
	n.waiting[r.ID] = reply
	err := json.NewEncoder(n.in).Encode(r)
	n.mu.Unlock()
	if err != nil {
		return answer{}, fmt.Errorf("%s: %w", n.Name, err)
	}
	select {
	case a := <-reply:
		if a.Err != "" {
			return a, fmt.Errorf("%s: %s", n.Name, a.Err)
		}
		return a, nil
	case <-n.ended:
		return answer{}, fmt.Errorf("%s: the node went off", n.Name)
	case <-ctx.Done():
		return answer{}, fmt.Errorf("%s: %s: %w", n.Name, strings.Join(r.Args, " "), ctx.Err())
	}
}

// Run runs a program on the node to its end and returns its output.
func (n *Node) Run(ctx context.Context, args ...string) (string, error) {
	a, err := n.ask(ctx, request{Args: append([]string{"/usr/bin/env"}, args...)})
	if err == nil && a.Status != 0 {
		err = fmt.Errorf("%s: %s: status %d: %s", n.Name, strings.Join(args, " "), a.Status, a.Output)
	}
	return a.Output, err
}

// daemon starts a program and does not wait for its end. Its log is named after it.
func (n *Node) daemon(ctx context.Context, name string, args ...string) error {
	_, err := n.ask(ctx, request{Log: name, Args: append([]string{"/usr/bin/env"}, args...)})
	return err
}

// Kill kills one of the node's daemons, such as "kubelet".
func (n *Node) Kill(ctx context.Context, daemon string) error {
	_, err := n.ask(ctx, request{Stop: daemon})
	return err
}

// PowerOff ends all processes of the node at once. Its disk stays.
func (n *Node) PowerOff() error {
	if n.first == nil || n.first.Process == nil {
		return nil
	}
	if err := n.first.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("power off %s: %w", n.Name, err)
	}
	<-n.ended
	return n.cluster.unplug(n)
}

// LogTail returns the end of the log of one of the node's daemons.
func (n *Node) LogTail(daemon string) string {
	text, err := os.ReadFile(filepath.Join(n.cluster.path("disks", n.Name), "kept", logDir, daemon+".log"))
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-4000):])
}
