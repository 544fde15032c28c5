package files

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// A pipe that no program writes to is an error, and no wait.
func TestReadRegular(t *testing.T) {
	dir := t.TempDir()
	plain, pipe := filepath.Join(dir, "plain"), filepath.Join(dir, "pipe")
	if err := os.WriteFile(plain, []byte("text"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(plain, filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"plain": "text", "link": "text", "pipe": "", ".": "", "none": ""} {
		got, err := ReadRegular(filepath.Join(dir, name), 4)
		if string(got) != want || (err == nil) != (want != "") {
			t.Errorf("%s: %q, %v; want %q", name, got, err, want)
		}
	}
	if got, err := ReadRegular(plain, 3); err == nil {
		t.Errorf("a file that is too large: %q", got)
	}
}
