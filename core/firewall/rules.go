package firewall

import (
	"net/netip"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/dataplane"
)

// ProxyMark is the bit by which kube-proxy marks the packets that it will
// masquerade itself. The other bits of a mark are anybody's.
const ProxyMark = 0x4000

// multicast is where nobody could answer a masqueraded packet to.
var multicast = [2]netip.Prefix{netip.MustParsePrefix("224.0.0.0/4"), netip.MustParsePrefix("ff00::/8")}

// masquerade is the template of the chain at the hook postrouting: rules 1 to
// 6 of interop 7.1, for connections that leave this host.
func masquerade(f cidr.Family, network, own netip.Prefix, verdict dataplane.Verdict) []dataplane.Rule {
	return []dataplane.Rule{
		// kube-proxy masquerades these, and twice would be once too often.
		{Mark: dataplane.Mark{Value: ProxyMark, Mask: ProxyMark}, Verdict: dataplane.Return},
		// Between pods, and between pods and hosts, the source stays.
		{From: within(own), To: within(network), Verdict: dataplane.Return},
		{From: within(network), To: within(own), Verdict: dataplane.Return},
		// So does that of a client outside who talks to a pod of this host:
		// the answer comes back this way. To a pod elsewhere it would not.
		{From: outside(network), To: within(own), Verdict: dataplane.Return},
		// From a pod to the world: nobody out there knows the overlay.
		{From: within(network), To: outside(multicast[f]), Verdict: verdict},
		// From the world, or this host, to a pod elsewhere: the answer has to
		// come back through this host.
		{From: outside(network), To: within(network), Verdict: verdict},
	}
}

// forward is the template of the chain at the hook forward: what comes from
// the overlay or goes there passes.
func forward(network netip.Prefix) []dataplane.Rule {
	return []dataplane.Rule{
		{From: within(network), Verdict: dataplane.Accept},
		{To: within(network), Verdict: dataplane.Accept},
	}
}

func within(p netip.Prefix) dataplane.Match { return dataplane.Match{Prefix: p} }

func outside(p netip.Prefix) dataplane.Match { return dataplane.Match{Not: true, Prefix: p} }

// Packet is what rules see of a packet.
type Packet struct {
	Src, Dst netip.Addr
	Mark     uint32
}

// Decide asks the rules in order and returns the verdict of the first that
// matches, or Return if none does: the packet goes on to the next chain.
func Decide(rules []dataplane.Rule, p Packet) dataplane.Verdict {
	for _, r := range rules {
		if r.Matches(p.Src, p.Dst, p.Mark) {
			return r.Verdict
		}
	}
	return dataplane.Return
}
