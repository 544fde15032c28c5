package main

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

func TestUnchanged(t *testing.T) {
	const smaps = `00400000-02a00000 r-xp 00000000 fd:00 131 /opt/bin/flanneld
Rss:               22016 kB
Anonymous:             0 kB
02a00000-04e00000 r--p 02600000 fd:00 131 /opt/bin/flanneld
Anonymous:             0 kB
04e00000-04f00000 rw-p 04a00000 fd:00 131 /opt/bin/flanneld
Anonymous:             0 kB
04f00000-05000000 r--p 04b00000 fd:00 131 /opt/bin/flanneld
Anonymous:            64 kB
04f00000-04f80000 r--p 04b00000 fd:00 131 /opt/bin/flanneld
Anonymous:             0 kB
Swap:                 12 kB
05000000-05100000 r--p 00000000 fd:00 132 /opt/bin/flanneld of another
Anonymous:             0 kB
c000000000-c000400000 rw-p 00000000 00:00 0
Anonymous:             0 kB
7fff00000000-7fff00021000 r-xp 00000000 00:00 0 [vdso]
Anonymous:             0 kB
`
	want := []mapping{{0x400000, 0x2a00000}, {0x2a00000, 0x4e00000}}
	if got := unchanged(smaps, "/opt/bin/flanneld"); !slices.Equal(got, want) {
		t.Errorf("%x, want %x", got, want)
	}
	want = []mapping{{0x5000000, 0x5100000}}
	if got := unchanged(smaps, "/opt/bin/flanneld of another"); !slices.Equal(got, want) {
		t.Errorf("of a name with spaces: %x, want %x", got, want)
	}
}

// The process goes on without the pages that it does not use.
func TestReleaseProgram(t *testing.T) {
	before := programMemory(t)
	err := releaseProgram()
	after := programMemory(t)
	if err != nil || after >= before {
		t.Errorf("%d kB of the program file in memory, %d kB before: %v", after, before, err)
	}
}

// programMemory returns the kilobytes of files that this process has mapped.
func programMemory(t *testing.T) int {
	t.Helper()
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "RssFile:")
	var kilobytes int
	if _, err := fmt.Sscan(rest, &kilobytes); err != nil {
		t.Fatal(err)
	}
	return kilobytes
}
