package files

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/flanneld/flannel/internal/killed"
)

// onSmallDisk runs f with a folder on a file system of 16 KiB, in a mount namespace of its own.
func onSmallDisk(t *testing.T, f func(dir string)) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root may mount a small file system")
	}
	dir := t.TempDir()
	failed := make(chan error, 1)
	go func() { // the thread ends with the goroutine
		runtime.LockOSThread()
		err := unix.Unshare(unix.CLONE_FS | unix.CLONE_NEWNS)
		err = errors.Join(err, unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""))
		err = errors.Join(err, unix.Mount("tmpfs", dir, "tmpfs", 0, "size=16k"))
		if err == nil {
			f(dir)
		}
		failed <- err
	}()
	if err := <-failed; err != nil {
		t.Fatal(err)
	}
}

// fill takes all space that is left.
func fill(t *testing.T, dir string) {
	t.Helper()
	for size := 4096; size > 0; size /= 2 {
		for err := error(nil); err == nil; {
			var f *os.File
			f, err = os.OpenFile(filepath.Join(dir, "filler"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
			if err == nil {
				_, err = f.Write(bytes.Repeat([]byte("x"), size))
				_ = f.Close()
			}
		}
	}
}

// TestLinesOnAFullDisk adds lines until the disk is full, and again once it has room: each line that was added is
// there, and none is glued to a part of another.
func TestLinesOnAFullDisk(t *testing.T) {
	onSmallDisk(t, func(dir string) {
		path := filepath.Join(dir, "record")
		if err := os.WriteFile(path, []byte("torn"), 0o600); err != nil {
			t.Error(err)
			return
		}
		l, err := AddTo(path)
		if err != nil {
			t.Error(err)
			return
		}
		defer l.Close()
		line := strings.Repeat("y", 700)
		want := []string{"torn"}
		for err == nil {
			err = l.Add(line)
			if err == nil {
				want = append(want, line)
			}
			if len(want) == 3 {
				fill(t, dir)
			}
		}
		if !errors.Is(err, unix.ENOSPC) {
			t.Errorf("a full disk: %v", err)
		}
		_ = os.Remove(filepath.Join(dir, "filler"))
		if err := l.Add("last"); err != nil {
			t.Error(err)
		}
		text, err := os.ReadFile(path)
		got := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
		if err != nil || !slices.Equal(got, append(want, "last")) {
			t.Errorf("%d lines, want %d: %v", len(got), len(want)+1, err)
		}
	})
}

// TestReplaceOnAFullDisk keeps the old file, and leaves no other.
func TestReplaceOnAFullDisk(t *testing.T) {
	onSmallDisk(t, func(dir string) {
		path := filepath.Join(dir, "state")
		if err := Replace(path, []byte("old"), 0o600); err != nil {
			t.Error(err)
		}
		fill(t, dir)
		if err := Replace(path, bytes.Repeat([]byte("n"), 8192), 0o600); !errors.Is(err, unix.ENOSPC) {
			t.Errorf("a full disk: %v", err)
		}
		text, err := os.ReadFile(path)
		names, _ := filepath.Glob(filepath.Join(dir, ".*"))
		if string(text) != "old" || err != nil || len(names) > 0 {
			t.Errorf("%q, %v, left over: %q", text, err, names)
		}
	})
}

// killedEnv makes this program replace the file that it names, and the kernel kill it at the rename.
const killedEnv = "FLANNEL_KILLED_WRITE"

func TestMain(m *testing.M) {
	if path := os.Getenv(killedEnv); path != "" {
		err := killed.AtRename()
		if err == nil {
			err = Replace(path, []byte("new"), 0o600)
		}
		fmt.Println("not killed:", err)
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// TestKilledWrites kills processes in the middle of a write. The old file stays, and the next write leaves no other.
func TestKilledWrites(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "state")
	if err := Replace(path, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	for range 5 {
		cmd := exec.Command("/proc/self/exe")
		cmd.Env = append(os.Environ(), killedEnv+"="+path)
		out, err := cmd.CombinedOutput()
		if status, is := cmd.ProcessState.Sys().(syscall.WaitStatus); !is || !status.Signaled() {
			t.Fatalf("%v: %s", err, out)
		}
		text, err := os.ReadFile(path)
		if names := list(t, dir); string(text) != "old" || err != nil || len(names) != 2 {
			t.Fatalf("%q, %v, %q", text, err, names)
		}
	}
	if err := Replace(path, []byte("new"), 0o600); err != nil {
		t.Fatal(err)
	}
	if names := list(t, dir); !slices.Equal(names, []string{"state"}) {
		t.Errorf("left %q", names)
	}
}

// list returns the names in a folder.
func list(t *testing.T, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// TestReplaceBesideSweeps writes a file while other programs take each temporary file for a left one.
func TestReplaceBesideSweeps(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "state")
	var writers sync.WaitGroup
	for range 4 {
		writers.Go(func() {
			for i := range 200 {
				if err := Replace(path, fmt.Append(nil, i), 0o600); err != nil {
					t.Error(err)
				}
			}
		})
	}
	writers.Wait()
	if names := list(t, dir); !slices.Equal(names, []string{"state"}) {
		t.Errorf("left %q", names)
	}
}

// TestSweep removes what killed processes have left, and no other file.
func TestSweep(t *testing.T) {
	dir := t.TempDir()
	var writing *os.File
	for _, name := range []string{".state123", ".state9", ".state", ".state12.bak", ".other123", "state123"} {
		f, err := os.Create(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if name == ".state9" {
			writing = f
			continue
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
	defer writing.Close()
	held, err := hold(writing)
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(held)
	if err := Replace(filepath.Join(dir, "state"), []byte("s"), 0o600); err != nil {
		t.Fatal(err)
	}
	want := []string{".other123", ".state", ".state12.bak", ".state9", "state", "state123"}
	if got := list(t, dir); !slices.Equal(got, want) {
		t.Errorf("left %q, want %q", got, want)
	}
	Sweep(dir, "")
	if got := list(t, dir); slices.Contains(got, ".other123") || len(got) != len(want)-1 {
		t.Errorf("of all files left %q", got)
	}
}

// mayWrite are the files of the programs that write by other means: to the kernel's files, or links.
var mayWrite = []string{"cmd/flanneld/embed_etcd.go", "cni/saved.go", "drivers/linux/linuxtest/"}

// TestNoOtherWriter finds code of the programs on a node that writes files by other means than this package.
func TestNoOtherWriter(t *testing.T) {
	const root = "../.."
	read := 0
	for _, dir := range []string{"cmd", "cni", "core", "drivers"} {
		err := filepath.WalkDir(filepath.Join(root, dir), func(path string, d fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			name, err := filepath.Rel(root, path)
			if err != nil || slices.ContainsFunc(mayWrite, func(p string) bool { return strings.HasPrefix(name, p) }) {
				return err
			}
			text, err := os.ReadFile(path)
			read++
			for _, call := range []string{"os.WriteFile(", "os.Create(", "os.CreateTemp(", "os.Rename(", "renameio."} {
				if bytes.Contains(text, []byte(call)) {
					t.Errorf("%s calls %s; a kill or a full disk in the middle tears the file: use this package", name, call)
				}
			}
			return err
		})
		if err != nil {
			t.Error(err)
		}
	}
	if read < 100 {
		t.Errorf("read %d files only", read)
	}
}
