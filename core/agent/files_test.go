package agent

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/flanneld/flannel/core/node"
)

// Modes and content are exact under every umask, and no temporary files remain
// (interop 4.1: the subnet file is replaced atomically).
func TestFilesAreReplacedWhole(t *testing.T) {
	for _, umask := range []int{0, 0o022, 0o077} {
		old := syscall.Umask(umask)
		t.Cleanup(func() { syscall.Umask(old) })
		dir := filepath.Join(t.TempDir(), "run", "flannel")
		a := &agent{opts: Options{SubnetFile: dir + "/subnet.env", StateFile: dir + "/subnet.env.state"}}
		for _, text := range []string{"first, and longer", "second"} {
			wrote := a.write([]node.Write{
				{File: node.SubnetFile, Data: []byte(text)},
				{File: node.StateFile, Data: []byte(text)},
			})
			if diff := cmp.Diff([]error{nil, nil}, wrote.Errs); diff != "" {
				t.Fatal(diff)
			}
			modes := map[string]fs.FileMode{"": fs.ModeDir | 0o755, "subnet.env": 0o644, "subnet.env.state": 0o600}
			for name, mode := range modes {
				info, err := os.Stat(filepath.Join(dir, name))
				if err != nil || info.Mode() != mode {
					t.Errorf("umask %o: mode of %q is %v (%v), want %v", umask, name, info.Mode(), err, mode)
				}
			}
			if got, err := os.ReadFile(a.opts.SubnetFile); string(got) != text || err != nil {
				t.Errorf("subnet file is %q (%v), want %q", got, err, text)
			}
		}
		if entries, err := os.ReadDir(dir); len(entries) != 2 || err != nil {
			t.Errorf("left in the directory: %v (%v)", entries, err)
		}
		syscall.Umask(old)
	}
}

// An open handle or a changed mode of the old file does not matter: the new file
// is a different one, with the right mode.
func TestModeOfTheOldFileIsNotKept(t *testing.T) {
	path := filepath.Join(t.TempDir(), "subnet.env")
	if err := os.WriteFile(path, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	a := &agent{opts: Options{SubnetFile: path}}
	a.write([]node.Write{{File: node.SubnetFile, Data: []byte("new")}})
	info, err := os.Stat(path)
	if err != nil || info.Mode() != 0o644 {
		t.Errorf("mode %v (%v), want 0644", info.Mode(), err)
	}
}

func TestStateFileIsOptional(t *testing.T) {
	a := &agent{opts: Options{StateFile: ""}}
	if wrote := a.write([]node.Write{{File: node.StateFile, Data: []byte("x")}}); wrote.Errs[0] != nil {
		t.Error(wrote.Errs[0])
	}
	if got := readSaved([]string{"", ""}, nil); got != nil {
		t.Errorf("read %q from nowhere", got)
	}
}

func TestFormerFiles(t *testing.T) {
	dir := t.TempDir()
	good := filepath.Join(dir, "good")
	if err := os.WriteFile(good, []byte("FLANNEL_SUBNET=10.5.3.1/24\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	pipe := filepath.Join(dir, "pipe") // that no program writes to
	if err := unix.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		path, key string
		events    int
	}{
		"good":       {good, subnet.String(), 0},
		"missing":    {dir + "/missing", "", 0},
		"unreadable": {dir, "", 1},
		"pipe":       {pipe, "", 1},
	} {
		t.Run(name, func(t *testing.T) {
			events := 0
			key := readPrevious(c.path, func(node.Event) { events++ })
			if key.IsValid() != (c.key != "") || key.IsValid() && key.String() != c.key {
				t.Errorf("previous subnet %s, want %q", key, c.key)
			}
			if events != c.events {
				t.Errorf("%d events, want %d", events, c.events)
			}
		})
	}
}

// The state file of an earlier release is read until there is one at the new path.
func TestFormerStateFile(t *testing.T) {
	dir := t.TempDir()
	paths := []string{filepath.Join(dir, "var"), filepath.Join(dir, "run")}
	log := func(e node.Event) { t.Errorf("%s: %s", e.Kind, e.Text) }
	if got := readSaved(paths, log); got != nil {
		t.Errorf("without a file: %q", got)
	}
	for _, path := range []string{paths[1], paths[0]} {
		if err := os.WriteFile(path, []byte(path), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := readSaved(paths, log); string(got) != path {
			t.Errorf("got %q, want that of %s", got, path)
		}
	}
}

// Docker makes an empty directory for a mount of a file that does not exist yet: the file takes its place. A
// directory that holds something stays, and the error says what to do.
func TestDirectoryInTheWay(t *testing.T) {
	path := filepath.Join(t.TempDir(), "subnet.env")
	a := &agent{opts: Options{SubnetFile: path}}
	write := func() error { return a.write([]node.Write{{File: node.SubnetFile, Data: []byte("new")}}).Errs[0] }
	if err := os.MkdirAll(filepath.Join(path, "foreign"), 0o755); err != nil {
		t.Fatal(err)
	}
	err := write()
	if err == nil || !strings.Contains(err.Error(), "a directory is in its place; remove it") {
		t.Errorf("error %v", err)
	}
	if err := os.Remove(filepath.Join(path, "foreign")); err != nil {
		t.Fatalf("the foreign directory: %v", err)
	}
	if err := write(); err != nil {
		t.Error(err)
	}
	if got, err := os.ReadFile(path); string(got) != "new" || err != nil {
		t.Errorf("the file holds %q (%v)", got, err)
	}
}

// A pipe in the place of the subnet file does not hold a look up. It counts as a missing file.
func TestLookAtAPipe(t *testing.T) {
	path := filepath.Join(t.TempDir(), "subnet.env")
	if err := unix.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	a := &agent{opts: Options{SubnetFile: path}}
	if l := a.look(t.Context(), &fakeHost{}, node.Look{SubnetFile: true}); l.SubnetFile != nil || l.Err != nil {
		t.Errorf("read %q, %v", l.SubnetFile, l.Err)
	}
}
