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
	// Guards are those of the moment, by the family of the outer header. No flag turns them off.
	Guards [2][]Guard
}

// Any reports whether the operator wants any chain.
func (o Options) Any() bool { return o.Masquerade || o.Forward }

// Wanted holds the chains that a node wants in the packet filter.
type Wanted struct {
	Chains *dataplane.State
	// Notes may matter to an operator. They keep no node from being ready.
	Notes []string
	// Problems say why the wanted chains cannot be made, or do not help.
	Problems []error
	// Blocked are the Problems that stop all packets between pods.
	Blocked []error
}

// Render returns the chains of each family that is configured and in which the
// node has a subnet. The chain of forwarded packets keeps them from the addresses apart,
// which are those of other networks of the host.
func Render(
	o Options, net config.Network, own lease.Key, facts driver.FirewallFacts, apart ...netip.Prefix,
) Wanted {
	w := Wanted{Chains: dataplane.NewState()}
	for _, f := range cidr.Families {
		network, subnet := net.Of(f).Network, own.Of(f)
		if !network.IsValid() || !subnet.IsValid() || !o.Any() && len(o.Guards[f]) == 0 {
			continue
		}
		flavour, note, err := choose(f, net.EnableNFTables, facts.Tools[f])
		if err != nil && o.Any() {
			w.Problems = append(w.Problems, err)
		}
		if err != nil {
			w.Notes = append(w.Notes, unguarded(f, o.Guards[f], err)...)
			continue
		}
		if note != "" {
			w.Notes = append(w.Notes, note)
		}
		w.add(o, flavour, f, network, subnet, facts, apart)
	}
	return w
}

// add adds the chains of one family.
func (w *Wanted) add(
	o Options, flavour dataplane.Flavour, f cidr.Family, network, own netip.Prefix, facts driver.FirewallFacts,
	apart []netip.Prefix,
) {
	tools := facts.Tools[f]
	put := func(hook dataplane.Hook, rules []dataplane.Rule) {
		key := dataplane.ChainKey{Flavour: flavour, Family: f, Hook: hook}
		w.Chains.AddChain(dataplane.Chain{ChainKey: key, Jump: dataplane.Placed, Rules: dataplane.MakeRules(rules...)})
	}
	if o.Forward {
		put(dataplane.Forward, forward(f, network, apart))
		problems, notes := blocked(flavour, f, network, facts.Blocks)
		w.Problems, w.Notes = append(w.Problems, problems...), append(w.Notes, notes...)
		w.Blocked = append(w.Blocked, problems...)
	}
	if o.Masquerade {
		verdict := dataplane.Masquerade
		if tools.Of(flavour).RandomFully && !o.NoRandom {
			verdict = dataplane.MasqueradeRandom
		}
		put(dataplane.Postrouting, masquerade(f, network, own, verdict))
	}
	if len(o.Guards[f]) > 0 {
		put(dataplane.Input, guarding(network, o.Guards[f]))
	}
	if o.Any() && flavour == dataplane.IPTables && !tools.BridgeFilter {
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
		return "", "", fmt.Errorf("%s: EnableNFTables is set in the network config, but nft cannot be used: %s; "+
			"install nftables", f, tools.NFTables.About)
	case tools.IPTables.Usable:
		return dataplane.IPTables, "", nil
	case tools.NFTables.Usable:
		note = fmt.Sprintf("%s rules are made with nftables, since iptables cannot be used: %s", f, tools.IPTables.About)
		return dataplane.NFTables, note, nil
	}
	return "", "", fmt.Errorf("%s: neither iptables nor nft can be used: %s; %s; "+
		"install one of them, or turn off --ip-masq and --iptables-forward-rules",
		f, tools.IPTables.About, tools.NFTables.About)
}

// blocked returns a problem for each block that drops flannel's packets for
// certain, and a note for each that may do so.
func blocked(flavour dataplane.Flavour, f cidr.Family, network netip.Prefix, blocks []driver.ForwardBlock) (
	problems []error, notes []string,
) {
	for _, b := range blocks {
		switch {
		case b.Family != f || b.OverriddenBy == flavour:
			continue
		case b.Doubtful:
			notes = append(notes, fmt.Sprintf("%s packets to be forwarded are dropped by %s unless a rule before it "+
				"accepts them; if pods cannot reach each other, accept packets from and to %s there", f, b.By, network))
			continue
		}
		remedy := ""
		if b.OverriddenBy == dataplane.IPTables {
			remedy = ", or unset EnableNFTables, since a chain of iptables can"
		}
		problems = append(problems, fmt.Errorf("%s packets to be forwarded are dropped by %s, which no chain of %s can "+
			"overrule; accept packets from and to %s there%s", f, b.By, flavour, network, remedy))
	}
	return problems, notes
}

// bridgeNote says what to do if iptables does not see bridged packets. That
// affects kube-proxy's services, and not flannel's chains, which see every
// routed packet.
func bridgeNote(f cidr.Family) string {
	program := [...]string{"iptables", "ip6tables"}[f]
	return fmt.Sprintf("%s packets between two pods of this host do not pass through %s, "+
		"so services of kube-proxy may not work between them; run: modprobe br_netfilter", f, program)
}

// Blackhole returns routes that drop packets to addresses of the node's subnet
// that no pod has. They have the worst metric, so unlike upstream's they never
// take precedence over a bridge's route to the whole subnet.
func Blackhole(own lease.Key) []dataplane.Route {
	var routes []dataplane.Route
	for _, f := range cidr.Families {
		if dst := own.Of(f); dst.IsValid() {
			routes = append(routes, LastResort(dst))
		}
	}
	return routes
}

// LastResort returns the route that drops packets to a destination to which no other route leads.
func LastResort(dst netip.Prefix) dataplane.Route {
	return dataplane.Route{
		RouteKey: dataplane.RouteKey{Dst: dst, Metric: worstMetric},
		Kind:     dataplane.Blackhole, Protocol: dataplane.Protocol,
	}
}

// worstMetric makes a route the last choice.
const worstMetric = 1<<32 - 1
