package wholedump

import (
	"errors"
	"slices"
	"testing"

	"github.com/vishvananda/netlink"
)

func TestTries(t *testing.T) {
	broken := errors.New("broken")
	for _, c := range []struct {
		name          string
		interruptions int
		err           error
		calls         int
	}{
		{"at rest", 0, nil, 1},
		{"changes twice", 2, nil, 3},
		{"fails after a change", 1, broken, 2},
		{"changes each time", maxTries, netlink.ErrDumpInterrupted, maxTries},
	} {
		t.Run(c.name, func(t *testing.T) {
			calls := 0
			list := func() ([]int, error) {
				calls++
				if calls <= c.interruptions {
					return []int{0}, netlink.ErrDumpInterrupted
				}
				if c.err != nil {
					return nil, c.err
				}
				return []int{1, 2}, nil
			}
			all, err := whole(list)
			if !errors.Is(err, c.err) || calls != c.calls {
				t.Errorf("error %v after %d calls, want %v after %d", err, calls, c.err, c.calls)
			}
			if want := []int{1, 2}; c.err == nil && !slices.Equal(all, want) {
				t.Errorf("list %v, want %v", all, want)
			}
		})
	}
}
