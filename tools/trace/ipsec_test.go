package trace

import (
	"strings"
	"testing"
)

// recordedSecurity is an output of ip xfrm policy show.
const recordedSecurity = `src 0.0.0.0/0 dst 0.0.0.0/0 
	dir in priority 0 ptype main 
	if_id 0x5
src 10.5.0.0/16 dst 10.6.0.0/16 
	dir in priority 0 ptype main 
	tmpl src 1.1.1.1 dst 2.2.2.2
		proto esp reqid 11 mode tunnel
src 10.5.0.0/16 dst 10.6.0.0/16 proto udp dport 8472 
	dir out action block priority 7 ptype main 
	mark 0x1/0xff 
src 0.0.0.0/0 dst 0.0.0.0/0 
	socket in priority 0 ptype main 
src 10.5.0.0/16 dst 10.5.0.0/16 
	dir fwd action block priority 3 ptype main 
`

func TestParseSecurity(t *testing.T) {
	all := parseSecurity(recordedSecurity)
	if len(all) != 4 {
		t.Fatalf("read %+v", all)
	}
	if !all[0].Partial || !all[1].Demands || !all[1].isFlannels() || !all[2].Partial || all[2].Port != 8472 ||
		!all[3].Blocks || all[3].Partial || all[3].Dir != "fwd" || all[3].Priority != 3 {
		t.Errorf("read %+v", all)
	}
}

// A policy of another program ends the packets that it blocks, with its text and no word about peers.
func TestForeignPolicies(t *testing.T) {
	const pods, hosts = "src 10.5.0.0/16 dst 10.5.0.0/16\n", "src 192.168.64.0/24 dst 192.168.64.0/24 proto udp\n"
	const block, allow = " action block priority 9\n", " priority 1\n"
	for _, c := range []struct{ name, policies, src, dst, step string }{
		{"out", pods + "\tdir out" + block, "10.5.1.7", "10.5.2.7", "policy"},
		{"forward", pods + "\tdir fwd" + block, "10.5.2.7", "10.5.1.7", "policy"},
		{"an exception before it", pods + "\tdir fwd" + block + pods + "\tdir fwd" + allow, "10.5.2.7", "10.5.1.7", ""},
		{"to the host alone", pods + "\tdir in" + block, "10.5.2.7", "10.5.1.7", ""},
		{"to the host", pods + "\tdir in" + block, "10.5.2.7", "10.5.1.0", "policy"},
		{"the tunnel leaves", hosts + "\tdir out" + block, "10.5.1.7", "10.5.2.7", "underlay"},
		{"the tunnel arrives", hosts + "\tdir in" + block, "10.5.2.7", "10.5.1.7", "arrive"},
	} {
		k := healthy(t)
		k.routes["192.168.64.2"] = Route{Link: "eth0", Src: addr("192.168.64.1")}
		k.view.Security = parseSecurity(c.policies)
		r := trace(t, k, c.src, c.dst, 84)
		last := r.Hops[len(r.Hops)-1]
		if ended := r.Reason == "xfrm_blocked"; ended != (c.step != "") || ended && (last.Step != c.step ||
			!strings.Contains(last.Text, "of another program") || !strings.Contains(r.Remedy, "ip xfrm policy")) {
			t.Errorf("%s, want the end at %q:\n%s", c.name, c.step, text(t, r))
		}
	}
}

// FuzzSecurity: no text of ip does harm.
func FuzzSecurity(f *testing.F) {
	f.Add(recordedSecurity)
	f.Fuzz(func(t *testing.T, text string) {
		for _, r := range parseSecurity(text) {
			if r.Dir == "" || !r.Src.IsValid() {
				t.Errorf("%+v", r)
			}
		}
	})
}
