package sysctl

import (
	"slices"
	"testing"
)

func TestReadHasTheSettingsOfHostAndNetwork(t *testing.T) {
	all, err := Read()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"kernel/ostype", "vm/overcommit_memory", "net/ipv4/ip_forward"} {
		if all[name] == "" {
			t.Errorf("%s is missing among %d settings", name, len(all))
		}
	}
	if _, there := all["fs/file-nr"]; there {
		t.Error("fs/file-nr changes by itself")
	}
}

func TestChanges(t *testing.T) {
	got := Changes(map[string]string{"a": "1", "b": "1", "c": "1"}, map[string]string{"a": "1", "b": "2", "d": ""})
	want := []string{
		`b is "2"; it was "1"`,
		`c is gone; it was "1"`,
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
