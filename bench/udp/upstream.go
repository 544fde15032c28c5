package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/flanneld/flannel/drivers/etcd/embedded"
	"github.com/flanneld/flannel/harness"
)

// prefix is that of upstream's keys in etcd.
const prefix = "/coreos.com/network"

// socketVariable names the socket of the etcd from which upstream's daemons have their config and their leases.
const socketVariable = "FLANNEL_BENCH_ETCD"

// startStore runs an etcd with a lease for each node at a socket, which all namespaces reach, and tells the processes
// that carry packets where it is.
func startStore(ctx context.Context, dir string) (*embedded.Server, error) {
	socket := filepath.Join(dir, "etcd.sock")
	etcd, err := embedded.Start(ctx, embedded.Options{
		Dir: filepath.Join(dir, "etcd"), ListenClient: []string{"unix://" + socket}, UnsafeNoSync: true,
	})
	if err != nil {
		return nil, err
	}
	_, err = etcd.Client().Put(ctx, prefix+"/config", `{"Network":"10.5.0.0/16","Backend":{"Type":"udp"}}`)
	for i := range 2 {
		key := fmt.Sprintf("%s/subnets/%s-24", prefix, subnet(i).Addr())
		_, failed := etcd.Client().Put(ctx, key, fmt.Sprintf(`{"PublicIP":%q,"BackendType":"udp"}`, underlay(i)))
		err = errors.Join(err, failed)
	}
	return etcd, errors.Join(err, os.Setenv(socketVariable, socket))
}

// carryUpstream is the role of a node with upstream's own daemon, which carries packets until the input of this process
// ends. The first line is printed when the daemon has its lease.
func carryUpstream(i int) error {
	program := os.Getenv(harness.UpstreamEnv)
	if program == "" {
		return fmt.Errorf("%s names no program: make bin/upstream-flanneld builds it", harness.UpstreamEnv)
	}
	dir, err := os.MkdirTemp("", "upstream-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	subnetFile := filepath.Join(dir, "subnet.env")
	cmd := exec.Command(program, "--etcd-endpoints=unix://"+os.Getenv(socketVariable), "--etcd-prefix="+prefix,
		"--subnet-file="+subnetFile, "--iface=eth0", "--iptables-forward-rules=false")
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} // of the main thread, which runs this
	log, err := cmd.StderrPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	if err := awaitLine(log, "Wrote subnet file"); err != nil {
		return errors.Join(fmt.Errorf("node %d: upstream: %w", i, err), cmd.Wait())
	}
	go func() { _, _ = io.Copy(io.Discard, log) }()
	fmt.Println(cmd.Process.Pid, "upstream's daemon")
	_, err = io.Copy(io.Discard, os.Stdin)
	err = errors.Join(err, cmd.Process.Kill())
	_ = cmd.Wait() // it was killed
	return err
}

// awaitLine reads until a line has that text.
func awaitLine(from io.Reader, text string) error {
	var last string
	for lines := bufio.NewScanner(from); lines.Scan(); last = lines.Text() {
		if strings.Contains(lines.Text(), text) {
			return nil
		}
	}
	return fmt.Errorf("it ended without %q: %s", text, last)
}

// carrierOf splits the first line of a process that carries packets: the id of the process that does the work, and what
// that says.
func carrierOf(line string) (pid int, said string, err error) {
	number, said, _ := strings.Cut(strings.TrimSpace(line), " ")
	pid, err = strconv.Atoi(number)
	return pid, said, err
}
