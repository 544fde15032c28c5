package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/flanneld/flannel/core/agent"
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

// Without --networks there is one node, which has no name.
func TestHealths(t *testing.T) {
	for args, want := range map[string][]string{"": {""}, "--networks=blue,green": {"blue", "green"}} {
		var names []string
		for _, h := range checked(t, args).healths() {
			names = append(names, h.Network)
		}
		if d := cmp.Diff(want, names); d != "" {
			t.Errorf("%q (-want +got):\n%s", args, d)
		}
	}
}

// systemd kills a unit that never says READY=1, and each restart cuts the traffic of the networks that
// run. So it waits for no network whose config only an operator can correct.
func TestReadyBesideAnUnusableNetwork(t *testing.T) {
	systemd := newNotified(t)
	t.Setenv("NOTIFY_SOCKET", systemd.path)
	s := newSystemd([]*agent.Health{{Network: "blue"}, {Network: "green"}})
	unusable := node.Pulse{Reasons: []string{"no config"}, Unusable: true}
	s.of(1)(unusable)
	s.of(0)(unusable)
	s.of(1)(node.Pulse{Reasons: []string{"no lease"}})
	s.of(0)(node.Pulse{Phase: node.PhaseReady, Programmed: 7})
	s.of(1)(unusable)
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
