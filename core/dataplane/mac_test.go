package dataplane

import (
	"strings"
	"testing"
)

func TestParseMAC(t *testing.T) {
	for _, c := range []struct {
		text string
		ok   bool
	}{
		{"c6:d2:32:6f:8f:44", true},
		{"C6:D2:32:6F:8F:44", true},
		{"00:00:00:00:00:00", true},
		{"", false},
		{"c6:d2:32:6f:8f", false},
		{"c6:d2:32:6f:8f:4", false},
		{"c6:d2:32:6f:8f:444", false},
		{"c6-d2-32-6f-8f-44", false},
		{"c6:d2:32:6f:8f:4g", false},
		{"c6:d2:32:6f:8f:44:00:00", false},
		{" c6:d2:32:6f:8f:4", false},
	} {
		m, err := ParseMAC(c.text)
		if c.ok && (err != nil || m.String() != strings.ToLower(c.text)) {
			t.Errorf("ParseMAC(%q) = %v, %v", c.text, m, err)
		}
		if want := `MAC "` + c.text + `": want six hex octets separated by colons`; !c.ok &&
			(err == nil || err.Error() != want) {
			t.Errorf("ParseMAC(%q)\n got %v\nwant %s", c.text, err, want)
		}
	}
	if !(MAC{}).IsZero() || (MAC{5: 1}).IsZero() {
		t.Error("IsZero is wrong")
	}
}

func FuzzParseMAC(f *testing.F) {
	f.Add("c6:d2:32:6f:8f:44")
	f.Add("C6:d2:32:6f:8f:4")
	f.Fuzz(func(t *testing.T, s string) {
		if m, err := ParseMAC(s); err == nil && m.String() != strings.ToLower(s) {
			t.Errorf("ParseMAC(%q) = %v", s, m)
		}
	})
}
