package lang

import "testing"

// TestLossOfAStream checks that only a slow world may lose packets, and only as many as
// the file allows.
func TestLossOfAStream(t *testing.T) {
	for _, c := range []struct {
		lost, most int
		slow       bool
		want       string
	}{
		{0, 0, false, "sent=true lost=0"},
		{0, 0, true, "sent=true lost=0"},
		{1, 0, true, "sent=true lost=1"},
		{0, 2, false, "sent=true lost<=2"},
		{1, 2, false, "sent=true lost=1"},
		{2, 2, true, "sent=true lost<=2"},
		{3, 2, true, "sent=true lost=3"},
	} {
		if got := streamed(9, c.lost, c.most, c.slow); got != c.want {
			t.Errorf("%+v: %s", c, got)
		}
	}
}
