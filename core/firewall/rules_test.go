package firewall

import (
	"net/netip"
	"testing"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/config"
	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/driver"
	"github.com/flanneld/flannel/core/lease"
)

// everything has the tools of both flavours.
func everything() driver.FirewallFacts {
	usable := driver.Tool{Usable: true, RandomFully: true}
	tools := driver.Tools{IPTables: usable, NFTables: usable, BridgeFilter: true}
	return driver.FirewallFacts{Tools: [2]driver.Tools{tools, tools}}
}

func dual(nft bool) config.Network {
	return config.Network{
		V4:             config.Range{Network: netip.MustParsePrefix("10.5.0.0/16")},
		V6:             config.Range{Network: netip.MustParsePrefix("fd00:10::/48")},
		EnableNFTables: nft,
	}
}

func own() lease.Key {
	return lease.Key{V4: netip.MustParsePrefix("10.5.1.0/24"), V6: netip.MustParsePrefix("fd00:10:0:1::/64")}
}

// places are addresses of both families by who has them.
var places = map[string][2]netip.Addr{
	"pod":        {netip.MustParseAddr("10.5.1.7"), netip.MustParseAddr("fd00:10:0:1::7")},
	"neighbour":  {netip.MustParseAddr("10.5.1.8"), netip.MustParseAddr("fd00:10:0:1::8")},
	"remote pod": {netip.MustParseAddr("10.5.2.7"), netip.MustParseAddr("fd00:10:0:2::7")},
	"far pod":    {netip.MustParseAddr("10.5.3.7"), netip.MustParseAddr("fd00:10:0:3::7")},
	"host":       {netip.MustParseAddr("192.168.64.1"), netip.MustParseAddr("fd00:64::1")},
	"outside":    {netip.MustParseAddr("203.0.113.9"), netip.MustParseAddr("2001:db8::9")},
	"elsewhere":  {netip.MustParseAddr("198.51.100.4"), netip.MustParseAddr("2001:db8:1::4")},
	"group":      {netip.MustParseAddr("224.0.0.251"), netip.MustParseAddr("ff02::fb")},
}

// judged is a kind of packet with the verdicts of the chains.
type judged struct {
	src, dst             string
	mark                 uint32
	postrouting, forward dataplane.Verdict
}

// packet returns one of a family.
func (j judged) packet(f cidr.Family) dataplane.Packet {
	return dataplane.Packet{Src: places[j.src][f], Dst: places[j.dst][f], Mark: j.mark}
}

// packets holds all kinds of packets with the verdicts of interop 7.1. Masquerade
// stands for either form.
var packets = []judged{
	{src: "pod", dst: "remote pod", postrouting: dataplane.Return, forward: dataplane.Accept},
	{src: "remote pod", dst: "pod", postrouting: dataplane.Return, forward: dataplane.Accept},
	{src: "pod", dst: "neighbour", postrouting: dataplane.Return, forward: dataplane.Accept},
	{src: "pod", dst: "outside", postrouting: dataplane.Masquerade, forward: dataplane.Accept},
	{src: "pod", dst: "host", postrouting: dataplane.Masquerade, forward: dataplane.Accept},
	{src: "remote pod", dst: "outside", postrouting: dataplane.Masquerade, forward: dataplane.Accept},
	// interop F1: rule 4 must not return
	{src: "host", dst: "remote pod", postrouting: dataplane.Masquerade, forward: dataplane.Accept},
	{src: "host", dst: "pod", postrouting: dataplane.Return, forward: dataplane.Accept},
	{src: "outside", dst: "pod", postrouting: dataplane.Return, forward: dataplane.Accept}, // on the owner
	// on another node; interop F1: rule 4 must not return
	{src: "outside", dst: "remote pod", postrouting: dataplane.Masquerade, forward: dataplane.Accept},
	{src: "outside", dst: "elsewhere", postrouting: dataplane.Return, forward: dataplane.Return},
	{src: "host", dst: "outside", postrouting: dataplane.Return, forward: dataplane.Return},
	{src: "pod", dst: "group", postrouting: dataplane.Return, forward: dataplane.Accept},
	{src: "host", dst: "group", postrouting: dataplane.Return, forward: dataplane.Return},
	// kube-proxy's mark, alone and among other bits (interop F1: under a mask).
	{src: "pod", dst: "outside", mark: 0x4000, postrouting: dataplane.Return, forward: dataplane.Accept},
	{src: "pod", dst: "outside", mark: 0xc0ff, postrouting: dataplane.Return, forward: dataplane.Accept},
	{src: "outside", dst: "remote pod", mark: 0x4001, postrouting: dataplane.Return, forward: dataplane.Accept},
	{src: "pod", dst: "outside", mark: 0x8000, postrouting: dataplane.Masquerade, forward: dataplane.Accept},
	// routed astray through here
	{src: "remote pod", dst: "far pod", postrouting: dataplane.Masquerade, forward: dataplane.Accept},
}

func TestVerdicts(t *testing.T) {
	for _, nft := range []bool{false, true} {
		wanted := Render(Options{Masquerade: true, Forward: true}, dual(nft), own(), everything())
		flavour := dataplane.IPTables
		if nft {
			flavour = dataplane.NFTables
		}
		for _, f := range cidr.Families {
			for _, p := range packets {
				packet := p.packet(f)
				for hook, want := range map[dataplane.Hook]dataplane.Verdict{dataplane.Postrouting: p.postrouting,
					dataplane.Forward: p.forward} {
					chain, ok := wanted.Chains.Chains[dataplane.ChainKey{Flavour: flavour, Family: f, Hook: hook}]
					if !ok {
						t.Fatalf("no chain %s %s %s in\n%s", flavour, f, hook, wanted.Chains.Dump())
					}
					rules, err := chain.Rules.List()
					if err != nil {
						t.Fatal(err)
					}
					if want == dataplane.Masquerade {
						want = dataplane.MasqueradeRandom
					}
					if got := Decide(rules, packet); got != want {
						t.Errorf("%s %s: %s to %s with mark %#x: %s at %s, want %s", flavour, f, p.src, p.dst, p.mark, got, hook, want)
					}
				}
			}
		}
	}
}

// upstreamNFT are the rules of upstream's nftables mode (interop 7.2). The
// table above has to tell them from ours.
const upstreamNFT = "mark 0x4000/0xffffffff return; " +
	"from 10.5.1.0/24 to 10.5.0.0/16 return; from 10.5.0.0/16 to 10.5.1.0/24 return; " +
	"from !10.5.1.0/24 to 10.5.0.0/16 return; from 10.5.0.0/16 to !224.0.0.0/4 masquerade; " +
	"from !10.5.0.0/16 to 10.5.0.0/16 masquerade"

func TestVerdictsShowUpstreamsDefects(t *testing.T) {
	rules, err := dataplane.Rules(upstreamNFT).List()
	if err != nil {
		t.Fatal(err)
	}
	var wrong []string
	for _, p := range packets {
		if got := Decide(rules, p.packet(cidr.V4)); got != p.postrouting {
			wrong = append(wrong, p.src+" to "+p.dst)
		}
	}
	if len(wrong) < 4 {
		t.Errorf("only these packets tell upstream's rules from ours: %v", wrong)
	}
}
