package firewall

import (
	"strings"
	"testing"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/dataplane"
)

func TestParseRule(t *testing.T) {
	const comment = `-m comment --comment "flanneld masq" `
	for _, c := range []struct {
		spec string
		want string // "" if the parser does not understand the rule
		bare bool
	}{
		{comment + "-j RETURN", "return", true},
		{"-m mark --mark 0x4000/0x4000 " + comment + "-j RETURN", "mark 0x4000/0x4000 return", false},
		{"-m mark --mark 0x1 -j DROP", "mark 0x1/0xffffffff drop", false},
		{"! -s 10.5.0.0/16 -d 10.5.1.0/24 -j ACCEPT", "from !10.5.0.0/16 to 10.5.1.0/24 accept", false},
		{"-s fd00:5::/48 ! -d ff00::/8 -j MASQUERADE --random-fully", "from fd00:5::/48 to !ff00::/8 masquerade-random",
			false},
		{"-j MASQUERADE", "masquerade", true},
		{"-j REJECT --reject-with icmp-port-unreachable", "", true},
		{"-m conntrack --ctstate INVALID -j DROP", "", false},
		{"-m mark ! --mark 0x4000/0x4000 -j RETURN", "", false},
		{"-s 10.5.0.0/16 -i eth0 -j ACCEPT", "in eth0 from 10.5.0.0/16 accept", false},
		{"-s 10.5.0.0/16 ! -i eth0 -j ACCEPT", "", false},
		{"-p udp -m udp --dport 8472 -j DROP", "udp 8472 drop", false},
		{"-p udp -m udp --dport 8472:8473 -j DROP", "", false},
		{"-p tcp -m tcp --dport 8472 -j DROP", "", false},
		{"-p ipencap -j DROP", "ipip drop", false},
		{"-m mark --mark 0x4000/0x1 -j RETURN", "", false},
		{"-s 10.5.0.0 -j RETURN", "", false},
		{"-j MASQUERADE --to-ports 1024", "", true},
		{"-j RETURN --random-fully", "", true},
		{"-s", "", false},
		{"", "", true},
	} {
		r := parseRule(c.spec)
		got := ""
		if r.known && r.rule.Verdict != "" {
			got = r.rule.String()
		}
		if got != c.want || r.bare != c.bare {
			t.Errorf("%q: %q, bare %v, want %q, %v", c.spec, got, r.bare, c.want, c.bare)
		}
	}
	if got, want := parseRule(`-m comment --comment "say \"no\" \\ twice" -j A`).comment, `say "no" \ twice`; got != want {
		t.Errorf("comment %q, want %q", got, want)
	}
}

// FuzzParseSave: for any output of iptables-save, a rule that the parser
// understands says the same when it is written again.
func FuzzParseSave(f *testing.F) {
	for _, left := range releases {
		f.Add(fill(left, cidr.V4))
	}
	f.Add(fill(othersRules, cidr.V6))
	f.Fuzz(func(t *testing.T, out string) {
		s, err := parseSave(out)
		if err != nil {
			return
		}
		for _, family := range cidr.Families {
			for _, h := range dataplane.Hooks {
				have := s.at(family, h)
				k := dataplane.ChainKey{Flavour: dataplane.IPTables, Family: family, Hook: h}
				neutralIPTables(k, have, have, false)
				neutralIPTables(k, have, have, true)
			}
			s.blocks(family)
		}
		for _, c := range s {
			for _, r := range c.rules {
				if !r.known || r.rule.Verdict == "" || strings.ContainsAny(r.comment, "\"\\") {
					continue
				}
				spec, err := specOf(r.rule, r.comment)
				again := parseRule(spec)
				if err != nil || !again.known || again.rule != r.rule {
					t.Errorf("%q is written as %q, error %v", r.spec, spec, err)
				}
			}
		}
	})
}

// FuzzDecodeRule: no bytes of the kernel do harm.
func FuzzDecodeRule(f *testing.F) {
	f.Add([]byte{20, 0, 1, 0, 12, 0, 1, 0, 'p', 'a', 'y', 'l', 'o', 'a', 'd', 0, 4, 0, 2, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, family := range cidr.Families {
			if r, _, ok := decodeRule(family, b); ok {
				if _, err := nftRuleText(family, r); err != nil {
					t.Error(err)
				}
			}
		}
		effectOf(b, "x", func(string) effect { return mayAccept })
		anyMatters(b)
	})
}
