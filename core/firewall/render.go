package firewall

import (
	"fmt"
	"net/netip"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/config"
	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/driver"
	"github.com/flanneld/flannel/core/lease"
)

// Options say which chains are wanted.
type Options struct {
	Masquerade bool // --ip-masq
	NoRandom   bool // --ip-masq-fully-random-disable
	Forward    bool // --iptables-forward-rules
}

// Any reports whether there is anything to want.
func (o Options) Any() bool { return o.Masquerade || o.Forward }

// Wanted is what a node wants of the packet filter.
type Wanted struct {
	Chains dataplane.State
	// Notes tell what an operator may wonder about.
	Notes []string
	// Problems are reasons why the chains wanted cannot be had, or will not do.
	Problems []error
}

// Render returns the chains for the families that are configured and that the
// node has a subnet of.
func Render(o Options, net config.Network, own lease.Key, facts driver.FirewallFacts) Wanted {
	w := Wanted{Chains: dataplane.NewState(0)}
	if !o.Any() {
		return w
	}
	for _, f := range cidr.Families {
		network, subnet := net.Of(f).Network, own.Of(f)
		if !network.IsValid() || !subnet.IsValid() {
			continue
		}
		flavour, note, err := choose(f, net.EnableNFTables, facts.Tools[f])
		if err != nil {
			w.Problems = append(w.Problems, err)
			continue
		}
		if note != "" {
			w.Notes = append(w.Notes, note)
		}
		w.add(o, flavour, f, network, subnet, facts)
	}
	return w
}

// add puts the chains of one family in.
func (w *Wanted) add(o Options, flavour dataplane.Flavour, f cidr.Family, network, own netip.Prefix, facts driver.FirewallFacts) {
	tools := facts.Tools[f]
	put := func(hook dataplane.Hook, rules []dataplane.Rule) {
		key := dataplane.ChainKey{Flavour: flavour, Family: f, Hook: hook}
		w.Chains.AddChain(dataplane.Chain{ChainKey: key, Jump: dataplane.Placed, Rules: dataplane.MakeRules(rules...)})
	}
	if o.Forward {
		put(dataplane.Forward, forward(network))
		w.Problems = append(w.Problems, barred(flavour, f, network, facts.Bars)...)
	}
	if o.Masquerade {
		verdict := dataplane.Masquerade
		if tools.Of(flavour).RandomFully && !o.NoRandom {
			verdict = dataplane.MasqueradeRandom
		}
		put(dataplane.Postrouting, masquerade(f, network, own, verdict))
	}
	if flavour == dataplane.IPTables && !tools.BridgeFilter {
		w.Notes = append(w.Notes, bridgeNote(f))
	}
}

// choose picks the flavour of a family's chains: nftables if the config says
// so, else iptables, or nftables where there is no iptables.
func choose(f cidr.Family, nftables bool, tools driver.Tools) (flavour dataplane.Flavour, note string, err error) {
	switch {
	case nftables && tools.NFTables.Usable:
		return dataplane.NFTables, "", nil
	case nftables:
		return "", "", fmt.Errorf("%s: EnableNFTables is set in the network config, but nft cannot be used: %s; install nftables", f, tools.NFTables.About)
	case tools.IPTables.Usable:
		return dataplane.IPTables, "", nil
	case tools.NFTables.Usable:
		return dataplane.NFTables, fmt.Sprintf("%s rules are made with nftables, since iptables cannot be used: %s", f, tools.IPTables.About), nil
	}
	return "", "", fmt.Errorf("%s: neither iptables nor nft can be used: %s; %s; install one of them, or turn off --ip-masq and --iptables-forward-rules",
		f, tools.IPTables.About, tools.NFTables.About)
}

// barred names what drops forwarded packets before our chain can accept them,
// or although it does.
func barred(flavour dataplane.Flavour, f cidr.Family, network netip.Prefix, bars []driver.Bar) (problems []error) {
	for _, b := range bars {
		if b.Family != f || b.Yields == flavour || acceptsBothWays(b.Accepts, network) {
			continue
		}
		remedy := ""
		if b.Yields == dataplane.IPTables {
			remedy = ", or unset EnableNFTables, since a chain of iptables can"
		}
		problems = append(problems, fmt.Errorf("%s packets to be forwarded are dropped by %s, which no chain of %s can overrule; accept there what comes from or goes to %s%s",
			f, b.By, flavour, network, remedy))
	}
	return problems
}

// acceptsBothWays reports whether rules let pass what comes from a network and
// what goes to it.
func acceptsBothWays(rules dataplane.Rules, network netip.Prefix) bool {
	list, err := rules.List()
	if err != nil {
		return false
	}
	covers := func(m dataplane.Match) bool {
		return !m.Prefix.IsValid() || !m.Not && m.Prefix.Bits() <= network.Bits() && m.Prefix.Contains(network.Addr())
	}
	var from, to bool
	for _, r := range list {
		if r.Verdict == dataplane.Accept && r.Mark == (dataplane.Mark{}) {
			from = from || covers(r.From) && !r.To.Prefix.IsValid()
			to = to || covers(r.To) && !r.From.Prefix.IsValid()
		}
	}
	return from && to
}

// bridgeNote says what to do where iptables does not see bridged packets. It
// matters to kube-proxy's services, and not to the chains themselves: packets
// that are routed come by in any case.
func bridgeNote(f cidr.Family) string {
	program := [...]string{"iptables", "ip6tables"}[f]
	return fmt.Sprintf("%s packets between two pods of this host do not pass through %s, so services of kube-proxy may not work between them; run: modprobe br_netfilter", f, program)
}

// Blackhole returns the routes that swallow packets to addresses of the own
// subnet that no pod has. Unlike upstream's they never win over a bridge's
// route to the whole of it: theirs is the worst metric.
func Blackhole(own lease.Key) []dataplane.Route {
	var routes []dataplane.Route
	for _, f := range cidr.Families {
		if dst := own.Of(f); dst.IsValid() {
			routes = append(routes, dataplane.Route{
				RouteKey: dataplane.RouteKey{Dst: dst, Metric: worstMetric},
				Kind:     dataplane.Blackhole, Protocol: dataplane.Protocol,
			})
		}
	}
	return routes
}

// worstMetric is that of a route which all others go before.
const worstMetric = 1<<32 - 1
