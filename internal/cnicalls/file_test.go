package cnicalls

import (
	"bytes"
	"maps"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

func counted(t *testing.T, path string) Calls {
	t.Helper()
	calls, err := Read(path)
	if err != nil {
		t.Fatal(err)
	}
	return calls
}

// TestCount counts from many processes' worth of calls at once; none is lost.
func TestCount(t *testing.T) {
	path := filepath.Join(t.TempDir(), "subnet.env.cni")
	if calls := counted(t, path); !maps.Equal(calls, None()) {
		t.Errorf("without a file: %v", calls)
	}
	var all sync.WaitGroup
	const callers, each = 8, 25
	for i := range callers {
		all.Go(func() {
			for range each {
				for err := Count(path, Call{"ADD", i == 0}); err != nil; err = Count(path, Call{"ADD", i == 0}) {
					t.Log(err) // this machine stood still for longer than the lock waits
				}
			}
		})
	}
	all.Wait()
	want := None()
	want[Call{"ADD", false}], want[Call{"ADD", true}] = (callers-1)*each, each
	if calls := counted(t, path); !maps.Equal(calls, want) {
		t.Errorf("calls: %v", calls)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 || info.Size() != int64(size) {
		t.Errorf("file: %v, %v", info, err)
	}
}

// TestOddFiles finds something else at the path. A damaged file is begun anew, and what is no file of
// this program's stays as it is.
func TestOddFiles(t *testing.T) {
	for name, text := range map[string][]byte{
		"empty": {}, "text": []byte("FLANNEL_NETWORK=10.5.0.0/16\n"), "large": bytes.Repeat([]byte{'0'}, 1<<20),
		"negative": []byte("ADD -0000000000000000001 00000000000000000000\n"),
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "calls")
			if err := os.WriteFile(path, text, 0o600); err != nil {
				t.Fatal(err)
			}
			if calls, err := Read(path); err == nil {
				t.Errorf("read as %v", calls)
			}
			if err := Count(path, Call{"DEL", true}); err != nil {
				t.Fatal(err)
			}
			if calls := counted(t, path); calls[Call{"DEL", true}] != 1 {
				t.Errorf("then: %v", calls)
			}
		})
	}
	dir := t.TempDir()
	target, link := filepath.Join(dir, "target"), filepath.Join(dir, "link")
	pipe := filepath.Join(dir, "pipe")
	if err := os.WriteFile(target, []byte("kept"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(target, link); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{link, pipe, dir, filepath.Join(dir, "no", "folder")} {
		if err := Count(path, Call{"ADD", false}); err == nil {
			t.Errorf("counted in %s", path)
		}
	}
	if text, err := os.ReadFile(target); err != nil || string(text) != "kept" {
		t.Errorf("the target of a link is %q, %v", text, err)
	}
}

// TestLockedFile leaves a file alone that another program keeps locked.
func TestLockedFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "calls")
	other, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if err := unix.Flock(int(other.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	if err := Count(path, Call{"ADD", false}); err == nil {
		t.Error("counted")
	}
	if _, err := Read(path); err == nil {
		t.Error("read")
	}
}

func FuzzParse(f *testing.F) {
	f.Add(None().encode())
	f.Add([]byte("ADD 1 2\n"))
	f.Add([]byte("ADD 00000000000000000012 99999999999999999999\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		calls, err := Parse(text)
		if err != nil {
			return
		}
		if len(calls) != 2*len(commands) || !bytes.Equal(calls.encode(), text) {
			t.Errorf("%q is read as %v", text, calls)
		}
	})
}
