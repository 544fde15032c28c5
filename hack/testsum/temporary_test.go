package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestTemporary(t *testing.T) {
	common := t.TempDir()
	long := filepath.Join(t.TempDir(), strings.Repeat("long", 20))
	if err := os.Mkdir(long, 0o700); err != nil {
		t.Fatal(err)
	}
	name, remove := temporary(long, common)
	if err := os.WriteFile(filepath.Join(name, "file"), nil, 0o600); err != nil || len(name)-len(common) > 20 {
		t.Errorf("%s stands for %s: %v", name, long, err)
	}
	remove()
	if _, err := os.Stat(filepath.Join(long, "file")); err != nil {
		t.Errorf("what was written through the short name: %v", err)
	}
	for folder, common := range map[string]string{"/tmp": common, long: common + "/none"} {
		name, remove := temporary(folder, common)
		if name != folder {
			t.Errorf("%s stands for %s", name, folder)
		}
		remove()
	}
	if left, err := os.ReadDir(common); err != nil || len(left) > 0 {
		t.Errorf("%v stay: %v", left, err)
	}
}
