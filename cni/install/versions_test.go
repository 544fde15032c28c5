package install

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/containernetworking/cni/libcni"
	"github.com/google/go-cmp/cmp"
)

// answers are the versions that plugins support, by their names.
type answers map[string][]string

func (a answers) ask(_ context.Context, path string) ([]string, error) {
	versions, ok := a[filepath.Base(path)]
	if !ok {
		return nil, errors.New("no such file")
	}
	return versions, nil
}

var (
	upTo040 = []string{"0.3.0", "0.3.1", "0.4.0"}
	upTo100 = append(upTo040, "1.0.0")
	upTo110 = append(upTo100, "1.1.0")
)

const reference = `{"name":"cbr0","cniVersion":"0.3.1","plugins":[{"type":"flannel"},{"type":"portmap"}]}`

// The list offers what all plugins support, and no more than the runtime's library takes.
func TestVersionsOnOffer(t *testing.T) {
	all := answers{"flannel-cni": upTo110, "bridge": upTo110, "host-local": upTo110, "portmap": upTo110}
	older := answers{"flannel-cni": upTo110, "bridge": upTo100, "host-local": upTo110, "portmap": upTo110}
	oldest := answers{"flannel-cni": upTo110, "bridge": upTo110, "host-local": {"0.3.1"}, "portmap": upTo110}
	missing := answers{"flannel-cni": upTo110, "bridge": upTo110, "host-local": upTo110}
	for _, c := range []struct {
		name, conf string
		plugins    answers
		chosen     string // by a runtime that knows cniVersions
		note       string
	}{
		{"all plugins know 1.1.0", reference, all, "1.1.0", ""},
		{"an older bridge", reference, older, "1.0.0",
			"the configuration does not offer CNI 1.1.0: plugin bridge does not support it"},
		{"an old IPAM plugin", reference, oldest, "0.3.1",
			"the configuration does not offer CNI 1.1.0: plugin host-local does not support it"},
		{"a plugin that is missing", reference, missing, "0.3.1",
			"the configuration offers CNI 0.3.1 alone: plugin portmap does not tell its versions: no such file"},
		{"another delegate", `{"name":"x","cniVersion":"0.3.1","plugins":[{"type":"flannel","delegate":{"type":"ptp"},` +
			`"ipam":{"type":"static"}}]}`, answers{"flannel-cni": upTo110, "ptp": upTo110, "static": upTo110}, "1.1.0", ""},
		{"versions of the operator", `{"name":"x","cniVersion":"0.3.1","cniVersions":["0.4.0"],` +
			`"plugins":[{"type":"flannel"}]}`, all, "0.4.0", ""},
		{"the latest already", `{"name":"x","cniVersion":"1.1.0","plugins":[{"type":"flannel"}]}`, all, "1.1.0", ""},
	} {
		f := newFiles(t, c.conf)
		f.Ask = c.plugins.ask
		_, note, err := f.Install(t.Context())
		if err != nil || note != c.note {
			t.Errorf("%s: note %q, error %v; want %q", c.name, note, err, c.note)
			continue
		}
		text, err := os.ReadFile(filepath.Join(f.ConfDir, ConfName))
		if err != nil {
			t.Fatal(err)
		}
		list, err := libcni.NetworkConfFromBytes(text)
		if err != nil || list.CNIVersion != c.chosen {
			t.Errorf("%s: a runtime chooses %v, %v; want %s of\n%s", c.name, list, err, c.chosen, text)
		}
		// A runtime that knows no cniVersions reads what the operator wrote.
		var before, after struct {
			CNIVersion string
			Name       string
			Plugins    []any
		}
		if err := errors.Join(json.Unmarshal([]byte(c.conf), &before), json.Unmarshal(text, &after)); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(before, after); diff != "" {
			t.Errorf("%s (-want +installed):\n%s", c.name, diff)
		}
	}
}

// A second installation finds everything in place.
func TestVersionsAreStable(t *testing.T) {
	f := newFiles(t, reference)
	f.Ask = answers{"flannel-cni": upTo110, "bridge": upTo110, "host-local": upTo110, "portmap": upTo110}.ask
	for i, want := range []int{2, 0} {
		written, _, err := f.Install(t.Context())
		if err != nil || len(written) != want {
			t.Errorf("installation %d wrote %v, %v", i+1, written, err)
		}
	}
}

// A plugin that is no program has no versions.
func TestAskAProgramThatIsNoPlugin(t *testing.T) {
	path := filepath.Join(t.TempDir(), "bridge")
	if err := os.WriteFile(path, []byte("machine code"), 0o755); err != nil {
		t.Fatal(err)
	}
	if versions, err := AskPlugin(t.Context(), path); err == nil {
		t.Errorf("versions %v", versions)
	}
}
