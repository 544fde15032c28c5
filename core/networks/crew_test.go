package networks

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/flanneld/flannel/core/node"
)

func TestCrewBegins(t *testing.T) {
	former := []string{"green", "blue", "green", ".odd", "red"}
	for name, c := range map[string]struct {
		crew Crew
		want []string
	}{
		"listed":             {Crew{Only: []string{"red", "blue"}}, []string{"red", "blue"}},
		"watched":            {Crew{Watch: true}, []string{"blue", "green", "red"}},
		"watched and listed": {Crew{Watch: true, Only: []string{"blue", "grey"}}, []string{"blue"}},
	} {
		if d := cmp.Diff(c.want, c.crew.Begin(former)); d != "" {
			t.Errorf("%s (-want +got):\n%s", name, d)
		}
	}
}

func TestCrewFollows(t *testing.T) {
	crew := Crew{Watch: true, Only: []string{"blue", "green", "red", "grey"}}
	begin, end := crew.Follow([]string{"red", "blue", "white", "grey"},
		map[string]bool{"blue": false, "green": true, "grey": true, "black": false})
	if d := cmp.Diff([][]string{{"red"}, {"green"}}, [][]string{begin, end}); d != "" {
		t.Errorf("begin and end (-want +got):\n%s", d)
	}
}

func TestCrewAfterAnEnd(t *testing.T) {
	failed, removed := node.Exit{Status: 1}, node.Exit{Removed: true}
	for _, c := range []struct {
		crew Crew
		exit node.Exit
		want Next
	}{
		{Crew{}, failed, Retry},
		{Crew{Watch: true}, failed, Retry},
		{Crew{ExitOnLoss: true}, failed, Exit},
		{Crew{}, removed, Wait},
		{Crew{Watch: true}, removed, Leave},
		{Crew{Watch: true, ExitOnLoss: true}, removed, Leave},
	} {
		if got := c.crew.After(c.exit); got != c.want {
			t.Errorf("%+v after %+v: %d, want %d", c.crew, c.exit, got, c.want)
		}
	}
}
