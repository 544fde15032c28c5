package firewall

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/driver"
)

// addrs reads addresses.
func addrs(texts ...string) []netip.Addr {
	var all []netip.Addr
	for _, text := range texts {
		all = append(all, netip.MustParseAddr(text))
	}
	return all
}

// vxlanAndIPIP are the guards of a node that keeps two devices for IPv4, and one for IPv6.
func vxlanAndIPIP() [2][]Guard {
	return [2][]Guard{
		cidr.V4: {
			{Proto: dataplane.ProtoUDP, Port: 8472, From: addrs("192.168.64.4", "192.168.64.9", "192.168.64.5")},
			{Proto: dataplane.ProtoIPIP, From: addrs("192.168.64.9")},
		},
		cidr.V6: {{Proto: dataplane.ProtoUDP, Port: 8472}},
	}
}

// TestGuards: the chain admits the listed addresses, and drops the guarded packets of all others. No flag turns it off.
func TestGuards(t *testing.T) {
	for _, o := range []Options{{}, {Forward: true, Masquerade: true}} {
		o.Guards = vxlanAndIPIP()
		got := Render(o, dual(false), own(), everything())
		have := dataplane.NewState()
		for k, c := range got.Chains.Chains {
			if k.Hook == dataplane.Input {
				have.AddChain(c)
			}
		}
		const want = "chain iptables ipv4 input jump placed { of 10.5.0.0/16 in lo return; " +
			"of 10.5.0.0/16 udp 8472 from 192.168.64.4/31 return; of 10.5.0.0/16 udp 8472 from 192.168.64.9/32 return; " +
			"of 10.5.0.0/16 udp 8472 drop; " +
			"of 10.5.0.0/16 ipip from 192.168.64.9/32 return; of 10.5.0.0/16 ipip drop }\n" +
			"chain iptables ipv6 input jump placed { of fd00:10::/48 in lo return; of fd00:10::/48 udp 8472 drop }\n"
		if d := cmp.Diff(want, have.Dump()); d != "" {
			t.Errorf("%+v (-want +got):\n%s", o, d)
		}
		if !o.Any() && len(got.Chains.Chains) != 2 {
			t.Errorf("other chains:\n%s", got.Chains.Dump())
		}
	}
}

func TestGuardsDecide(t *testing.T) {
	rules := guarding(netip.MustParsePrefix("10.5.0.0/16"), vxlanAndIPIP()[cidr.V4])
	peer, other := netip.MustParseAddr("192.168.64.4"), netip.MustParseAddr("192.168.64.6")
	for _, c := range []struct {
		p    dataplane.Packet
		want dataplane.Verdict
	}{
		{dataplane.Packet{In: "eth0", Proto: 17, Port: 8472, Src: peer}, dataplane.Return},
		{dataplane.Packet{In: "eth0", Proto: 17, Port: 8472, Src: other}, dataplane.Drop},
		{dataplane.Packet{In: "lo", Proto: 17, Port: 8472, Src: other}, dataplane.Return},
		{dataplane.Packet{In: "eth0", Proto: 17, Port: 51820, Src: other}, dataplane.Return},
		{dataplane.Packet{In: "eth0", Proto: 6, Port: 8472, Src: other}, dataplane.Return},
		{dataplane.Packet{In: "eth0", Proto: 4, Src: peer}, dataplane.Drop}, // admitted with vxlan alone
	} {
		if got := Decide(rules, c.p); got != c.want {
			t.Errorf("%+v: %s, want %s", c.p, got, c.want)
		}
	}
}

// TestGuardsWithoutTools: a host that cannot hold the guards says so. That is a problem only for an operator who
// wants rules.
func TestGuardsWithoutTools(t *testing.T) {
	for _, o := range []Options{{}, {Forward: true}} {
		o.Guards = vxlanAndIPIP()
		got := Render(o, dual(false), own(), driver.FirewallFacts{})
		if len(got.Chains.Chains) != 0 || len(got.Notes) != 3 || (len(got.Problems) > 0) != o.Any() {
			t.Errorf("%+v: chains\n%snotes %q, problems %q", o, got.Chains.Dump(), got.Notes, got.Problems)
		}
		const want = "no packet filter keeps IPv4 packets of udp 8472 from other hosts than peers: "
		if len(got.Notes) > 0 && !strings.HasPrefix(got.Notes[0], want) {
			t.Errorf("note %q", got.Notes[0])
		}
	}
}

func TestGuardsInForce(t *testing.T) {
	network, guards := netip.MustParsePrefix("10.5.0.0/16"), vxlanAndIPIP()[cidr.V4]
	const head = "chain nftables ipv4 input jump "
	for chain, want := range map[string]bool{
		"": false,
		head + "placed { of 10.5.0.0/16 udp 8472 drop; of 10.5.0.0/16 ipip drop }\n": true,
		head + "placed { of 10.5.0.0/16 udp 8472 from 10.9.9.9/32 return; of 10.5.0.0/16 udp 8472 drop; " +
			"of 10.5.0.0/16 ipip drop }\n": true,
		head + "placed { of 10.5.0.0/16 udp 8472 drop }\n":                                         false,
		head + "placed { of 10.5.0.0/16 udp 8473 drop; of 10.5.0.0/16 ipip drop }\n":               false,
		head + "placed { of 10.6.0.0/16 udp 8472 drop; of 10.6.0.0/16 ipip drop }\n":               false,
		head + "moved { of 10.5.0.0/16 udp 8472 drop; of 10.5.0.0/16 ipip drop }\n":                false,
		head + "placed { of 10.5.0.0/16 udp 8472 drop; of 10.5.0.0/16 ipip drop } other \"odd\"\n": false,
	} {
		have, err := dataplane.ParseDump(chain)
		if err != nil {
			t.Fatal(err)
		}
		if got := InForce(have, cidr.V4, network, guards); got != want {
			t.Errorf("%q: in force %t, want %t", chain, got, want)
		}
	}
}

// TestGuardsOfOtherDaemons: a daemon keeps the guards of networks that are not its own, and removes its own former
// ones.
func TestGuardsOfOtherDaemons(t *testing.T) {
	const theirs = "of 10.6.0.0/16 in lo return; of 10.6.0.0/16 udp 8473 drop"
	networks := []netip.Prefix{netip.MustParsePrefix("10.5.0.0/16")}
	for _, c := range []struct{ have, want string }{
		{theirs, theirs},
		{theirs + "; of 10.5.0.0/16 udp 8472 drop", theirs},
		{"of 10.5.0.0/16 udp 8472 drop", ""},
	} {
		have, err := dataplane.ParseDump("chain iptables ipv4 input jump placed { " + c.have + " }\n")
		if err != nil {
			t.Fatal(err)
		}
		wanted := Render(Options{}, dual(false), own(), everything())
		wanted.Keep(have, networks)
		want := ""
		if c.want != "" {
			want = "chain iptables ipv4 input jump placed { " + c.want + " }\n"
		}
		if d := cmp.Diff(want, wanted.Chains.Dump()); d != "" {
			t.Errorf("%s (-want +got):\n%s", c.have, d)
		}
	}
}
