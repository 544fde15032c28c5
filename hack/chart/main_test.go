package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const root = "../.."

// TestFilesAreGenerated checks that the files of the chart and the manual's table follow from the
// table of values and the registry of backends.
func TestFilesAreGenerated(t *testing.T) {
	wanted, err := files(root)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range wanted {
		have, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, string(have)); diff != "" {
			t.Errorf("%s: make manifest writes it anew (-want +have):\n%s", name, diff)
		}
	}
}

// TestSharedValuesFitEachBackend checks that a value which several backends have means the same for
// each, or that 0 leaves the choice to the backend.
func TestSharedValuesFitEachBackend(t *testing.T) {
	_, byName := options()
	for name, of := range byName {
		v := optionValue(name, of)
		for _, o := range of {
			if decode(o.Default) == v.byDefault || v.byDefault == decode("0") || o.Ignored {
				continue
			}
			t.Errorf("%s is %v by default, and %s of %s is %s", name, v.byDefault, o.Name, o.backend, o.Default)
		}
	}
}
