package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/flanneld/flannel/core/subnetfile"
	"github.com/flanneld/flannel/internal/daemonflags"
)

// process is a running daemon.
type process struct {
	t    *testing.T
	cmd  *exec.Cmd
	out  *bytes.Buffer // may be read only after it has ended
	done chan struct{} // closed when it has ended
	url  string        // of its health listener
}

func launch(t *testing.T, env []string, args ...string) *process {
	t.Helper()
	p := prepare(t, env, args...)
	p.start()
	return p
}

// prepare returns a daemon that has not begun.
func prepare(t *testing.T, env []string, args ...string) *process {
	t.Helper()
	at := freeAddress(t)
	p := &process{t: t, done: make(chan struct{}), url: "http://" + at.String()}
	p.cmd, p.out = command(t, env, append([]string{"--healthz-ip=" + at.Addr().String(),
		fmt.Sprintf("--healthz-port=%d", at.Port())}, args...)...)
	return p
}

func (p *process) start() {
	p.t.Helper()
	if err := p.cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	go func() {
		defer close(p.done)
		_ = p.cmd.Wait() // tests read the result from ProcessState
	}()
	p.t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		<-p.done
	})
}

// await asks until the answer begins as wanted, for patience at most.
func (p *process) await(path, want string) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), patience)
	defer cancel()
	for {
		got, err := ask(ctx, p.url+path)
		if err != nil {
			got = err.Error()
		} else if strings.HasPrefix(got, want) {
			return
		}
		select {
		case <-p.done:
			p.t.Fatalf("the daemon ended; %s answered last %q\n%s", path, got, p.out)
		case <-ctx.Done():
			p.t.Fatalf("after %v %s still answers %q, want %q", patience, path, got, want)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// ask returns the body of the answer.
func ask(ctx context.Context, url string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return string(body), err
}

// ended waits for the end and returns the exit status and the output.
func (p *process) ended() (int, string) {
	<-p.done
	return p.cmd.ProcessState.ExitCode(), p.out.String()
}

// freeAddress returns an address of loopback on which nothing listens. It is unlike the last one, and unlike those of
// clients, one of which could get the port of 127.0.0.1 meanwhile.
func freeAddress(t *testing.T) netip.AddrPort {
	t.Helper()
	l, err := net.Listen("tcp", fmt.Sprintf("127.%d.%d.%d:0", 1+rand.IntN(254), rand.IntN(256), 1+rand.IntN(254)))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).AddrPort()
}

// A daemon that waits for its datastore or config is alive, logs the reason
// once, and ends on a signal.
func TestSignalWhileWaiting(t *testing.T) {
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
		for name, c := range map[string]struct {
			etcd, waits, once string
		}{
			"for etcd": {"--etcd-endpoints=http://127.0.0.1:1", "the datastore has not answered yet", ""},
			"for the config": {"--embed-etcd=" + t.TempDir(), "the datastore holds no network config",
				"the datastore holds no network config"},
		} {
			t.Run(fmt.Sprintf("%s, %s", name, sig), func(t *testing.T) {
				dir := t.TempDir()
				args := []string{c.etcd, "--subnet-file=" + dir + "/subnet.env", "--state-file=" + dir + "/state"}
				p := launch(t, nil, args...)
				p.await("/healthz", "flanneld is running")
				p.await("/readyz", "flanneld is not ready yet\n"+c.waits)
				if err := p.cmd.Process.Signal(sig); err != nil {
					t.Fatal(err)
				}
				status, out := p.ended()
				if status != 0 || lastMessage(out) != "shutting down: "+sig.String()+" signal received" {
					t.Errorf("status %d\n%s", status, out)
				}
				if n := strings.Count(out, c.once); c.once != "" && n != 1 {
					t.Errorf("it logged %d times what it waits for\n%s", n, out)
				}
			})
		}
	}
}

func TestSecondSignalKills(t *testing.T) {
	cmd, _ := command(t, nil)
	cmd.Env = []string{asFlanneld + "=" + stubborn}
	cmd.Stdout = nil
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(stdout)
	for lines.Scan() && lines.Text() != "stopping" {
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
	}
	// The daemon sees the first signal a moment before it removes its handler.
	again := time.NewTicker(10 * time.Millisecond)
	defer again.Stop()
	dead := make(chan error, 1)
	go func() { dead <- cmd.Wait() }()
	for {
		select {
		case <-dead:
			if ws := cmd.ProcessState.Sys().(syscall.WaitStatus); !ws.Signaled() || ws.Signal() != syscall.SIGTERM {
				t.Errorf("ended as %s, want by the signal", cmd.ProcessState)
			}
			return
		case <-again.C:
			_ = cmd.Process.Signal(syscall.SIGTERM)
		}
	}
}

// oneHost starts a daemon with its own etcd and the alloc backend on loopback,
// which changes nothing on the host.
func oneHost(t *testing.T, env []string, args ...string) (p *process, dir string) {
	t.Helper()
	dir = t.TempDir()
	conf := filepath.Join(dir, "net-conf.json")
	if err := os.WriteFile(conf, []byte(`{"Network":"10.5.0.0/16","Backend":{"Type":"alloc"}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	args = append([]string{"--embed-etcd=" + dir + "/etcd", "--net-config-path=" + conf,
		"--subnet-file=" + dir + "/run/subnet.env", "--state-file=" + dir + "/state", "--iface=127.0.0.1",
		"--iptables-forward-rules=false"}, args...)
	return launch(t, env, args...), dir
}

// systemd and CNI plugins see a start without any state end with a subnet.
func TestLifeOfOneHost(t *testing.T) {
	systemd := newNotified(t)
	p, dir := oneHost(t, systemd.env())
	p.await("/readyz", "flanneld is ready")
	text, err := os.ReadFile(dir + "/run/subnet.env")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(string(text), "FLANNEL_NETWORK=10.5.0.0/16\nFLANNEL_SUBNET=10.5.") ||
		!strings.HasSuffix(string(text), "\nFLANNEL_IPMASQ=false\n") {
		t.Errorf("subnet file\n%s", text)
	}
	expectStart(t, systemd.until("STATUS=ready, subnet "+subnetfile.Previous(text).String()))
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if status, out := p.ended(); status != 0 {
		t.Errorf("status %d\n%s", status, out)
	}
	if _, err := os.Stat(dir + "/run/subnet.env"); err != nil {
		t.Errorf("the subnet file must stay: %v", err)
	}
	for _, message := range systemd.rest() {
		if strings.Contains(message, "READY=") {
			t.Errorf("systemd was told again: %q", message)
		}
	}
}

// startReasons begin the first reason for which a starting node is not ready yet. Which
// of them systemd is told depends on how fast etcd is.
var startReasons = []string{
	"the datastore ", "no lease is held", "the host is not yet as desired", "the subnet file is not written",
}

// expectStart judges the messages of a start, the last of which says that the node is
// ready: one of them has READY=1, and those before give reasons of a start.
func expectStart(t *testing.T, messages []string) {
	t.Helper()
	started := 0
	for i, message := range messages {
		status, first := strings.CutPrefix(message, "READY=1\n")
		if first {
			started++
		}
		if i == len(messages)-1 {
			break
		}
		begin, reason, _ := strings.Cut(status, ": ")
		if begin != "STATUS=not ready" && !strings.HasPrefix(begin, "STATUS=not ready, subnet 10.5.") ||
			!slices.ContainsFunc(startReasons, func(r string) bool { return strings.HasPrefix(reason, r) }) {
			t.Errorf("systemd was told %q", message)
		}
	}
	if started != 1 || strings.HasPrefix(messages[0], "READY=1") {
		t.Errorf("of all messages, one after the first has to hold READY=1: %q", messages)
	}
}

// A start without the datastore counts as a start: systemd would kill a unit
// that never notifies. The status tells what is missing.
func TestStaleStartNotifies(t *testing.T) {
	p, dir := oneHost(t, nil)
	p.await("/readyz", "flanneld is ready")
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if status, out := p.ended(); status != 0 {
		t.Fatalf("status %d\n%s", status, out)
	}
	systemd := newNotified(t)
	launch(t, systemd.env(), "--etcd-endpoints=http://127.0.0.1:1", "--subnet-file="+dir+"/run/subnet.env",
		"--state-file="+dir+"/state", "--iface=127.0.0.1", "--iptables-forward-rules=false")
	systemd.await("READY=1\nSTATUS=not ready, subnet 10.5.", "stale: working from saved leases")
	systemd.await("STATUS=not ready, subnet 10.5.", "the datastore does not answer: ", "connection refused")
}

// awaitLease waits until the store holds one lease, for patience at most.
func awaitLease(t *testing.T, etcd *clientv3.Client, subnets string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for {
		now, err := etcd.Get(ctx, subnets, clientv3.WithPrefix())
		if err != nil {
			t.Fatalf("wait for the new lease: %v", err)
		}
		if len(now.Kvs) == 1 {
			return
		}
	}
}

// A lost lease ends the daemon only with --on-lease-lost=exit, and then with a
// status that makes an on-failure supervisor start it again.
func TestLostLease(t *testing.T) {
	for policy, ends := range map[string]bool{onLossReacquire: false, onLossExit: true} {
		t.Run(policy, func(t *testing.T) {
			p, dir := oneHost(t, nil, "--on-lease-lost="+policy)
			p.await("/readyz", "flanneld is ready")
			socket := "unix://" + dir + "/etcd/client.sock"
			etcd, err := clientv3.New(clientv3.Config{Endpoints: []string{socket}, DialTimeout: 10 * time.Second})
			if err != nil {
				t.Fatal(err)
			}
			defer etcd.Close()
			subnets := daemonflags.EtcdPrefix + "/subnets/"
			gone, err := etcd.Delete(t.Context(), subnets, clientv3.WithPrefix())
			// A daemon that ends takes its etcd with it, perhaps before the
			// answer.
			if !ends && (err != nil || gone.Deleted != 1) {
				t.Fatalf("deleted %v, %v", gone, err)
			}
			if ends {
				if status, out := p.ended(); status != 1 || !strings.Contains(lastMessage(out), "is gone from the datastore") {
					t.Errorf("status %d\n%s", status, out)
				}
				return
			}
			awaitLease(t, etcd, subnets)
			p.await("/readyz", "flanneld is ready")
		})
	}
}
