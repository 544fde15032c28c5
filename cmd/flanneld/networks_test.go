package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
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
