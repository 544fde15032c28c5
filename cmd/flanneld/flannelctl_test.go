package main

import (
	"strings"
	"testing"
)

// The image has one program under both names.
func TestIsFlannelctlByThatName(t *testing.T) {
	for name, want := range map[string]string{
		"/opt/bin/flannelctl": "Usage:\n  flannelctl",
		"/opt/bin/flanneld":   "--kube-subnet-mgr",
	} {
		cmd, out := command(t, nil, "--help")
		cmd.Args[0] = name
		if err := cmd.Run(); err != nil || !strings.Contains(out.String(), want) {
			t.Errorf("%s --help: %v, want %q in\n%s", name, err, want, out)
		}
	}
}
