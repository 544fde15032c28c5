package scenarios

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/drivers/sim"
)

// upset is a kind of harm to a host's packet filter: what it is in the
// simulator, and by which commands it is done to a real one. In those, MARK
// stands for that of the options. Without commands, it is for the simulator alone.
type upset struct {
	sim  func(*sim.Host, UpsetOptions)
	real string
	undo string // the kind that ends it, of one that lasts
}

// strangersRule is one that is nobody's business: it counts packets to an
// address that nobody has.
var strangersRule = dataplane.Rule{To: dataplane.Match{Prefix: netip.MustParsePrefix("203.0.113.77/32")}, Verdict: dataplane.Return}

// strayRule drops all that a chain of ours is shown.
var strayRule = dataplane.Rule{Verdict: dataplane.Drop}

// upsets are the kinds of harm, by the word that names them.
func upsets() map[string]upset {
	policy := func(v dataplane.Verdict) func(*sim.Host, UpsetOptions) {
		return func(h *sim.Host, _ UpsetOptions) { h.ForwardPolicy(v) }
	}
	return map[string]upset{
		"flush-ruleset":  {sim: func(h *sim.Host, _ UpsetOptions) { h.FlushRuleset() }, real: "nft flush ruleset"},
		"flush-iptables": {sim: func(h *sim.Host, _ UpsetOptions) { h.FlushIPTables() }, real: bothFamilies("$TABLES -F; $TABLES -t nat -F")},
		"jump-moved":     {sim: func(h *sim.Host, _ UpsetOptions) { h.MoveJump() }, real: moveJumps()},
		"stray-rule":     {sim: func(h *sim.Host, _ UpsetOptions) { h.StrayRule(strayRule) }, real: whereOurs("$TABLES -I FLANNEL-FWD -j DROP")},
		"policy-drop":    {sim: policy(dataplane.Drop), real: bothFamilies("$TABLES -P FORWARD DROP"), undo: "policy-accept"},
		"policy-accept":  {sim: policy(dataplane.Accept), real: bothFamilies("$TABLES -P FORWARD ACCEPT")},
		"foreign-rule": {sim: func(h *sim.Host, _ UpsetOptions) {
			for _, hook := range dataplane.Hooks {
				h.ForeignRule(cidr.V4, hook, strangersRule)
			}
		}, real: "iptables -I FORWARD -d 203.0.113.77 -j RETURN; iptables -t nat -I POSTROUTING -d 203.0.113.77 -j RETURN"},
		"firewalld": {sim: func(h *sim.Host, _ UpsetOptions) { h.RestartFirewalld() }, undo: "policy-accept",
			real: bothFamilies("$TABLES -F FORWARD; $TABLES -t nat -F POSTROUTING; $TABLES -P FORWARD DROP")},
		"mark": {sim: func(h *sim.Host, o UpsetOptions) { h.MarkPackets(o.Mark) }, undo: "no-mark",
			real: "nft 'add table inet stranger; add chain inet stranger pre { type filter hook prerouting priority mangle; }; add rule inet stranger pre meta mark set meta mark or MARK'"},
		"no-mark": {sim: func(h *sim.Host, _ UpsetOptions) { h.MarkPackets(0) }, real: "nft delete table inet stranger"},
		"locked":  {sim: func(h *sim.Host, o UpsetOptions) { h.LockFirewall(o.For) }},
	}
}

// bothFamilies runs a command for iptables, and again for ip6tables.
func bothFamilies(command string) string {
	return "for TABLES in iptables ip6tables; do " + command + "; done"
}

// whereOurs runs a command for those of the two that have chains of flannel's.
func whereOurs(command string) string {
	return bothFamilies("if $TABLES -n -L FLANNEL-FWD >/dev/null 2>&1; then " + command + "; fi")
}

// moveJumps puts flannel's jumps first, and something behind them.
func moveJumps() string {
	return whereOurs(`$TABLES -t nat -D POSTROUTING -m comment --comment "flanneld masq" -j FLANNEL-POSTRTG; ` +
		`$TABLES -t nat -I POSTROUTING -m comment --comment "flanneld masq" -j FLANNEL-POSTRTG; ` +
		`$TABLES -t nat -A POSTROUTING -m mark --mark 1/1 -j ACCEPT; ` +
		`$TABLES -D FORWARD -m comment --comment "flanneld forward" -j FLANNEL-FWD; ` +
		`$TABLES -I FORWARD -m comment --comment "flanneld forward" -j FLANNEL-FWD; ` +
		`$TABLES -A FORWARD -m mark --mark 1/1 -j ACCEPT`)
}

// script is the harm as commands for a shell.
func (u upset) script(o UpsetOptions) string {
	return strings.ReplaceAll(u.real, "MARK", fmt.Sprintf("%#x", o.Mark))
}

// fault n2 firewall flush-ruleset|flush-iptables|jump-moved|stray-rule|policy-drop|policy-accept|foreign-rule|firewalld|mark=0xc000|locked for=3s
func faultFirewall(s *Session, name string, n Node, a *args, _ string) error {
	var o UpsetOptions
	var mark string
	kind := ""
	a.duration("for", &o.For)
	if a.text("mark", &mark) {
		bits, err := strconv.ParseUint(mark, 0, 32)
		if err != nil {
			return fmt.Errorf("mark=%s: want a number of 32 bits", mark)
		}
		kind, o.Mark = "mark", uint32(bits)
	} else {
		kind = a.word("what to do to it")
	}
	if err := a.done(); err != nil {
		return err
	}
	do := func() error { return n.Upset(kind, o) }
	undo := upsets()[kind].undo
	if undo == "" {
		return do()
	}
	return s.lasting(name+" firewall "+undo, true, do, func() error { return n.Upset(undo, o) })
}
