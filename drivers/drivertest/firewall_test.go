package drivertest

import (
	"net/netip"
	"testing"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/dataplane"
)

func TestParseHarm(t *testing.T) {
	stray := dataplane.Rule{To: dataplane.Match{Prefix: netip.MustParsePrefix("10.5.9.9/32")}, Verdict: dataplane.Drop}
	for _, c := range []struct {
		line string
		want Harm
	}{
		{" flush-ruleset ", Harm{Verb: FlushRuleset}},
		{"stray to 10.5.9.9/32 drop", Harm{Verb: Stray, Rule: stray}},
		{"foreign ipv6 forward to 10.5.9.9/32 drop",
			Harm{Verb: Foreign, Family: cidr.V6, Hook: dataplane.Forward, Rule: stray}},
		{"policy accept", Harm{Verb: Policy, Rule: dataplane.Rule{Verdict: dataplane.Accept}}},
		{"foreign-table firewalld", Harm{Verb: ForeignTable, Name: "firewalld"}},
		{"zones firewalld", Harm{Verb: Zones, Name: "firewalld"}},
	} {
		if got, err := ParseHarm(c.line); err != nil || got != c.want {
			t.Errorf("ParseHarm(%q) = %+v, %v, want %+v", c.line, got, err, c.want)
		}
	}
	for _, c := range []struct{ line, want string }{
		{"", `harm "": unknown verb ""`},
		{"burn", `harm "burn": unknown verb "burn"`},
		{"flush-ruleset now", `harm "flush-ruleset now": want 0 words after the verb, have 1`},
		{"foreign-table", `harm "foreign-table": want 1 words after the verb, have 0`},
		{"policy", `harm "policy": rule "": line ends early`},
		{"foreign ipv5 forward accept", `harm "foreign ipv5 forward accept": unknown family "ipv5"`},
		{"foreign ipv4 output accept", `harm "foreign ipv4 output accept": unknown hook "output"`},
		{"foreign ipv4 forward", `harm "foreign ipv4 forward": rule "": line ends early`},
	} {
		if _, err := ParseHarm(c.line); err == nil || err.Error() != c.want {
			t.Errorf("ParseHarm(%q): error %v, want %s", c.line, err, c.want)
		}
	}
}

func FuzzParseHarm(f *testing.F) {
	f.Add("foreign ipv6 forward to 10.5.9.9/32 drop")
	f.Add("foreign-table firewalld")
	f.Fuzz(func(t *testing.T, line string) {
		if h, err := ParseHarm(line); err == nil && h.Verb == Foreign && h.Rule.Verdict == "" {
			t.Errorf("%q adds no rule: %+v", line, h)
		}
	})
}
