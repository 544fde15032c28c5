package firewall

import (
	"net/netip"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/dataplane"
)

// proxyMark is the bit with which kube-proxy marks the packets that it will
// masquerade itself. Other programs use the other bits of a mark.
const proxyMark = 0x4000

// ofProxy leaves the packets alone that kube-proxy masquerades itself. It is about no network.
var ofProxy = dataplane.Rule{Mark: dataplane.Mark{Value: proxyMark, Mask: proxyMark}, Verdict: dataplane.Return}

// multicast holds the destinations whose answers could not find their way back
// through masquerading.
var multicast = [2]netip.Prefix{netip.MustParsePrefix("224.0.0.0/4"), netip.MustParsePrefix("ff00::/8")}

// masquerade returns the rules of the chain at the hook postrouting (rules 1 to
// 6 of interop 7.1), for connections that leave this host.
func masquerade(f cidr.Family, network, own netip.Prefix, verdict dataplane.Verdict) []dataplane.Rule {
	return []dataplane.Rule{
		ofProxy,
		// Between pods, and between pods and hosts, the source stays.
		{From: within(own), To: within(network), Verdict: dataplane.Return},
		{From: within(network), To: within(own), Verdict: dataplane.Return},
		// An outside client of a pod on this host keeps its source too: the answer
		// leaves through this host. The answer of a pod elsewhere would not.
		{From: outside(network), To: within(own), Verdict: dataplane.Return},
		// From a pod to the world: no host out there has a route to the overlay.
		{From: within(network), To: outside(multicast[f]), Verdict: verdict},
		// From the world, or this host, to a pod elsewhere: the answer must return
		// through this host.
		{From: outside(network), To: within(network), Verdict: verdict},
	}
}

// forward returns the rules of the chain at the hook forward: they accept
// packets from the overlay and to it, except those from it to a network that is apart.
// That network's own rules drop the packets in the other direction.
func forward(f cidr.Family, network netip.Prefix, apart []netip.Prefix) []dataplane.Rule {
	var rules []dataplane.Rule
	for _, other := range apart {
		if cidr.FamilyOf(other.Addr()) == f {
			rules = append(rules, dataplane.Rule{From: within(network), To: within(other), Verdict: dataplane.Drop})
		}
	}
	return append(rules,
		dataplane.Rule{From: within(network), Verdict: dataplane.Accept},
		dataplane.Rule{To: within(network), Verdict: dataplane.Accept})
}

func within(p netip.Prefix) dataplane.Match { return dataplane.Match{Prefix: p} }

func outside(p netip.Prefix) dataplane.Match { return dataplane.Match{Not: true, Prefix: p} }

// Decide returns the verdict of the first rule that matches, or Return if none
// does: the packet goes on to the next chain.
func Decide(rules []dataplane.Rule, p dataplane.Packet) dataplane.Verdict {
	for _, r := range rules {
		if r.Matches(p) {
			return r.Verdict
		}
	}
	return dataplane.Return
}
