package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/flanneld/flannel/core/node"
)

// Each network has keys and files of its own (interop 1.7, 3.9).
func TestOptionsOfNetwork(t *testing.T) {
	for args, want := range map[string][3]string{
		"--networks=blue": {"/coreos.com/network/blue", "/run/flannel/networks/blue.env",
			"/var/lib/flannel/run/flannel/networks/blue.env.state"},
		"--networks=blue --etcd-prefix=/x/ --subnet-dir=/d --state-file=/s": {
			"/x/blue", "/d/blue.env", "/s.blue",
		},
		"--networks=blue --state-file=": {
			"/coreos.com/network/blue", "/run/flannel/networks/blue.env", "",
		},
	} {
		o := checked(t, args)
		own := o.ofNetwork("blue")
		state, _ := own.statePaths()
		if d := cmp.Diff(want, [3]string{own.etcd.Prefix, own.subnetFile, state}); d != "" {
			t.Errorf("%s (-want +got):\n%s", args, d)
		}
	}
}

// Without --networks and --watch-networks there is one node, which has no name. With them the process is
// not ready before it knows its networks.
func TestRoster(t *testing.T) {
	for args, want := range map[string]struct {
		nodes   int
		waiting string
	}{"": {1, ""}, "--networks=blue,green": {0, "starting"}, "--watch-networks": {0, "starting"}} {
		nodes := checked(t, args).roster()
		if len(nodes.All()) != want.nodes || nodes.Waiting() != want.waiting {
			t.Errorf("%q: %d nodes, waiting %q", args, len(nodes.All()), nodes.Waiting())
		}
	}
}

// A start with --watch-networks also begins the networks that the last run left on the host: one of
// them may have gone since.
func TestFormerNetworks(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"blue.env", "green.env", "green.env.sock", "red.env.old", ".env", "state.white"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	args := "--watch-networks --subnet-dir=" + dir + " --state-file=" + dir + "/state"
	for list, want := range map[string][]string{
		"": {"blue", "green", "white"}, " --networks=green,yellow": {"green"},
	} {
		if d := cmp.Diff(want, former(checked(t, args+list))); d != "" {
			t.Errorf("%q (-want +got):\n%s", list, d)
		}
	}
}

// systemd kills a unit that never says READY=1, and each restart cuts the traffic of the networks that
// run. So it waits for no network whose config only an operator can correct.
func TestReadyBesideAnUnusableNetwork(t *testing.T) {
	systemd := newNotified(t)
	t.Setenv("NOTIFY_SOCKET", systemd.path)
	s := newSystemd()
	s.join("blue")
	s.join("green")
	s.known()
	unusable := node.Pulse{Reasons: []string{"no config"}, Unusable: true}
	s.of("green")(unusable)
	s.of("blue")(unusable)
	s.of("green")(node.Pulse{Reasons: []string{"no lease"}})
	s.of("blue")(node.Pulse{Phase: node.PhaseReady, Programmed: 7})
	s.of("green")(unusable)
	for _, message := range systemd.await("READY=1\nSTATUS=blue: ready | green: not ready: no config") {
		if strings.HasPrefix(message, "READY=1") {
			t.Errorf("too early: %q", message)
		}
	}
}

// checked returns the options that a command line gives, once checked.
func checked(t *testing.T, args string) *options {
	t.Helper()
	o, _, err := parse(strings.Fields(args)...)
	if err != nil {
		t.Fatal(err)
	}
	if err := o.check(); err != nil {
		t.Fatal(err)
	}
	return o
}

// former returns the networks of a former run with which a process begins.
func former(o *options) []string { return o.crew().Begin(o.former()) }
