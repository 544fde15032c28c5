package scenarios

import (
	"fmt"
	"slices"
	"testing"
)

// TestSharesAreAllFiles checks that each file is in exactly one share, and that no share has
// two files more than another.
func TestSharesAreAllFiles(t *testing.T) {
	files := []string{"a", "b", "c", "d", "e", "f", "g"}
	for shares := 1; shares <= len(files)+1; shares++ {
		var found []string
		for n := range shares {
			mine, err := share(files, fmt.Sprintf("%d/%d", n+1, shares))
			if err != nil || len(mine) < len(files)/shares || len(mine) > len(files)/shares+1 {
				t.Errorf("share %d of %d: %q, error %v", n+1, shares, mine, err)
			}
			found = append(found, mine...)
		}
		slices.Sort(found)
		if !slices.Equal(found, files) {
			t.Errorf("%d shares hold %q", shares, found)
		}
	}
}

func TestBadShare(t *testing.T) {
	for _, bad := range []string{"", "1", "0/2", "3/2", "one/2", "1/two", "1/0"} {
		want := fmt.Sprintf("%q: want a number and the number of shares, such as 1/2", bad)
		if _, err := share(nil, bad); err == nil || err.Error() != want {
			t.Errorf("error %v, want %s", err, want)
		}
	}
}
