package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/flanneld/flannel/drivers/remote"
)

// follow waits until a client of the server is synced.
func follow(t *testing.T, addr string) *remote.Store {
	t.Helper()
	s, err := remote.Open(t.Context(), remote.Options{Servers: []string{addr}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for !s.View().Synced {
		select {
		case <-s.Changed():
		case <-ctx.Done():
			t.Fatalf("after %v: %v", patience, s.View().Err)
		}
	}
	return s
}

// A server listens, tells systemd, answers, and ends on a signal.
func TestListen(t *testing.T) {
	for _, form := range []string{"%s", "tcp://%s"} {
		systemd := newNotified(t)
		addr := freeAddress(t).String()
		p := launch(t, systemd.env(), "--embed-etcd="+t.TempDir(),
			"--listen="+fmt.Sprintf(form, addr))
		systemd.await("READY=1")
		p.await("/readyz", "flanneld is ready")
		if snap := follow(t, addr).View().Snapshot; len(snap.Leases) != 0 {
			t.Errorf("snapshot %+v", snap)
		}
		if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		if status, out := p.ended(); status != 0 || lastMessage(out) != "shutting down: terminated signal received" {
			t.Errorf("status %d\n%s", status, out)
		}
	}
}

// A server takes a socket from systemd, which is open before it starts.
func TestListenAtInheritedSocket(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	socket, err := l.(*net.TCPListener).File()
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	for _, form := range []string{"fd://", "fd://3"} {
		// systemd names the process, which only a shell can know beforehand.
		cmd := exec.Command("sh", "-c", `LISTEN_FDS=1 LISTEN_PID=$$ exec "$0" "$@"`, os.Args[0],
			"--embed-etcd="+t.TempDir(), "--listen="+form)
		cmd.Env = append(os.Environ(), asFlanneld+"="+asFlanneld)
		cmd.ExtraFiles = []*os.File{socket}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		follow(t, l.Addr().String())
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		if err := cmd.Wait(); err != nil {
			t.Errorf("%s: %v", form, err)
		}
	}
}

// A server that cannot listen says why.
func TestListenFails(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	for flags, want := range map[string]string{
		"--listen=" + taken.Addr().String(): "--listen: listen tcp " + taken.Addr().String() +
			": bind: address already in use",
		"--listen=fd://":  "--listen: descriptor 3 is no listening socket from systemd; it passed 0",
		"--listen=fd://2": "--listen: fd://2: want a descriptor from 3 on",
		"--listen=:0 --remote-cafile=/x": "--remote-certfile: missing; with --listen, --remote-keyfile and " +
			"--remote-cafile need it",
		"--listen=:0 --remote-certfile=/x":  "--remote-keyfile: missing, though --remote-certfile is given",
		"--remote=a:1 --remote-certfile=/x": "--remote-keyfile: missing, though --remote-certfile is given",
		"--remote=a":                        `--remote: "a": want HOST:PORT`,
	} {
		dir := t.TempDir()
		args := append([]string{"--etcd-endpoints=http://127.0.0.1:1", "--subnet-file=" + dir + "/subnet.env"},
			strings.Fields(flags)...)
		p := launch(t, nil, args...)
		select {
		case <-p.done:
		case <-time.After(patience):
			t.Fatalf("%s: the daemon runs", flags)
		}
		if status, out := p.ended(); status != 1 || !strings.Contains(out, want) {
			t.Errorf("%s: status %d, want %q\n%s", flags, status, want, out)
		}
	}
}
