package demo_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/flanneld/flannel/harness"
	"github.com/flanneld/flannel/harness/demo"
)

func TestMain(m *testing.M) { harness.Main(m) }

// TestDemo runs the whole show, holds it up, and ends it as Ctrl-C does.
func TestDemo(t *testing.T) {
	daemon, err := harness.BuildDaemon(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	tool, err := harness.BuildTool(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	out := &endAt{text: "peers --watch", end: stop}
	if err := demo.Run(ctx, demo.Options{Daemon: daemon, Tool: tool, Hold: true, Out: out}); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, want := range []string{
		"every pod pings every pod", "deleted flannel.1 on n2", "flannel.1 is back on n2", "from every pod again",
		"flannelctl peers on n3, which has 192.168.64.3", "nsenter -t ",
		"status --subnet-file /proc/", "ending",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the demo did not print %q:\n%s", want, out)
		}
	}
	// The columns in between appear once the node has peers to probe.
	if n := len(regexp.MustCompile(`vxlan +tunnel flannel\.1 .*served\n`).FindAllString(out.String(), -1)); n != 6 {
		t.Errorf("%d rows of served peers, want 2 for each of 3 nodes:\n%s", n, out)
	}
	if n := strings.Count(out.String(), "2 peers: 2 served\n"); n != 3 {
		t.Errorf("%d nodes serve their peers, want 3:\n%s", n, out)
	}
}

// TestDemoFails checks that the demo fails if a daemon does not start, and shows its log.
func TestDemoFails(t *testing.T) {
	daemon := filepath.Join(t.TempDir(), "flanneld")
	if err := os.WriteFile(daemon, []byte("#!/bin/sh\necho cannot go on >&2\nexit 3\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	err := demo.Run(t.Context(), demo.Options{Daemon: daemon, Tool: daemon, Out: &out})
	if err == nil || !strings.Contains(err.Error(), "exit status 3") {
		t.Errorf("Run: %v, want an error with the exit status", err)
	}
	want := "the last lines of flanneld on n1 (not running: exit status 3)\ncannot go on"
	if !strings.Contains(out.String(), want) {
		t.Errorf("the demo did not print %q:\n%s", want, &out)
	}
}

func TestDemoNeedsADaemon(t *testing.T) {
	err := demo.Run(t.Context(), demo.Options{Daemon: "/nonexistent/flanneld", Out: new(bytes.Buffer)})
	if !errors.Is(err, os.ErrNotExist) {
		t.Errorf("Run: %v, want a missing file", err)
	}
}

// endAt is a writer that calls end once a text has been written.
type endAt struct {
	bytes.Buffer
	text string
	end  func()
}

func (w *endAt) Write(p []byte) (int, error) {
	if strings.Contains(string(p), w.text) {
		w.end()
	}
	return w.Buffer.Write(p)
}
