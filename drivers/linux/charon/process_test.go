package charon

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/flanneld/flannel/core/driver"
)

// The places of the contract, in its order (interop 6.6).
func TestPlaces(t *testing.T) {
	want := []string{
		"/usr/lib/strongswan/charon", "/usr/lib/ipsec/charon", "/usr/libexec/strongswan/charon", "/usr/libexec/ipsec/charon",
	}
	if !slices.Equal(places, want) {
		t.Errorf("charon is looked for at %q, want %q", places, want)
	}
}

// Charon is the given program, or the first one found in PATH and then in the usual places.
func TestFind(t *testing.T) {
	const none = ""
	for _, c := range []struct {
		name  string
		given string // --charon-exec-path
		have  string // programs there are; "file" cannot be run
		want  string
		error string
	}{
		{"in PATH and everywhere", none, "path/charon one/charon two/charon", "path/charon", none},
		{"second folder of PATH", none, "path2/charon one/charon", "path2/charon", none},
		{"first place", none, "one/charon two/charon", "one/charon", none},
		{"second place", none, "two/charon", "two/charon", none},
		{"a file that cannot be run", none, "path/charon:file one/charon:file two/charon", "two/charon", none},
		{"a folder of that name", none, "one/charon/other two/charon", "two/charon", none},
		{"none", none, none, none, "install strongSwan's charon"},
		{"given", "else/mine", "else/mine path/charon one/charon", "else/mine", none},
		{"given by name", "mine", "path/mine path/charon one/charon", "path/mine", none},
		{"given and absent", "else/mine", "path/charon one/charon", none, "--charon-exec-path: "},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			for _, name := range strings.Fields(c.have) {
				install(t, dir, name)
			}
			t.Setenv("PATH", filepath.Join(dir, "path")+":"+filepath.Join(dir, "path2"))
			given := c.given
			if strings.Contains(given, "/") {
				given = filepath.Join(dir, given)
			}
			got, err := find(given, []string{filepath.Join(dir, "one/charon"), filepath.Join(dir, "two/charon")})
			want := c.want
			if want != none {
				want = filepath.Join(dir, want)
			}
			if got != want {
				t.Errorf("found %q, want %q (%v)", got, want, err)
			}
			if (err != nil) != (c.error != none) || err != nil && !strings.Contains(err.Error(), c.error) {
				t.Errorf("error %v, want one that says %q", err, c.error)
			}
			if c.given == none && err != nil && !errors.Is(err, driver.ErrUnsupported) {
				t.Errorf("error %v does not say that the host lacks something", err)
			}
		})
	}
}

// install makes a program of this path below a folder, or with ":file" after its name one that cannot be run.
func install(t *testing.T, dir, name string) {
	t.Helper()
	name, unrunnable := strings.CutSuffix(name, ":file")
	mode := os.FileMode(0o755)
	if unrunnable {
		mode = 0o644
	}
	path := filepath.Join(dir, name)
	err := os.MkdirAll(filepath.Dir(path), 0o755)
	if err == nil {
		err = os.WriteFile(path, []byte("#!/bin/sh\n"), mode)
	}
	if err != nil {
		t.Fatal(err)
	}
}
