package control

import (
	"strings"
	"testing"
)

// A network may have a name of 200 bytes, but the path of a socket has 107 at most.
func TestSocketFits(t *testing.T) {
	const dir = "/run/flannel/networks/"
	name := func(length int, last string) string {
		return dir + strings.Repeat("n", length-len(last)) + last + ".env"
	}
	for file, want := range map[string]string{
		dir + "blue.env": dir + "blue.env.sock",
		name(76, "a"):    name(76, "a") + ".sock",
		name(77, "a"):    dir + "flannel-9d46c0b665088a67.sock",
		name(200, "a"):   dir + "flannel-0a9b91f92b0f7fdb.sock",
		name(200, "b"):   dir + "flannel-d43ac13b24afeb9b.sock",
	} {
		got := Socket(file)
		if got != want || len(got) > longestSocket {
			t.Errorf("%s: %s (%d bytes), want %s", file, got, len(got), want)
		}
	}
}
