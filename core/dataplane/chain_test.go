package dataplane

import (
	"net/netip"
	"testing"
)

func TestRuleReadsBack(t *testing.T) {
	for _, text := range []string{
		"return",
		"mark 0x4000/0x4000 return",
		"mark 0x0/0xffffffff drop",
		"from 10.5.1.0/24 to !10.5.0.0/16 masquerade-random",
		"from !fd00:10::/56 to fd00:10:0:1::/64 accept",
		"of 10.5.0.0/16 in lo return",
		"of 10.5.0.0/16 udp 8472 from 192.168.64.2/32 return",
		"of fd00:10::/48 ipip drop",
	} {
		r, err := ParseRule("  " + text + " ")
		if err != nil {
			t.Errorf("ParseRule(%q): %v", text, err)
		} else if r.String() != text {
			t.Errorf("ParseRule(%q) prints as %q", text, r)
		}
	}
}

func TestParseRuleErrors(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"", `rule "": line ends early`},
		{"from 10.5.0.0/16", `rule "from 10.5.0.0/16": line ends early`},
		{"from 10.5.0.0/99 accept", `rule "from 10.5.0.0/99 accept": netip.ParsePrefix("10.5.0.0/99"): prefix length out ` +
			`of range`},
		{"udp 70000 drop", `rule "udp 70000 drop": strconv.ParseUint: parsing "70000": value out of range`},
		{"udp drop", `rule "udp drop": strconv.ParseUint: parsing "drop": invalid syntax`},
		{"accept twice", `rule "accept twice": unexpected "twice"`},
		{"mark 0x4000 return", `rule "mark 0x4000 return": mark "0x4000": want value/mask`},
		{"mark 0x4000/0x8000 return", `rule "mark 0x4000/0x8000 return": mark "0x4000/0x8000": the mask does not cover ` +
			`the value`},
	} {
		if _, err := ParseRule(c.text); err == nil || err.Error() != c.want {
			t.Errorf("ParseRule(%q)\n got %v\nwant %s", c.text, err, c.want)
		}
	}
}

func TestParseChainErrors(t *testing.T) {
	for _, c := range []struct{ line, want string }{
		{"chain", `want rules in braces, and nothing after them`},
		{"chain iptables ipv4 forward jump placed { } more", `want rules in braces, and nothing after them`},
		{"chain ipchains ipv4 forward jump placed { }", `unexpected "ipchains"`},
		{"chain iptables ipv5 forward jump placed { }", `unexpected "ipv5"`},
		{"chain iptables ipv4 output jump placed { }", `unexpected "output"`},
		{"chain iptables ipv4 forward jump first { }", `unexpected "first"`},
		{"chain iptables ipv4 forward jump placed twice { }", `unexpected "twice"`},
		{"chain iptables ipv4 forward jump placed { accept; }", `rule "": line ends early`},
		{"chain iptables ipv4 forward jump placed { } other bare", `other bare: want a quoted text`},
	} {
		want := `object "` + c.line + `": ` + c.want
		if _, err := ParseObject(c.line); err == nil || err.Error() != want {
			t.Errorf("ParseObject(%q)\n got %v\nwant %s", c.line, err, want)
		}
	}
}

// Two ways to spell rules are one value.
func TestRulesAreCanonical(t *testing.T) {
	rules, err := ParseRules(" mark 16384/0x4000   return ;from 10.5.0.0/16 accept")
	if err != nil {
		t.Fatal(err)
	}
	list, err := rules.List()
	if err != nil || len(list) != 2 || MakeRules(list...) != rules ||
		rules != "mark 0x4000/0x4000 return; from 10.5.0.0/16 accept" {
		t.Errorf("%q lists as %v (%v)", rules, list, err)
	}
}

func TestRulesOfInputMatch(t *testing.T) {
	peer := netip.MustParseAddr("192.168.64.2")
	for _, c := range []struct {
		rule string
		p    Packet
		want bool
	}{
		{"in lo return", Packet{In: "lo", Src: peer}, true},
		{"in lo return", Packet{In: "eth0", Src: peer}, false},
		{"of 10.5.0.0/16 udp 8472 from 192.168.64.2/32 return", Packet{Proto: ProtoUDP, Port: 8472, Src: peer}, true},
		{"of 10.5.0.0/16 udp 8472 from 192.168.64.2/32 return", Packet{Proto: ProtoUDP, Port: 8473, Src: peer}, false},
		{"of 10.5.0.0/16 udp 8472 from 192.168.64.3/32 return", Packet{Proto: ProtoUDP, Port: 8472, Src: peer}, false},
		{"udp 8472 drop", Packet{Proto: 6, Port: 8472, Src: peer}, false},
		{"ipip drop", Packet{Proto: ProtoIPIP, Src: peer}, true},
		{"ipip drop", Packet{Proto: ProtoUDP, Src: peer}, false},
	} {
		r, err := ParseRule(c.rule)
		if err != nil {
			t.Fatal(err)
		}
		if got := r.Matches(c.p); got != c.want {
			t.Errorf("%s matches %+v: %t", c.rule, c.p, got)
		}
	}
}

func TestRuleMatches(t *testing.T) {
	in, out := netip.MustParseAddr("10.5.1.7"), netip.MustParseAddr("192.168.64.9")
	for _, c := range []struct {
		rule     string
		src, dst netip.Addr
		mark     uint32
		want     bool
	}{
		{"accept", out, out, 7, true},
		{"from 10.5.0.0/16 accept", in, out, 0, true},
		{"from 10.5.0.0/16 accept", out, in, 0, false},
		{"from !10.5.0.0/16 accept", out, in, 0, true},
		{"from !10.5.0.0/16 accept", in, in, 0, false},
		{"from 10.5.0.0/16 to !10.5.0.0/16 accept", in, out, 0, true},
		{"from 10.5.0.0/16 to !10.5.0.0/16 accept", in, in, 0, false},
		{"mark 0x4000/0x4000 accept", in, in, 0x4000, true},
		{"mark 0x4000/0x4000 accept", in, in, 0xc001, true},
		{"mark 0x4000/0x4000 accept", in, in, 0x8001, false},
	} {
		r, err := ParseRule(c.rule)
		if err != nil {
			t.Fatal(err)
		}
		if got := r.Matches(Packet{Src: c.src, Dst: c.dst, Mark: c.mark}); got != c.want {
			t.Errorf("%s: %s to %s with mark %#x: %v", c.rule, c.src, c.dst, c.mark, got)
		}
	}
}
