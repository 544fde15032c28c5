package cni

import (
	"errors"
	"maps"
	"path/filepath"
	"testing"

	"github.com/flanneld/flannel/internal/cnicalls"
	"github.com/flanneld/flannel/internal/hostpaths"
)

// TestCallsAreCounted makes calls that succeed and fail, as the runtime makes them. Without a folder
// for the subnet file none is counted, and none fails for that.
func TestCallsAreCounted(t *testing.T) {
	b := newBench(t, both)
	funcs := b.plugin().Funcs()
	b.must(b.call(funcs.Add))
	b.must(b.call(funcs.Check))
	b.must(b.call(funcs.Status))
	b.must(b.call(funcs.Del))
	b.exec.err = errors.New("gone")
	if b.call(funcs.Add) == nil || b.call(funcs.Status) == nil || b.call(funcs.GC) == nil {
		t.Error("a call without a delegate succeeds")
	}
	want := cnicalls.None()
	for _, command := range []string{"ADD", "CHECK", "STATUS", "DEL"} {
		want[cnicalls.Call{Command: command}] = 1
	}
	for _, command := range []string{"ADD", "STATUS", "GC"} {
		want[cnicalls.Call{Command: command, Failed: true}] = 1
	}
	calls, err := cnicalls.Read(hostpaths.CNICalls(filepath.Join(b.dir, "subnet.env")))
	if err != nil || !maps.Equal(calls, want) {
		t.Errorf("counted %v, want %v: %v", calls, want, err)
	}
	b.exec.err = nil
	b.conf["subnetFile"] = filepath.Join(b.dir, "none", "subnet.env")
	b.must(b.call(funcs.Del))
}
