package firewall

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/config"
	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/driver"
	"github.com/flanneld/flannel/core/lease"
)

const (
	masq4 = "chain FLAVOUR ipv4 postrouting jump placed { mark 0x4000/0x4000 return; " +
		"from 10.5.1.0/24 to 10.5.0.0/16 return; from 10.5.0.0/16 to 10.5.1.0/24 return; " +
		"from !10.5.0.0/16 to 10.5.1.0/24 return; from 10.5.0.0/16 to !224.0.0.0/4 MASQ; " +
		"from !10.5.0.0/16 to 10.5.0.0/16 MASQ }\n"
	masq6 = "chain FLAVOUR ipv6 postrouting jump placed { mark 0x4000/0x4000 return; " +
		"from fd00:10:0:1::/64 to fd00:10::/48 return; from fd00:10::/48 to fd00:10:0:1::/64 return; " +
		"from !fd00:10::/48 to fd00:10:0:1::/64 return; from fd00:10::/48 to !ff00::/8 MASQ; " +
		"from !fd00:10::/48 to fd00:10::/48 MASQ }\n"
	forward4 = "chain FLAVOUR ipv4 forward jump placed { from 10.5.0.0/16 accept; to 10.5.0.0/16 accept }\n"
	forward6 = "chain FLAVOUR ipv6 forward jump placed { from fd00:10::/48 accept; to fd00:10::/48 accept }\n"
)

// spelt fills in a flavour and a verdict and sorts the lines.
func spelt(t *testing.T, text, flavour, verdict string) string {
	t.Helper()
	s, err := dataplane.ParseDump(strings.NewReplacer("FLAVOUR", flavour, "MASQ", verdict).Replace(text))
	if err != nil {
		t.Fatal(err)
	}
	return s.Dump()
}

func TestRender(t *testing.T) {
	both := Options{Masquerade: true, Forward: true}
	only4 := config.Network{V4: config.Range{Network: netip.MustParsePrefix("10.5.0.0/16")}}
	without := func(change func(*driver.Tools)) driver.FirewallFacts {
		facts := everything()
		for _, f := range cidr.Families {
			change(&facts.Tools[f])
		}
		return facts
	}
	noIPTables := func(t *driver.Tools) { t.IPTables = driver.Tool{About: "no iptables in $PATH"} }
	noNFT := func(t *driver.Tools) { t.NFTables = driver.Tool{About: "no nft in $PATH"} }
	for name, c := range map[string]struct {
		opts             Options
		net              config.Network
		own              lease.Key
		facts            driver.FirewallFacts
		chains, flavour  string
		verdict          string
		notes, complaint []string
	}{
		"nothing asked for": {Options{}, dual(false), own(), everything(), "", "iptables", "", nil, nil},
		"both families": {both, dual(false), own(), everything(), masq4 + masq6 + forward4 + forward6, "iptables",
			"masquerade-random", nil, nil},
		"with nftables": {both, dual(true), own(), everything(), masq4 + masq6 + forward4 + forward6, "nftables",
			"masquerade-random", nil, nil},
		"one family": {both, only4, own(), everything(), masq4 + forward4, "iptables", "masquerade-random", nil,
			nil},
		"no subnet of one": {both, dual(false), lease.Key{V4: own().V4}, everything(), masq4 + forward4, "iptables",
			"masquerade-random", nil, nil},
		"masquerade alone": {Options{Masquerade: true}, dual(false), own(), everything(), masq4 + masq6, "iptables",
			"masquerade-random", nil, nil},
		"forward alone": {Options{Forward: true}, dual(false), own(), everything(), forward4 + forward6, "iptables",
			"", nil, nil},
		"random ports refused": {Options{Masquerade: true, NoRandom: true}, dual(false), own(), everything(), masq4 + masq6,
			"iptables", "masquerade", nil, nil},
		"random ports unknown": {Options{Masquerade: true}, dual(false), own(),
			without(func(t *driver.Tools) { t.IPTables.RandomFully = false }),
			masq4 + masq6, "iptables", "masquerade", nil, nil},
		"no iptables": {both, only4, own(), without(noIPTables), masq4 + forward4, "nftables", "masquerade-random",
			[]string{"IPv4 rules are made with nftables, since iptables cannot be used: no iptables in $PATH"}, nil},
		"no nft, and the config does not want it": {both, only4, own(), without(noNFT), masq4 + forward4, "iptables",
			"masquerade-random", nil, nil},
		"no nft, and the config wants it": {both, config.Network{V4: only4.V4, EnableNFTables: true}, own(), without(noNFT),
			"", "nftables", "", nil,
			[]string{"IPv4: EnableNFTables is set in the network config, but nft cannot be used: no nft in $PATH; install " +
				"nftables"}},
		"neither": {both, only4, own(), without(func(t *driver.Tools) { noIPTables(t); noNFT(t) }), "", "iptables", "", nil,
			[]string{"IPv4: neither iptables nor nft can be used: no iptables in $PATH; no nft in $PATH; install one of " +
				"them, or turn off --ip-masq and --iptables-forward-rules"}},
		"no bridge filter": {both, only4, own(), without(func(t *driver.Tools) { t.BridgeFilter = false }), masq4 + forward4,
			"iptables", "masquerade-random",
			[]string{"IPv4 packets between two pods of this host do not pass through iptables, so services of kube-proxy may " +
				"not work between them; run: modprobe br_netfilter"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			got := Render(c.opts, c.net, c.own, c.facts)
			if d := cmp.Diff(spelt(t, c.chains, c.flavour, c.verdict), got.Chains.Dump()); d != "" {
				t.Errorf("chains (-want +got):\n%s", d)
			}
			if d := cmp.Diff(c.notes, got.Notes); d != "" {
				t.Errorf("notes (-want +got):\n%s", d)
			}
			if d := cmp.Diff(c.complaint, texts(got.Problems)); d != "" {
				t.Errorf("problems (-want +got):\n%s", d)
			}
		})
	}
}

func TestRenderWithoutIP6Tables(t *testing.T) {
	mixed := everything()
	mixed.Tools[cidr.V6].IPTables = driver.Tool{About: "no ip6tables in $PATH"}
	got := Render(Options{Masquerade: true}, dual(false), own(), mixed)
	want := spelt(t, masq4, "iptables", "masquerade-random") + spelt(t, masq6, "nftables", "masquerade-random")
	if d := cmp.Diff(want, got.Chains.Dump()); d != "" {
		t.Errorf("chains (-want +got):\n%s", d)
	}
}

func TestForwardBlocks(t *testing.T) {
	policy := driver.ForwardBlock{
		Family: cidr.V4, By: "policy DROP of chain FORWARD in table ip filter", OverriddenBy: dataplane.IPTables,
	}
	strict := driver.ForwardBlock{Family: cidr.V6, By: "chain inet strict forward"}
	doubtful := func(b driver.ForwardBlock) driver.ForwardBlock {
		b.Doubtful = true
		return b
	}
	const policyDrops = "IPv4 packets to be forwarded are dropped by policy DROP of chain FORWARD in table ip filter"
	for name, c := range map[string]struct {
		opts            Options
		nft             bool
		blocks          []driver.ForwardBlock
		problems, notes []string
	}{
		"iptables overrules its own policy": {
			opts: Options{Forward: true}, blocks: []driver.ForwardBlock{policy, doubtful(policy)},
		},
		"nftables does not": {
			opts: Options{Forward: true}, nft: true, blocks: []driver.ForwardBlock{policy},
			problems: []string{policyDrops + ", which no chain of nftables can overrule; " +
				"accept packets from and to 10.5.0.0/16 there, or unset EnableNFTables, since a chain of iptables can"},
		},
		"no flavour does": {
			opts: Options{Forward: true}, blocks: []driver.ForwardBlock{strict},
			problems: []string{"IPv6 packets to be forwarded are dropped by chain inet strict forward, which no chain of " +
				"iptables can overrule; accept packets from and to fd00:10::/48 there"},
		},
		"a doubtful block is a note": {
			opts: Options{Forward: true}, nft: true, blocks: []driver.ForwardBlock{doubtful(policy)},
			notes: []string{policyDrops + " unless a rule before it accepts them; " +
				"if pods cannot reach each other, accept packets from and to 10.5.0.0/16 there"},
		},
		"without forward rules, blocks do not matter": {
			opts: Options{Masquerade: true}, nft: true, blocks: []driver.ForwardBlock{policy, strict, doubtful(strict)},
		},
	} {
		t.Run(name, func(t *testing.T) {
			facts := everything()
			facts.Blocks = c.blocks
			got := Render(c.opts, dual(c.nft), own(), facts)
			if d := cmp.Diff(c.problems, texts(got.Problems)); d != "" {
				t.Errorf("problems (-want +got):\n%s", d)
			}
			if d := cmp.Diff(c.notes, got.Notes); d != "" {
				t.Errorf("notes (-want +got):\n%s", d)
			}
		})
	}
}

func TestBlackhole(t *testing.T) {
	s := dataplane.NewState()
	for _, r := range Blackhole(own()) {
		s.AddRoute(r)
	}
	const want = "route 10.5.1.0/24 blackhole metric 4294967295\nroute fd00:10:0:1::/64 blackhole metric 4294967295\n"
	if d := cmp.Diff(want, s.Dump()); d != "" {
		t.Errorf("routes (-want +got):\n%s", d)
	}
}

func texts(errs []error) []string {
	var out []string
	for _, err := range errs {
		out = append(out, err.Error())
	}
	return out
}

// The rules of two networks keep their packets apart, each in one direction.
func TestRulesKeepTwoNetworksApart(t *testing.T) {
	others := []netip.Prefix{netip.MustParsePrefix("10.6.0.0/16"), netip.MustParsePrefix("fd00:6::/48")}
	got := Render(Options{Forward: true}, dual(false), own(), everything(), others...)
	want := spelt(t, strings.NewReplacer("{ from 10", "{ from 10.5.0.0/16 to 10.6.0.0/16 drop; from 10",
		"{ from fd", "{ from fd00:10::/48 to fd00:6::/48 drop; from fd").Replace(forward4+forward6), "iptables", "")
	if d := cmp.Diff(want, got.Chains.Dump()); d != "" {
		t.Errorf("chains (-want +got):\n%s", d)
	}
}
