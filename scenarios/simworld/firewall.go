package simworld

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/config"
	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/driver"
	"github.com/flanneld/flannel/drivers/sim/kernel"
	"github.com/flanneld/flannel/scenarios/lang"
)

// addOutside creates the outside host. It knows only the router.
func (w *World) addOutside() error {
	w.outside = w.network.NewHost(lang.OutsideName)
	if err := w.plug(w.outside, "eth0", 0, lang.OutsideHost); err != nil {
		return err
	}
	for _, f := range cidr.Families {
		if f == cidr.V4 || w.top.HasIPv6() {
			if err := w.outside.DefaultRoute(lang.UnderlayAddr(f, 0, lang.RouterHost).Addr()); err != nil {
				return err
			}
		}
	}
	return nil
}

// Outward implements [lang.OutsideRouter].
func (w *World) Outward(name string) error {
	var errs []error
	for _, op := range w.outward {
		errs = append(errs, w.router.Driver().Apply(context.Background(),
			[]dataplane.Op{{Verb: dataplane.Delete, Object: op.Object}})...)
	}
	w.outward = nil
	n, ok := w.nodes[name]
	if !ok {
		return errors.Join(errs...)
	}
	network, err := config.Parse([]byte(w.top.Config))
	if err != nil {
		return err
	}
	for _, f := range w.top.Families {
		w.outward = append(w.outward, dataplane.Op{Verb: dataplane.Replace, Object: dataplane.Route{
			RouteKey: dataplane.RouteKey{Dst: network.Of(f).Network},
			Link:     fmt.Sprintf("eth%d", w.top.Segment(n.index)), Via: n.uplinkAddr(f).Addr(),
			Protocol: dataplane.ProtocolBoot,
		}})
	}
	return errors.Join(append(errs, w.router.Driver().Apply(context.Background(), w.outward)...)...)
}

// simPlace is a host or pod that can send and receive.
type simPlace struct {
	ping  func(netip.Addr, kernel.PingOptions) *kernel.Probe
	addrs [2]netip.Addr
}

// place finds "n1.pod", "n1" and "outside".
func (w *World) place(name string) (simPlace, error) {
	p := simPlace{}
	switch n, isNode := w.nodes[name]; {
	case name == lang.OutsideName && w.outside != nil:
		p.ping = w.outside.Ping
		for _, f := range w.top.Families {
			p.addrs[f] = lang.UnderlayAddr(f, 0, lang.OutsideHost).Addr()
		}
	case isNode:
		p.ping = n.Ping
		for _, f := range w.top.Families {
			p.addrs[f] = n.uplinkAddr(f).Addr()
		}
	default:
		pod, err := w.pod(name)
		if err != nil {
			return p, err
		}
		p.ping, p.addrs = pod.Ping, pod.Addrs
	}
	return p, nil
}

// Addr returns the place's address of a family, if it has one.
func (p simPlace) Addr(f cidr.Family) netip.Addr { return p.addrs[f] }

// Rules implements [lang.Firewall].
func (n *simNode) Rules() (driver.FirewallFacts, *dataplane.State, error) {
	seen, err := n.Host.Firewall().Look(context.Background(), dataplane.Extent{})
	if err != nil {
		return driver.FirewallFacts{}, nil, err
	}
	if len(n.world.top.Networks) > 0 {
		return seen.Facts.(driver.FirewallFacts), n.ownRules(seen.State), nil
	}
	return seen.Facts.(driver.FirewallFacts), seen.State, nil
}

// ForeignRules implements [lang.Firewall].
func (n *simNode) ForeignRules() (string, error) {
	var b strings.Builder
	for _, f := range cidr.Families {
		for _, hook := range dataplane.Hooks {
			for _, r := range n.Host.ForeignRules(f, hook) {
				fmt.Fprintf(&b, "%s %s: %s\n", f, hook, r)
			}
		}
	}
	return b.String(), nil
}

// Harm implements [lang.Firewall].
func (n *simNode) Harm(kind string, mark uint32) error {
	harm, known := firewallHarms()[kind]
	if !known {
		return fmt.Errorf("the simulator cannot do firewall %s", kind)
	}
	harm(n.Host, mark)
	return nil
}

// SetFirewallTools implements [lang.FirewallToolbox].
func (n *simNode) SetFirewallTools(tools string) error {
	t := kernel.EveryTool()
	for f := range t {
		switch tools {
		case "nftables":
			t[f].IPTables = driver.Tool{}
		case "none":
			t[f].IPTables, t[f].NFTables = driver.Tool{}, driver.Tool{}
		case "old":
			t[f].IPTables.RandomFully, t[f].NFTables.RandomFully = false, false
		case "all":
			continue
		default:
			return fmt.Errorf("tools=%s: want nftables, none, old or all", tools)
		}
	}
	n.SetTools(t)
	return nil
}

// foreignRule is a rule without effect: it counts packets to an unused address.
var foreignRule = dataplane.Rule{To: dataplane.Match{Prefix: netip.MustParsePrefix("203.0.113.77/32")},
	Verdict: dataplane.Return}

// firewallHarms are the kinds of harm to a simulated host's packet filter.
func firewallHarms() map[string]func(h *kernel.Host, mark uint32) {
	policy := func(v dataplane.Verdict) func(*kernel.Host, uint32) {
		return func(h *kernel.Host, _ uint32) { h.ForwardPolicy(v) }
	}
	legacy := func(v dataplane.Verdict) func(*kernel.Host, uint32) {
		return func(h *kernel.Host, _ uint32) { h.LegacyPolicy(v) }
	}
	return map[string]func(*kernel.Host, uint32){
		"flush-ruleset":   func(h *kernel.Host, _ uint32) { h.FlushRuleset() },
		"flush-iptables":  func(h *kernel.Host, _ uint32) { h.FlushIPTables() },
		"jump-moved":      func(h *kernel.Host, _ uint32) { h.MoveJump() },
		"stray-rule":      func(h *kernel.Host, _ uint32) { h.AddStrayRule(dataplane.Rule{Verdict: dataplane.Drop}) },
		"policy-drop":     policy(dataplane.Drop),
		"policy-accept":   policy(dataplane.Accept),
		"legacy-drop":     legacy(dataplane.Drop),
		"legacy-accept":   legacy(dataplane.Accept),
		"foreign-rule":    func(h *kernel.Host, _ uint32) { addForeignRule(h) },
		"firewalld":       func(h *kernel.Host, _ uint32) { h.RestartFirewalld() },
		"firewalld-zones": func(h *kernel.Host, _ uint32) { h.AddZones("firewalld", lang.TrustedLinks()...) },
		"no-zones":        func(h *kernel.Host, _ uint32) { h.RemoveForeignTable("firewalld") },
		"mark":            func(h *kernel.Host, mark uint32) { h.MarkPackets(mark) },
		"no-mark":         func(h *kernel.Host, _ uint32) { h.MarkPackets(0) },
	}
}

func addForeignRule(h *kernel.Host) {
	for _, hook := range dataplane.Hooks {
		h.ForeignRule(cidr.V4, hook, foreignRule)
	}
}
