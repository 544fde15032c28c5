package dataplane

import (
	"strings"
	"testing"
)

func TestOpReadsBack(t *testing.T) {
	for _, verb := range []string{"add", "replace", "del"} {
		for line := range strings.Lines(everyKind) {
			text := verb + " " + strings.TrimSpace(line)
			op, err := ParseOp(text)
			if err != nil {
				t.Errorf("ParseOp(%q): %v", text, err)
			} else if op.String() != text {
				t.Errorf("ParseOp(%q) prints as %q", text, op)
			}
		}
	}
}

func TestParseOpErrors(t *testing.T) {
	for _, c := range []struct{ line, want string }{
		{"", `op "": want add, replace or del`},
		{"append addr 10.5.1.0/32 dev x", `op "append addr 10.5.1.0/32 dev x": want add, replace or del`},
		{"add", `object "": unknown kind ""`},
		{"add tree oak", `object "tree oak": unknown kind "tree"`},
		{"del link x type vxlan mtu big", `object "link x type vxlan mtu big": strconv.ParseUint: parsing "big": invalid ` +
			`syntax`},
		{"del link x type vxlan colour red", `object "link x type vxlan colour red": unexpected "colour"`},
		{"add neigh ten lladdr c6:d2:32:6f:8f:45 dev x",
			`object "neigh ten lladdr c6:d2:32:6f:8f:45 dev x": ParseAddr("ten"): unable to parse IP`},
		{"add route 10.5.3.0 dev x", `object "route 10.5.3.0 dev x": netip.ParsePrefix("10.5.3.0"): no '/'`},
	} {
		if _, err := ParseOp(c.line); err == nil || err.Error() != c.want {
			t.Errorf("ParseOp(%q)\n got %v\nwant %s", c.line, err, c.want)
		}
	}
}

func TestVerbWithoutName(t *testing.T) {
	if got, want := Verb(9).String(), "verb(9)"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
