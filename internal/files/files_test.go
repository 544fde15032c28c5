package files

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
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

// TestSweep removes what killed processes have left, and no other file.
func TestSweep(t *testing.T) {
	dir := t.TempDir()
	long := time.Now().Add(-time.Hour)
	for name, old := range map[string]bool{
		".state123": true, ".state9": false, ".state": true, ".state12.bak": true, ".other123": true, "state123": true,
	} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if old {
			if err := os.Chtimes(path, long, long); err != nil {
				t.Fatal(err)
			}
		}
	}
	left := func() (names []string) {
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			names = append(names, e.Name())
		}
		return names
	}
	if err := Replace(filepath.Join(dir, "state"), []byte("s"), 0o600); err != nil {
		t.Fatal(err)
	}
	want := []string{".other123", ".state", ".state12.bak", ".state9", "state", "state123"}
	if got := left(); !slices.Equal(got, want) {
		t.Errorf("left %q, want %q", got, want)
	}
	Sweep(dir, "")
	if got := left(); slices.Contains(got, ".other123") || len(got) != len(want)-1 {
		t.Errorf("of all files left %q", got)
	}
}
