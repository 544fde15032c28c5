package trace

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/flanneld/flannel/core/cidr"
)

// recorded returns an output of iptables-save or nft -j list ruleset, as the programs printed it.
func recorded(t testing.TB, name string) []byte {
	t.Helper()
	text, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// shown describes a judgement in one line.
func shown(j judgement) string {
	text := "passes"
	if j.drops != "" {
		text = "dropped by " + j.drops
	}
	if j.drops != "" && j.accepted != "" {
		text += " unless " + j.accepted
	}
	for _, rule := range j.mayDrop {
		text += " maybe " + rule
	}
	return text
}

// between returns a packet of a pod on cni0 to one on flannel.1.
func between(proto string, port uint16) packet {
	return packet{src: addr("10.5.1.7"), dst: addr("10.5.2.7"), in: "cni0", out: "flannel.1", proto: proto, port: port}
}

// with changes a packet.
func with(p packet, change func(*packet)) packet {
	change(&p)
	return p
}

var beyond = with(between("tcp", 443), func(p *packet) { p.src, p.in = addr("172.16.0.9"), "eth1" })

// outerPacket is a packet of a tunnel between two hosts.
func outerPacket(from string, port uint16) packet {
	return packet{src: addr(from), dst: addr("192.168.64.1"), in: "eth0", proto: "udp", port: port}
}

// Each case sends a packet through rules that a kernel has shown, and compares the beginning of the answer.
func TestRules(t *testing.T) {
	legacy := []Filter{parseIPTables("iptables-legacy", string(recorded(t, "iptables.txt")))}
	tables, err := parseNFT(cidr.V4, recorded(t, "nft.json"), func(string) bool { return false })
	if err != nil {
		t.Fatal(err)
	}
	const inLegacy, inNFT = " (iptables-legacy, table filter)", " (nftables, table inet t)"
	for _, c := range []struct {
		name, hook string
		filters    []Filter
		p          packet
		want       string
	}{
		{"mail", hookForward, legacy, between("tcp", 25), "dropped by rule 1 of chain FORWARD" + inLegacy},
		{"mail by another device", hookForward, legacy, with(between("tcp", 25), func(p *packet) { p.in = "eth1" }),
			"passes"},
		{"a port of a list", hookForward, legacy, between("udp", 500), "dropped by rule 2 of chain FORWARD" + inLegacy},
		{"a port of a range in it", hookForward, legacy, between("udp", 4505), "dropped by rule 2"},
		{"beside the range", hookForward, legacy, between("udp", 4511), "passes"},
		{"not from the network", hookForward, legacy, with(beyond, func(p *packet) { p.dst = addr("10.5.2.9") }),
			"dropped by rule 3"},
		{"from the network", hookForward, legacy, with(between("tcp", 443), func(p *packet) { p.dst = addr("10.5.2.9") }),
			"passes"},
		{"in a chain that rules jump to", hookForward, legacy,
			with(between("udp", 5), func(p *packet) { p.out = "eth1" }),
			"dropped by rule 3 of chain KUBE" + inLegacy + ": -o eth1 -j DROP unless rule 5 of chain FORWARD"},
		{"it returns", hookForward, legacy, with(between("icmp", 0), func(p *packet) { p.out = "eth1" }), "passes"},
		{"by chance", hookForward, legacy, between("tcp", 81), "passes maybe rule 4 of chain KUBE"},
		{"a target's words", hookForward, legacy, between("tcp", 79), "passes"},
		{"an unknown mark", hookForward, legacy, between("tcp", 8080),
			"dropped by rule 7 of chain FORWARD" + inLegacy + ": -p tcp -m tcp --dport 8080 -j DROP unless rule 5"},
		{"an unknown protocol", hookForward, legacy, between("", 0), "passes maybe rule 1 of chain FORWARD"},
		{"let in", hookInput, legacy, outerPacket("192.168.64.2", 8472), "passes"},
		{"not let in", hookInput, legacy, outerPacket("192.168.64.2", 51820),
			"dropped by the policy of chain INPUT" + inLegacy},

		{"web", hookForward, tables, between("tcp", 80), "dropped by rule 1 of chain f" + inNFT +
			": iifname cni0 tcp dport 80,443-445 drop"},
		{"a range of a set", hookForward, tables, between("tcp", 444), "dropped by rule 1 of chain f"},
		{"beside it", hookForward, tables, between("tcp", 446), "passes"},
		{"udp to the same port", hookForward, tables, between("udp", 80), "passes"},
		{"out of the network", hookForward, tables, with(between("udp", 5), func(p *packet) { p.dst = addr("1.1.1.1") }),
			"dropped by rule 3 of chain f" + inNFT + ": ip daddr != 10.5.0.0/16 reject"},
		{"a device by the beginning of its name", hookForward, tables,
			with(between("udp", 8472), func(p *packet) { p.out = "far7" }), "dropped by rule 4"},
		{"flags", hookForward, tables, between("tcp", 22), "passes maybe rule 5 of chain f"},
		{"any protocol with ports, in another chain", hookForward, tables, between("udp", 53),
			"dropped by rule 2 of chain x"},
		{"it returns before", hookForward, tables, between("icmp", 0), "passes"},
		{"an unknown mark of a connection", hookForward, tables, between("udp", 99),
			"dropped by rule 8 of chain f" + inNFT + ": udp dport 99 drop unless rule 7"},
		{"the peer", hookInput, tables, outerPacket("192.168.64.2", 8472), "passes"},
		{"another host", hookInput, tables, outerPacket("192.168.64.3", 8472), "dropped by the policy of chain i" + inNFT},
		{"no chain at the hook", hookOutput, append(tables, legacy...), between("tcp", 80), "passes"},
	} {
		got := shown(judge(c.filters, c.hook, c.p))
		if !strings.HasPrefix(got, c.want) || c.want == "passes" && got != c.want {
			t.Errorf("%s: %s\nwant %s", c.name, got, c.want)
		}
	}
}

// The rules of another family are left out, and those that iptables-nft has shown already.
func TestTablesOfNFT(t *testing.T) {
	both, err := parseNFT(cidr.V6, recorded(t, "nft.json"), func(string) bool { return false })
	if err != nil || len(both) != 1 {
		t.Errorf("an inet table for IPv6: %v, %v", both, err)
	}
	const two = `{"nftables":[{"chain":{"family":"ip","table":"filter","name":"FORWARD","type":"filter",` +
		`"hook":"forward","policy":"drop"}},{"chain":{"family":"ip6","table":"own","name":"f","type":"filter",` +
		`"hook":"forward","policy":"drop"}}]}`
	for _, c := range []struct {
		family   cidr.Family
		iptables bool
		want     string
	}{
		{cidr.V4, false, "[nftables, table ip filter]"}, {cidr.V4, true, "[]"}, {cidr.V6, true, "[nftables, table ip6 own]"},
	} {
		seen := func(table string) bool { return c.iptables && table == "filter" }
		filters, err := parseNFT(c.family, []byte(two), seen)
		names := []string{}
		for _, f := range filters {
			names = append(names, f.Name)
		}
		if got := fmt.Sprint(names); got != c.want || err != nil {
			t.Errorf("%s: %s, %v; want %s", c.family, got, err, c.want)
		}
	}
	if _, err := parseNFT(cidr.V4, []byte("{"), func(string) bool { return false }); err == nil {
		t.Error("half a text is a ruleset")
	}
}

// A walk ends at a rule about the packet's protocol and port, at a rule about the tunnel's packets that leave, and
// at one about those that arrive.
func TestFiltersEndAWalk(t *testing.T) {
	table := func(rules string) []Filter {
		const head = "*filter\n:FORWARD ACCEPT [0:0]\n:INPUT ACCEPT [0:0]\n:OUTPUT ACCEPT [0:0]\n"
		return []Filter{parseIPTables("iptables", head+rules)}
	}
	for _, c := range []struct {
		name, rules, src, dst, proto string
		port                         uint16
		step                         string // "": it passes
	}{
		{"another port", "-A FORWARD -p tcp --dport 80 -j DROP\n", "10.5.1.7", "10.5.2.7", "tcp", 81, ""},
		{"the port", "-A FORWARD -p tcp --dport 80 -j DROP\n", "10.5.1.7", "10.5.2.7", "tcp", 80, "filter"},
		{"the tunnel's packets leave", "-A OUTPUT -p udp --dport 8472 -j REJECT\n", "10.5.1.7", "10.5.2.7", "tcp", 80,
			"underlay"},
		{"they arrive", "-A INPUT -i eth0 -p udp --dport 8472 -j DROP\n", "10.5.2.7", "10.5.1.7", "tcp", 80, "arrive"},
		{"from another host", "-A INPUT -s 192.168.64.9 -p udp --dport 8472 -j DROP\n", "10.5.2.7", "10.5.1.7", "tcp", 80,
			""},
		{"to the host", "-A INPUT -p tcp --dport 22 -j DROP\n", "10.5.1.7", "192.168.64.1", "tcp", 22, "filter"},
		{"from the host", "-A OUTPUT -p icmp -o flannel.1 -j DROP\n", "10.5.1.0", "10.5.2.7", "icmp", 0, "filter"},
	} {
		k := healthy(t)
		k.routes["192.168.64.2"] = Route{Link: "eth0", Src: addr("192.168.64.1")}
		k.view.Filters[cidr.V4] = table(c.rules)
		flow := Flow{Src: addr(c.src), Dst: addr(c.dst), Size: 84, Proto: c.proto, Port: c.port}
		r, err := Walk(t.Context(), k, flow, known)
		if err != nil {
			t.Fatal(err)
		}
		last := r.Hops[len(r.Hops)-1]
		if dropped := r.Reason == "fw_drop"; dropped != (c.step != "") || dropped && last.Step != c.step {
			t.Errorf("%s, want the end at %q:\n%s", c.name, c.step, text(t, r))
		}
	}
}

// A drop by flannel's guard of an unencrypted device is no rule to remove.
func TestGuardDrops(t *testing.T) {
	const rules = "*filter\n:INPUT ACCEPT [0:0]\n:FLANNEL-INPUT - [0:0]\n" +
		"-A INPUT -p udp -m udp --dport 8472 -m comment --comment \"flanneld guard\" -j FLANNEL-INPUT\n" +
		"-A FLANNEL-INPUT -i lo -m comment --comment \"flanneld guard 10.5.0.0/16\" -j RETURN\n" +
		"-A FLANNEL-INPUT -s FROM -p udp -m udp --dport 8472 -m comment --comment \"flanneld guard 10.5.0.0/16\" " +
		"-j RETURN\n" +
		"-A FLANNEL-INPUT -p udp -m udp --dport 8472 -m comment --comment \"flanneld guard 10.5.0.0/16\" -j DROP\n"
	for from, reason := range map[string]string{"192.168.64.2/32": "", "192.168.64.9/32": "fw_drop"} {
		k := healthy(t)
		k.routes["192.168.64.2"] = Route{Link: "eth0", Src: addr("192.168.64.1")}
		k.view.Filters[cidr.V4] = []Filter{parseIPTables("iptables", strings.ReplaceAll(rules, "FROM", from))}
		flow := Flow{Src: addr("10.5.2.7"), Dst: addr("10.5.1.7"), Size: 84, Proto: "tcp", Port: 80}
		r, err := Walk(t.Context(), k, flow, known)
		if err != nil {
			t.Fatal(err)
		}
		if r.Reason != reason || (reason != "") != strings.Contains(r.Remedy, "flannelctl change") {
			t.Errorf("with %s admitted, want %q:\n%s", from, reason, text(t, r))
		}
	}
}

// The rules come from the programs of the host. One that is not installed has none; one that fails is named.
func TestReadingTheRules(t *testing.T) {
	k := &Linux{Run: func(_ context.Context, argv ...string) ([]byte, error) {
		switch argv[0] {
		case "nft":
			return recorded(t, "nft.json"), nil
		case "iptables-legacy-save":
			return recorded(t, "iptables.txt"), nil
		case "ip6tables-legacy-save":
			return nil, errors.New("the lock is held")
		}
		return nil, &exec.Error{Name: argv[0], Err: exec.ErrNotFound}
	}}
	v := k.readRules(t.Context())
	if got := strings.Join(v.unread, "; "); got != "ip6tables-legacy-save: the lock is held" {
		t.Errorf("unread: %s", got)
	}
	if j := judge(v.filters[cidr.V4], hookForward, between("tcp", 25)); !strings.Contains(j.drops, "iptables-legacy") {
		t.Errorf("mail: %s", shown(j))
	}
	if j := judge(v.filters[cidr.V4], hookForward, between("tcp", 80)); !strings.Contains(j.drops, "nftables") {
		t.Errorf("web: %s", shown(j))
	}
}

// No text of a program ends the parsers with a panic.
func FuzzRules(f *testing.F) {
	f.Add(recorded(f, "iptables.txt"))
	f.Add(recorded(f, "nft.json"))
	f.Fuzz(func(_ *testing.T, text []byte) {
		p := between("tcp", 80)
		for _, hook := range []string{hookForward, hookInput, hookOutput} {
			judge([]Filter{parseIPTables("iptables", string(text))}, hook, p)
			tables, _ := parseNFT(cidr.V4, text, func(string) bool { return false })
			judge(tables, hook, p)
		}
	})
}
