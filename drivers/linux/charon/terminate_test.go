package charon

import (
	"errors"
	"testing"
)

// Charon's errors when it is asked to end tunnels that the peer ends at the same time.
var (
	errSome = errors.New("terminate: vici: command failed: not all matching SAs could be terminated")
	errNone = errors.New("terminate: vici: command failed: no matching SAs to terminate found")
	errElse = errors.New("terminate: vici: command failed: missing terminate selector")
)

func TestTunnelsThatThePeerEndsToo(t *testing.T) {
	for _, c := range []struct {
		name    string
		answers []error
		want    error
	}{
		{"all ended", []error{nil}, nil},
		{"the peer was faster", []error{errNone}, nil},
		{"the peer ended one of two", []error{errSome, errNone}, nil},
		{"one stays", []error{errSome, errSome, errSome}, errSome},
		{"a wrong command", []error{errElse}, errElse},
	} {
		asked := 0
		got := UntilNone(func() error {
			asked++
			return c.answers[asked-1]
		})
		if !errors.Is(got, c.want) || asked != len(c.answers) {
			t.Errorf("%s: %v after %d attempts, want %v after %d", c.name, got, asked, c.want, len(c.answers))
		}
	}
}
