package labworld

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/config"
	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/driver"
	"github.com/flanneld/flannel/drivers/drivertest"
	"github.com/flanneld/flannel/harness"
	"github.com/flanneld/flannel/scenarios/lang"
)

// daemonArgs returns the flags that tell a daemon which rules to make, which routes
// and settings besides those of its backend, and how often to probe its peers.
func daemonArgs(top lang.Topology) []string {
	args := []string{fmt.Sprintf("--ip-masq=%t", top.Firewalled()),
		fmt.Sprintf("--iptables-forward-rules=%t", top.Firewalled())}
	if top.Blackhole {
		args = append(args, "--ip-blackhole-route")
	}
	if top.IPForward {
		args = append(args, "--ip-forward")
	}
	if !top.NoExtension {
		args = append(args, "--allow-extension")
	}
	if top.NextHops > 0 {
		args = append(args, fmt.Sprintf("--next-hop-objects=%d", top.NextHops))
	}
	if top.Probes > 0 || top.NoProbes {
		args = append(args, "--probe-interval="+top.Probes.String())
	}
	return args
}

// Outward implements [OutsideRouter].
func (w *World) Outward(name string) error {
	network, err := config.Parse([]byte(w.top.Config))
	if err != nil {
		return err
	}
	var errs []error
	for _, f := range w.top.Families {
		errs = append(errs, w.Lab.Outward(network.Of(f).Network, w.Lab.Node(name)))
	}
	return errors.Join(errs...)
}

// netnsPlace is a host or pod that can send and receive.
type netnsPlace struct {
	host *harness.Host
	addr netip.Addr
}

// place finds "n1.pod", "n1" and "outside".
func (w *World) place(name string, f cidr.Family) (netnsPlace, error) {
	if name == lang.OutsideName && w.Lab.Outside != nil {
		return netnsPlace{w.Lab.Outside.Host, w.Lab.Outside.Addr(f)}, nil
	}
	if n, ok := w.nodes[name]; ok {
		return netnsPlace{n.Host, n.node.Underlay(f).Addr()}, nil
	}
	pod, err := w.pod(name)
	if err != nil {
		return netnsPlace{}, err
	}
	return netnsPlace{pod.Host, pod.Addr(f)}, nil
}

func (w *World) places(from, to string, f cidr.Family) (a, b netnsPlace, err error) {
	a, err = w.place(from, f)
	if err != nil {
		return a, b, err
	}
	b, err = w.place(to, f)
	if err != nil {
		return a, b, err
	}
	if !a.addr.IsValid() || !b.addr.IsValid() {
		return a, b, fmt.Errorf("%s or %s has no %s address", from, to, f)
	}
	return a, b, nil
}

func (n *netnsNode) Rules() (driver.FirewallFacts, *dataplane.State, error) {
	ctx, cancel := bounded(stepBound)
	defer cancel()
	return n.Host.Rules(ctx)
}

// ForeignRules returns all rules of iptables and nftables that do not name flannel.
func (n *netnsNode) ForeignRules() (string, error) {
	ctx, cancel := bounded(stepBound)
	defer cancel()
	text, err := n.Shell(ctx, "iptables-save; ip6tables-save; nft list tables")
	var b strings.Builder
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "-A") && !strings.Contains(strings.ToLower(line), "flannel") {
			b.WriteString(line)
		}
	}
	return b.String(), err
}

// Harm implements [Firewall].
func (n *netnsNode) Harm(kind string, mark uint32) error {
	script, known := firewallHarms()[kind]
	if !known {
		return fmt.Errorf("network namespaces cannot do firewall %s", kind)
	}
	ctx, cancel := bounded(stepBound)
	defer cancel()
	_, err := n.Shell(ctx, strings.ReplaceAll(script, "MARK", fmt.Sprintf("%#x", mark)))
	return err
}

// markRules mark all packets in a table of another program.
const markRules = "add table inet foreign; " +
	"add chain inet foreign pre { type filter hook prerouting priority mangle; }; " +
	"add rule inet foreign pre meta mark set meta mark or MARK"

// firewallHarms are shell commands that harm a host's packet filter, by kind.
// MARK stands for the packet mark.
func firewallHarms() map[string]string {
	return map[string]string{
		"flush-ruleset":  "nft flush ruleset",
		"flush-iptables": bothFamilies("$TABLES -F; $TABLES -t nat -F"),
		"jump-moved":     moveJumps(),
		"stray-rule":     whereOurs("$TABLES -I FLANNEL-FWD -j DROP"),
		"policy-drop":    bothFamilies("$TABLES -P FORWARD DROP"),
		"policy-accept":  bothFamilies("$TABLES -P FORWARD ACCEPT"),
		"legacy-drop":    bothFamilies("$TABLES-legacy -P FORWARD DROP"),
		"legacy-accept":  bothFamilies("$TABLES-legacy -P FORWARD ACCEPT"),
		"foreign-rule": "iptables -I FORWARD -d 203.0.113.77 -j RETURN; " +
			"iptables -t nat -I POSTROUTING -d 203.0.113.77 -j RETURN",
		"firewalld":       bothFamilies("$TABLES -F FORWARD; $TABLES -t nat -F POSTROUTING; $TABLES -P FORWARD DROP"),
		"firewalld-zones": "nft -f - <<'END'\n" + drivertest.FirewalldZones("firewalld", lang.TrustedLinks()) + "END",
		"no-zones":        "nft delete table inet firewalld",
		"mark":            "nft '" + markRules + "'",
		"no-mark":         "nft delete table inet foreign",
	}
}

// bothFamilies runs a command for iptables, and again for ip6tables.
func bothFamilies(command string) string {
	return "for TABLES in iptables ip6tables; do " + command + "; done"
}

// whereOurs runs a command for iptables and ip6tables, if they have flannel's chains.
func whereOurs(command string) string {
	return bothFamilies("if $TABLES -n -L FLANNEL-FWD >/dev/null 2>&1; then " + command + "; fi")
}

// moveJumps puts flannel's jumps first, and a foreign rule behind them. In INPUT it puts them behind such a rule.
func moveJumps() string {
	return whereOurs(`$TABLES -t nat -D POSTROUTING -m comment --comment "flanneld masq" -j FLANNEL-POSTRTG; ` +
		`$TABLES -t nat -I POSTROUTING -m comment --comment "flanneld masq" -j FLANNEL-POSTRTG; ` +
		`$TABLES -t nat -A POSTROUTING -m mark --mark 1/1 -j ACCEPT; ` +
		`$TABLES -D FORWARD -m comment --comment "flanneld forward" -j FLANNEL-FWD; ` +
		`$TABLES -I FORWARD -m comment --comment "flanneld forward" -j FLANNEL-FWD; ` +
		`$TABLES -A FORWARD -m mark --mark 1/1 -j ACCEPT; ` +
		`$TABLES -S INPUT | sed -n 's/^-A \(INPUT .* -j FLANNEL-INPUT\)$/\1/p' | while read -r JUMP; do ` +
		`$TABLES -A INPUT -m mark --mark 1/1 -j ACCEPT; eval "$TABLES -D $JUMP; $TABLES -A $JUMP"; done`)
}
