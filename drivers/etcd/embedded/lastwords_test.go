package embedded

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// inFolder makes this test program run an etcd in a folder, and write to it until it ends.
const inFolder = "TEST_ETCD_FOLDER"

// TestDamagedFiles damages the files of an etcd. The process ends with a line that names the folder.
func TestDamagedFiles(t *testing.T) {
	if dir := os.Getenv(inFolder); dir != "" {
		useFolder(t, dir)
		return
	}
	for damaged, from := range map[string]int64{"member/snap/db": 0, "member/wal/*.wal": 0} {
		t.Run(filepath.Base(damaged), func(t *testing.T) {
			dir := t.TempDir()
			s, err := Start(t.Context(), Options{Dir: dir, UnsafeNoSync: true})
			if err != nil {
				t.Fatal(err)
			}
			_, err = s.Client().Put(t.Context(), "/k", "v")
			if err != nil {
				t.Fatal(err)
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			paths, err := filepath.Glob(filepath.Join(dir, damaged))
			if err != nil || len(paths) != 1 {
				t.Fatalf("%q, %v", paths, err)
			}
			file, err := os.OpenFile(paths[0], os.O_RDWR, 0)
			if err != nil {
				t.Fatal(err)
			}
			_, err = file.WriteAt([]byte(strings.Repeat("damaged ", 10000)), from)
			if err := errors.Join(err, file.Close()); err != nil {
				t.Fatal(err)
			}
			expectLastWords(t, dir)
		})
	}
}

// TestFullDisk lets an etcd write until its disk is full.
func TestFullDisk(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root may mount a small file system")
	}
	expectLastWords(t, t.TempDir(), "unshare", "--mount", "sh", "-c",
		`mount -t tmpfs -o size=160m tmpfs "$`+inFolder+`" && exec "$0" "$@"`)
}

// expectLastWords runs an etcd in a folder, in a process of its own by a wrapper.
func expectLastWords(t *testing.T, dir string, wrapper ...string) {
	t.Helper()
	argv := append(wrapper, "/proc/self/exe", "-test.run=^TestDamagedFiles$")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	argv[len(argv)-2] = self
	cmd := exec.CommandContext(t.Context(), argv[0], argv[1:]...)
	cmd.Env = append(os.Environ(), inFolder+"="+dir)
	cmd.SysProcAttr = &unix.SysProcAttr{Pdeathsig: unix.SIGKILL}
	out, err := cmd.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "embedded etcd in "+dir+" cannot go on: ") ||
		strings.Contains(string(out), "goroutine ") {
		t.Errorf("%v:\n%s", err, out[:min(len(out), 3000)])
	}
}

// useFolder runs an etcd, and writes until that fails.
func useFolder(t *testing.T, dir string) {
	s, err := Start(t.Context(), Options{Dir: dir, UnsafeNoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	value := strings.Repeat("v", 1<<20)
	for err == nil {
		_, err = s.Client().Put(t.Context(), "/k", value)
	}
	t.Fatal(err)
}
