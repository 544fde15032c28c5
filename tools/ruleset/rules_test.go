package ruleset

import (
	"fmt"
	"net/netip"
	"os"
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

func addr(text string) netip.Addr { return netip.MustParseAddr(text) }

// shown describes a Judgement in one line.
func shown(j Judgement) string {
	text := "passes"
	if j.Drops != "" {
		text = "dropped by " + j.Drops
	}
	if j.Drops != "" && j.Accepted != "" {
		text += " unless " + j.Accepted
	}
	for _, rule := range j.Doubts {
		text += " maybe " + rule
	}
	return text
}

// between returns a Packet of a pod on cni0 to one on flannel.1.
func between(proto string, port uint16) Packet {
	return Packet{Src: addr("10.5.1.7"), Dst: addr("10.5.2.7"), In: "cni0", Out: "flannel.1", Proto: proto, Port: port}
}

// with changes a packet.
func with(p Packet, change func(*Packet)) Packet {
	change(&p)
	return p
}

var beyond = with(between("tcp", 443), func(p *Packet) { p.Src, p.In = addr("172.16.0.9"), "eth1" })

// outerPacket is a Packet of a tunnel between two hosts.
func outerPacket(from string, port uint16) Packet {
	return Packet{Src: addr(from), Dst: addr("192.168.64.1"), In: "eth0", Proto: "udp", Port: port}
}

// Each case sends a Packet through rules that a kernel has shown, and compares the beginning of the answer.
func TestRules(t *testing.T) {
	legacy := IPTables("iptables-legacy", string(recorded(t, "iptables.txt")))
	tables, err := NFT(cidr.V4, recorded(t, "nft.json"), func(string) bool { return false })
	if err != nil {
		t.Fatal(err)
	}
	const inLegacy, inNFT = " (iptables-legacy, table filter)", " (nftables, table inet t)"
	for _, c := range []struct {
		name    string
		hook    Hook
		filters Tables
		p       Packet
		want    string
	}{
		{"mail", Forward, legacy, between("tcp", 25), "dropped by rule 1 of chain FORWARD" + inLegacy},
		{"mail by another device", Forward, legacy, with(between("tcp", 25), func(p *Packet) { p.In = "eth1" }),
			"passes"},
		{"a port of a list", Forward, legacy, between("udp", 500), "dropped by rule 2 of chain FORWARD" + inLegacy},
		{"a port of a range in it", Forward, legacy, between("udp", 4505), "dropped by rule 2"},
		{"beside the range", Forward, legacy, between("udp", 4511), "passes"},
		{"not from the network", Forward, legacy, with(beyond, func(p *Packet) { p.Dst = addr("10.5.2.9") }),
			"dropped by rule 3"},
		{"from the network", Forward, legacy, with(between("tcp", 443), func(p *Packet) { p.Dst = addr("10.5.2.9") }),
			"passes"},
		{"in a chain that rules jump to", Forward, legacy,
			with(between("udp", 5), func(p *Packet) { p.Out = "eth1" }),
			"dropped by rule 3 of chain KUBE" + inLegacy + ": -o eth1 -j DROP unless rule 5 of chain FORWARD"},
		{"it returns", Forward, legacy, with(between("icmp", 0), func(p *Packet) { p.Out = "eth1" }), "passes"},
		{"by chance", Forward, legacy, between("tcp", 81), "passes maybe rule 4 of chain KUBE"},
		{"a target's words", Forward, legacy, between("tcp", 79), "passes"},
		{"an unknown mark", Forward, legacy, between("tcp", 8080),
			"dropped by rule 7 of chain FORWARD" + inLegacy + ": -p tcp -m tcp --dport 8080 -j DROP unless rule 5"},
		{"an unknown protocol", Forward, legacy, between("", 0), "passes maybe rule 1 of chain FORWARD"},
		{"let in", Input, legacy, outerPacket("192.168.64.2", 8472), "passes"},
		{"not let in", Input, legacy, outerPacket("192.168.64.2", 51820),
			"dropped by the policy of chain INPUT" + inLegacy},

		{"web", Forward, tables, between("tcp", 80), "dropped by rule 1 of chain f" + inNFT +
			": iifname cni0 tcp dport 80,443-445 drop"},
		{"a range of a set", Forward, tables, between("tcp", 444), "dropped by rule 1 of chain f"},
		{"beside it", Forward, tables, between("tcp", 446), "passes"},
		{"udp to the same port", Forward, tables, between("udp", 80), "passes"},
		{"out of the network", Forward, tables, with(between("udp", 5), func(p *Packet) { p.Dst = addr("1.1.1.1") }),
			"dropped by rule 3 of chain f" + inNFT + ": ip daddr != 10.5.0.0/16 reject"},
		{"a device by the beginning of its name", Forward, tables,
			with(between("udp", 8472), func(p *Packet) { p.Out = "far7" }), "dropped by rule 4"},
		{"flags", Forward, tables, between("tcp", 22), "passes maybe rule 5 of chain f"},
		{"any protocol with ports, in another chain", Forward, tables, between("udp", 53),
			"dropped by rule 2 of chain x"},
		{"it returns before", Forward, tables, between("icmp", 0), "passes"},
		{"no connection has a mark when it begins", Forward, tables, between("udp", 99),
			"dropped by rule 8 of chain f" + inNFT + ": udp dport 99 drop"},
		{"the peer", Input, tables, outerPacket("192.168.64.2", 8472), "passes"},
		{"another host", Input, tables, outerPacket("192.168.64.3", 8472), "dropped by the policy of chain i" + inNFT},
		{"no chain at the hook", Output, append(tables, legacy...), between("tcp", 80), "passes"},
	} {
		got := shown(c.filters.Judge(c.hook, c.p))
		if !strings.HasPrefix(got, c.want) || c.want == "passes" && got != c.want {
			t.Errorf("%s: %s\nwant %s", c.name, got, c.want)
		}
	}
}

// The rules of another family are left out, and those that iptables-nft has shown already.
func TestTablesOfNFT(t *testing.T) {
	both, err := NFT(cidr.V6, recorded(t, "nft.json"), func(string) bool { return false })
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
		filters, err := NFT(c.family, []byte(two), seen)
		names := []string{}
		for _, f := range filters {
			names = append(names, f.Name)
		}
		if got := fmt.Sprint(names); got != c.want || err != nil {
			t.Errorf("%s: %s, %v; want %s", c.family, got, err, c.want)
		}
	}
	if _, err := NFT(cidr.V4, []byte("{"), func(string) bool { return false }); err == nil {
		t.Error("half a text is a ruleset")
	}
}

// No text of a program ends the parsers with a panic.
func FuzzRules(f *testing.F) {
	f.Add(recorded(f, "iptables.txt"))
	f.Add(recorded(f, "nft.json"))
	f.Fuzz(func(_ *testing.T, text []byte) {
		p := between("tcp", 80)
		for _, hook := range []Hook{Ingress, Prerouting, Forward, Input, Output, Postrouting, Egress} {
			IPTables("iptables", string(text)).Judge(hook, p)
			tables, _ := NFT(cidr.V4, text, func(string) bool { return false })
			tables.Judge(hook, p)
		}
	})
}

// A rule that leaves a packet few hops may end it on a later host; one that leaves many does not.
func TestFewHops(t *testing.T) {
	for spec, doubted := range map[string]bool{
		"-o flannel.1 -j TTL --ttl-set 1": true, "-o flannel.1 -j TTL --ttl-set 64": false, "-j HL --hl-dec 1": true,
		"-j TTL --ttl-inc 1": false,
	} {
		tables := IPTables("iptables-nft", "*mangle\n:POSTROUTING ACCEPT [0:0]\n-A POSTROUTING "+spec+"\n")
		j := tables.Judge(Postrouting, between("tcp", 80))
		if (len(j.Doubts) == 1) != doubted || j.Drops != "" {
			t.Errorf("%s: %s", spec, shown(j))
		}
	}
}

// A statement that rewrites the packet leaves its end unknown, except one that no host on the way asks about.
func TestRewrites(t *testing.T) {
	const table = `{"nftables":[{"table":{"family":"ip","name":"s"}},{"chain":{"family":"ip","table":"s","name":"c",` +
		`"type":"filter","hook":"output","prio":0,"policy":"accept"}},{"rule":{"family":"ip","table":"s","chain":"c",` +
		`"expr":[{"mangle":%s}]}}]}`
	for statement, want := range map[string]string{
		`{"key":{"payload":{"protocol":"udp","field":"dport"}},"value":9999}`:        "udp dport set",
		`{"key":{"payload":{"protocol":"ip","field":"daddr"}},"value":"10.5.9.9"}`:   "ip daddr set",
		`{"key":{"payload":{"protocol":"ip","field":"ttl"}},"value":1}`:              "ip ttl set",
		`{"key":{"payload":{"protocol":"ip","field":"ttl"}},"value":64}`:             "",
		`{"key":{"payload":{"protocol":"ip","field":"dscp"}},"value":"af11"}`:        "",
		`{"key":{"tcp option":{"name":"maxseg","field":"size"}},"value":1200}`:       "",
		`{"key":{"payload":{"base":"nh","offset":128,"len":32}},"value":"10.5.9.9"}`: "mangle",
	} {
		tables, err := NFT(cidr.V4, []byte(fmt.Sprintf(table, statement)), func(string) bool { return false })
		if err != nil {
			t.Fatal(err)
		}
		j := tables.Judge(Output, outerPacket("192.168.64.2", 8472))
		if got := strings.Join(j.Doubts, ""); (got != "") != (want != "") || !strings.Contains(got, want) {
			t.Errorf("%s: %s, want %q", statement, shown(j), want)
		}
	}
}
