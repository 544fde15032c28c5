package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The init containers of upstream's manifests run these commands, with our image in place of both of upstream's.
func TestCopiesLikeUpstreamsInitContainers(t *testing.T) {
	for _, c := range []struct {
		program string
		args    []string // SRC, DST and DIR stand for a source, a file that exists and its folder
		want    string   // the file that has the text of the source; empty: the command fails
	}{
		{"/opt/bin/install-conf", []string{"SRC", "DST"}, "DST"},
		{"/opt/bin/install-conf", []string{"SRC", "DIR/new"}, "DIR/new"},
		{"/opt/bin/cp", []string{"-f", "SRC", "DST"}, "DST"},
		{"cp", []string{"SRC", "DST"}, "DST"},
		{"cp", []string{"-f", "SRC", "DIR"}, "DIR/source"},
		{"/opt/bin/install-conf", []string{"SRC"}, ""},
		{"/opt/bin/install-conf", []string{"-f", "SRC", "DST"}, ""},
		{"/opt/bin/install-conf", []string{"DIR/none", "DST"}, ""},
		{"cp", []string{"-r", "SRC", "DST"}, ""},
		{"cp", []string{"SRC", "SRC", "DST"}, ""},
		{"cp", []string{"DIR", "DIR/new"}, ""},
		{"cp", []string{"SRC", "DIR/none/file"}, ""},
	} {
		dir := t.TempDir()
		source, old := filepath.Join(t.TempDir(), "source"), filepath.Join(dir, "old")
		names := strings.NewReplacer("SRC", source, "DST", old, "DIR", dir)
		write := func(path, text string, mode os.FileMode) {
			if err := errors.Join(os.WriteFile(path, []byte(text), mode), os.Chmod(path, mode)); err != nil {
				t.Fatal(err)
			}
		}
		write(source, "new", 0o755)
		write(old, "former", 0o600)

		cmd, out := command(t, nil)
		cmd.Args = []string{c.program}
		for _, arg := range c.args {
			cmd.Args = append(cmd.Args, names.Replace(arg))
		}
		err := cmd.Run()
		if c.want == "" {
			former, _ := os.ReadFile(old)
			if cmd.ProcessState.ExitCode() != statusFailed || out.Len() == 0 || string(former) != "former" {
				t.Errorf("%s %s: status %d, %q, and the file holds %q", c.program, c.args, cmd.ProcessState.ExitCode(), out, former)
			}
			continue
		}
		got, readErr := os.ReadFile(names.Replace(c.want))
		info, statErr := os.Stat(names.Replace(c.want))
		if err != nil || readErr != nil || statErr != nil || string(got) != "new" || info.Mode().Perm() != 0o755 {
			t.Errorf("%s %s: %v, %s; the file holds %q (%v, %v)", c.program, c.args, err, out, got, readErr, statErr)
		}
	}
}
