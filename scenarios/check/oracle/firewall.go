package oracle

import (
	"net/netip"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/dataplane"
)

// kubeMark is the bit of the mark with which Kubernetes masquerades packets itself.
const kubeMark = 0x4000

// firewall derives the chains of a family (interop 7.1: the table of rules).
func (d *derivation) firewall(f cidr.Family) {
	network, own := d.net.of[f], d.own.Key.Of(f)
	if !own.IsValid() {
		return
	}
	flavour := dataplane.IPTables
	if d.net.nftables || !d.host.Tools[f].IPTables.Usable {
		flavour = dataplane.NFTables
	}
	chain := func(hook dataplane.Hook, rules ...dataplane.Rule) {
		key := dataplane.ChainKey{Flavour: flavour, Family: f, Hook: hook}
		d.want.AddChain(dataplane.Chain{ChainKey: key, Jump: dataplane.Placed, Rules: dataplane.MakeRules(rules...)})
	}
	if d.host.Forward {
		chain(dataplane.Forward,
			dataplane.Rule{From: in(network), Verdict: dataplane.Accept},
			dataplane.Rule{To: in(network), Verdict: dataplane.Accept})
	}
	if d.host.Masquerade {
		verdict := dataplane.Masquerade
		if d.host.Tools[f].Of(flavour).RandomFully {
			verdict = dataplane.MasqueradeRandom
		}
		chain(dataplane.Postrouting, masquerade(f, network, own, verdict)...)
	}
}

// masquerade returns the masquerade rules (interop 7.1: rules 1 to 6 of the table).
func masquerade(f cidr.Family, network, own netip.Prefix, verdict dataplane.Verdict) []dataplane.Rule {
	multicast := netip.MustParsePrefix([2]string{cidr.V4: "224.0.0.0/4", cidr.V6: "ff00::/8"}[f])
	return []dataplane.Rule{
		{Mark: dataplane.Mark{Value: kubeMark, Mask: kubeMark}, Verdict: dataplane.Return},
		{From: in(own), To: in(network), Verdict: dataplane.Return},
		{From: in(network), To: in(own), Verdict: dataplane.Return},
		{From: notIn(network), To: in(own), Verdict: dataplane.Return},
		{From: in(network), To: notIn(multicast), Verdict: verdict},
		{From: notIn(network), To: in(network), Verdict: verdict},
	}
}

func in(p netip.Prefix) dataplane.Match    { return dataplane.Match{Prefix: p} }
func notIn(p netip.Prefix) dataplane.Match { return dataplane.Match{Prefix: p, Not: true} }
