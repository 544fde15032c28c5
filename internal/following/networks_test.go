package following

import (
	"errors"
	"slices"
	"testing"
)

// TestNetworks takes looks for networks, and tells only what has changed. The last names outlive a failure.
func TestNetworks(t *testing.T) {
	n := NewNetworks()
	for i, c := range []struct {
		names []string
		err   error
		news  bool
		want  []string
	}{
		{nil, errors.New("away"), false, nil},
		{[]string{"blue"}, nil, true, []string{"blue"}},
		{[]string{"blue"}, nil, false, []string{"blue"}},
		{nil, errors.New("away"), true, []string{"blue"}},
		{[]string{"blue"}, nil, true, []string{"blue"}},
		{nil, nil, true, nil},
	} {
		n.Take(c.names, int64(i), c.err)
		news := false
		select {
		case <-n.Changed():
			news = true
		default:
		}
		names, _, synced := n.Names()
		if news != c.news || !slices.Equal(names, c.want) || synced != (c.err == nil) {
			t.Errorf("look %d: news %t, names %q, synced %t", i, news, names, synced)
		}
	}
}
