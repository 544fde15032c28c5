package main

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/flanneld/flannel/internal/buildversion"
)

func TestExitStatus(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	at := taken.Addr().(*net.TCPAddr).AddrPort()
	port := at.Port()
	bad := filepath.Join(t.TempDir(), "net-conf.json")
	if err := os.WriteFile(bad, []byte(`{"Network":`), 0o600); err != nil {
		t.Fatal(err)
	}
	cert, key := ownCertificate(t, at.Addr())
	etcdAt := fmt.Sprintf("--etcd-endpoints=https://127.0.0.1:%d", port)

	for name, c := range map[string]struct {
		args   []string
		env    []string
		status int
		says   string // the last message, or its beginning
	}{
		"version": {args: []string{"--version"}, status: 0, says: buildversion.Version()},
		"version, before the rest": {args: []string{"--version", "--iptables-resync=0"}, env: []string{"FLANNELD_V=x"},
			status: 0, says: buildversion.Version()},
		"version not from the env": {env: []string{"FLANNELD_VERSION=true"}, args: []string{"--iptables-resync=0"},
			status: 1, says: "exit status 1: --iptables-resync"},
		"unknown flag": {args: []string{"--nonsense"}, status: 2, says: "flanneld: unknown flag --nonsense"},
		"bad value": {args: []string{"--healthz-port=x"}, status: 2,
			says: `flanneld: invalid value "x" for flag -healthz-port`},
		"bad flag before version": {args: []string{"--nonsense", "--version"}, status: 2,
			says: "flanneld: unknown flag --nonsense"},
		"margin": {args: []string{"--subnet-lease-renew-margin=1440"}, status: 1,
			says: "exit status 1: --subnet-lease-renew-margin is 1440 minutes"},
		"margin from the environment": {env: []string{"FLANNELD_SUBNET_LEASE_RENEW_MARGIN=0"}, status: 1,
			says: "exit status 1: --subnet-lease-renew-margin is 0 minutes"},
		"kubernetes, which node": {args: []string{"--kube-subnet-mgr"}, status: 1,
			says: "exit status 1: which node is this? set NODE_NAME"},
		"kubernetes, bad prefix": {args: []string{"--kube-subnet-mgr", "--kube-annotation-prefix=org"},
			env: []string{"NODE_NAME=n1"}, status: 1, says: `exit status 1: --kube-annotation-prefix: annotation prefix "org"`},
		"kubernetes, no config": {args: []string{"--kube-subnet-mgr", "--net-config-path=/nonexistent"},
			env: []string{"NODE_NAME=n1"}, status: 1, says: "exit status 1: --net-config-path: open /nonexistent"},
		"kubernetes, bad config": {args: []string{"--kube-subnet-mgr", "--net-config-path=" + bad},
			env: []string{"NODE_NAME=n1"}, status: 1, says: "exit status 1: --net-config-path: " + bad},
		"health port taken": {
			args:   []string{"--healthz-ip=127.0.0.1", fmt.Sprintf("--healthz-port=%d", port)},
			status: 1, says: fmt.Sprintf("exit status 1: health listener: listen tcp 127.0.0.1:%d: bind: address already in use",
				port),
		},
		"bad endpoint": {args: []string{"--etcd-endpoints=ftp://x"}, status: 1,
			says: `exit status 1: --etcd-endpoints: "ftp://x"`},
		"missing certificates": {args: []string{"--etcd-cafile=/nonexistent"}, status: 1,
			says: "exit status 1: --etcd-cafile: open /nonexistent"},
		"etcd port taken": {args: []string{"--embed-etcd=" + t.TempDir(), etcdAt, "--etcd-certfile=" + cert,
			"--etcd-keyfile=" + key, "--etcd-cafile=" + cert}, status: 1, says: "exit status 1: embedded etcd in "},
		"bad network config": {args: []string{"--embed-etcd=" + t.TempDir(), "--net-config-path=" + bad}, status: 1,
			says: "exit status 1: --net-config-path " + bad},
		"missing config, named": {args: []string{"--embed-etcd=" + t.TempDir(), "--net-config-path=/nonexistent"}, status: 1,
			says: "exit status 1: --net-config-path: open /nonexistent: no such file or directory"},
	} {
		t.Run(name, func(t *testing.T) {
			out, status := runToEnd(t, c.env, c.args...)
			if status != c.status || !strings.HasPrefix(lastMessage(out), c.says) {
				t.Errorf("status %d, want %d; want last %q in\n%s", status, c.status, c.says, out)
			}
		})
	}
}

// The daemon shows the usage with any argument that it does not understand
// (interop F7).
func TestUsageOfBadFlags(t *testing.T) {
	usage, _ := runToEnd(t, nil, "--help")
	for arg, says := range map[string]string{
		"--nonsense":       "flanneld: unknown flag --nonsense\n",
		"--healthz-port=x": "flanneld: invalid value \"x\" for flag -healthz-port: parse error\n",
	} {
		if out, _ := runToEnd(t, nil, arg); out != usage+"\n"+says {
			t.Errorf("%s: want the usage and %q, got\n%s", arg, says, out)
		}
	}
}

func TestHelpStatus(t *testing.T) {
	for _, arg := range []string{"-h", "--help", "-help"} {
		out, status := runToEnd(t, nil, arg)
		if status != 0 || !strings.HasPrefix(out, "Usage: flanneld [OPTION]...\n") {
			t.Errorf("%s: status %d\n%s", arg, status, out)
		}
	}
}
