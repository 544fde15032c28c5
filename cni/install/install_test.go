package install

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const list = `{"name":"cbr0","cniVersion":"0.3.1","plugins":[{"type":"flannel"},{"type":"portmap"}]}`

func newFiles(t *testing.T, conf string) Files {
	dir := t.TempDir()
	f := Files{Plugin: filepath.Join(dir, "flannel-cni"), BinDir: filepath.Join(dir, "host/bin"),
		Conf: filepath.Join(dir, "cni-conf.json"), ConfDir: filepath.Join(dir, "host/net.d")}
	for path, text := range map[string]string{f.Plugin: "machine code", f.Conf: conf} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return f
}

func TestInstall(t *testing.T) {
	f := newFiles(t, list)
	plugin, conf := filepath.Join(f.BinDir, "flannel"), filepath.Join(f.ConfDir, "10-flannel.conflist")
	for _, step := range []struct {
		before func() error
		want   []string
	}{
		{func() error { return nil }, []string{plugin, conf}},
		{func() error { return nil }, nil}, // all files are as desired
		{func() error { return os.Chmod(plugin, 0o600) }, []string{plugin}},
		{func() error { return os.WriteFile(conf, []byte("{}"), 0o644) }, []string{conf}},
		{func() error { return os.Remove(plugin) }, []string{plugin}},
	} {
		if err := step.before(); err != nil {
			t.Fatal(err)
		}
		written, _, err := f.Install(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(step.want, written); diff != "" {
			t.Error(diff)
		}
		for path, mode := range map[string]os.FileMode{plugin: 0o755, conf: 0o644} {
			if info, err := os.Stat(path); err != nil || info.Mode() != mode {
				t.Errorf("%s: %v, %v", path, info, err)
			}
		}
	}
	if text, err := os.ReadFile(conf); err != nil || string(text) != list {
		t.Errorf("%s, %v", text, err)
	}
}

func TestBadConfInstallsNothing(t *testing.T) {
	for conf, want := range map[string]string{
		"":                                 "unexpected end of JSON input",
		`{"plugins":[{"type":"flannel"}]}`: "it needs a name and at least one plugin",
		`{"name":"x","plugins":[]}`:        "it needs a name and at least one plugin",
		`{"name":"x","plugins":[{}]}`:      "plugin 1 of the list has no type",
		`{"name":"x","plugins":[7]}`:       "plugin 1 of the list: json: ",
		`{"name":"my net","plugins":[{"type":"flannel"}]}`:                    `the name "my net": `,
		`{"name":"x","cniVersion":"v1","plugins":[{"type":"flannel"}]}`:       "cniVersion v1: want one of ",
		`{"name":"x","plugins":[{"type":"flannel","delegate":{"ipam":{}}}]}`:  "delegate has a member ipam",
		`{"name":"x","plugins":[{"type":"flannel","delegate":[]}]}`:           "plugin 1 of the list: the configuration",
		`{"name":"x","plugins":[{"type":"flannel","ipam":{"routes":"all"}}]}`: "ipam.routes is not a list",
	} {
		f := newFiles(t, conf)
		if _, _, err := f.Install(t.Context()); err == nil || !strings.Contains(err.Error(), want) ||
			!strings.Contains(err.Error(), f.Conf) {
			t.Errorf("%s: %v", conf, err)
		}
		if _, err := os.Stat(f.BinDir); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: something was installed", conf)
		}
	}
}

func TestMissingFilesAreNamed(t *testing.T) {
	for _, c := range []struct {
		missing func(Files) string
		want    string
	}{
		{func(f Files) string { return f.Plugin }, "read the CNI plugin: open "},
		{func(f Files) string { return f.Conf }, "read the CNI configuration: open "},
	} {
		f := newFiles(t, list)
		if err := os.Remove(c.missing(f)); err != nil {
			t.Fatal(err)
		}
		if _, _, err := f.Install(t.Context()); err == nil || !strings.HasPrefix(err.Error(), c.want+c.missing(f)) {
			t.Errorf("got %v", err)
		}
	}
}

func TestWithoutConfThePluginAlone(t *testing.T) {
	f := newFiles(t, list)
	f.Conf = ""
	written, _, err := f.Install(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{filepath.Join(f.BinDir, "flannel")}, written); diff != "" {
		t.Error(diff)
	}
	if _, err := os.Stat(f.ConfDir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the directory of configurations: %v, want none", err)
	}
}
