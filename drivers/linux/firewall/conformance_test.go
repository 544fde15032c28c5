package firewall

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/driver"
	"github.com/flanneld/flannel/drivers/drivertest"
)

// TestConformance records the suite's expectations: after adding a case, run it
// with -rewrite and read the kernel's answers.
func TestConformance(t *testing.T) {
	drivertest.RunFirewall(t, "../../..", func(t *testing.T) drivertest.FirewallWorld {
		return &receiver{newScene(t, variantNFT), t}
	})
}

// Firewall implements [drivertest.FirewallWorld].
func (w *world) Firewall() driver.Lane { return w.f }

// Harm implements [drivertest.FirewallWorld].
func (w *world) Harm(_ context.Context, h drivertest.Harm) error {
	var script strings.Builder
	switch h.Verb {
	case drivertest.FlushRuleset:
		script.WriteString("nft flush ruleset")
	case drivertest.FlushIPTables:
		script.WriteString("iptables -F\niptables -t nat -F\nip6tables -F\nip6tables -t nat -F")
	case drivertest.Policy:
		target := strings.ToUpper(string(h.Rule.Verdict))
		fmt.Fprintf(&script, "iptables -P FORWARD %s\nip6tables -P FORWARD %s", target, target)
	case drivertest.ForeignTable:
		fmt.Fprintf(&script, "nft 'add table inet %s; add chain inet %s forward { type filter hook forward priority 10; "+
			"policy drop; }'", h.Name, h.Name)
	case drivertest.Zones:
		script.WriteString("nft -f - <<'END'\n" + drivertest.FirewalldZones(h.Name, []string{"cni0"}) + "END")
	case drivertest.Foreign:
		spec, err := specOf(h.Rule, "foreign")
		if err != nil {
			return err
		}
		p := placeOf(h.Hook)
		fmt.Fprintf(&script, "%s -t %s -I %s %s", wordsOf(h.Family).iptables, p.table, p.shared, spec)
	case drivertest.Stray, drivertest.MoveJumps:
		seen, err := w.f.Look(context.Background(), dataplane.Extent{})
		if err != nil {
			return err
		}
		for _, f := range cidr.Families {
			for _, flavour := range dataplane.Flavours {
				for _, hook := range dataplane.Hooks {
					c, there := seen.State.Chains[dataplane.ChainKey{Flavour: flavour, Family: f, Hook: hook}]
					if !there {
						continue
					}
					if err := w.harmChain(&script, h, c); err != nil {
						return err
					}
				}
			}
		}
	}
	_, err := w.try(script.String())
	return err
}

func (w *world) harmChain(script *strings.Builder, h drivertest.Harm, c dataplane.Chain) error {
	words, p := wordsOf(c.Family), placeOf(c.Hook)
	b := baseOf(c.Hook)
	switch {
	case c.Flavour == dataplane.IPTables && h.Verb == drivertest.Stray:
		spec, err := specOf(h.Rule, p.comment)
		fmt.Fprintf(script, "%s -t %s -I %s %s\n", words.iptables, p.table, p.own, spec)
		return err
	case h.Verb == drivertest.Stray:
		text, err := nftRuleText(c.Family, h.Rule)
		fmt.Fprintf(script, "nft insert rule %s %s %s %s\n", words.ip, words.table, b.name, text)
		return err
	case c.Flavour == dataplane.IPTables && c.Hook == dataplane.Input:
		rules, err := c.Rules.List()
		fmt.Fprintf(script, "%s -A %s -m mark --mark 0x1/0x1 -j ACCEPT\n", words.iptables, p.shared)
		for _, kind := range entrants(rules) {
			for _, act := range []string{"-D", "-A"} {
				fmt.Fprintf(script, "%s %s %s %s\n", words.iptables, act, p.shared, jumpSpec(p, kind))
			}
		}
		return err
	case c.Flavour == dataplane.IPTables:
		for _, act := range []string{
			"-D " + p.shared + " " + jumpSpec(p, dataplane.Rule{}),
			"-I " + p.shared + " " + jumpSpec(p, dataplane.Rule{}),
			"-A " + p.shared + " -m mark --mark 0x1/0x1 -j ACCEPT",
		} {
			fmt.Fprintf(script, "%s -t %s %s\n", words.iptables, p.table, act)
		}
		return nil
	}
	rules, err := c.Rules.List()
	fmt.Fprintf(script, "nft 'flush chain %[1]s %[2]s %[3]s; delete chain %[1]s %[2]s %[3]s; "+
		"add chain %[1]s %[2]s %[3]s { type %[4]s hook %[5]s priority 77; }'\n",
		words.ip, words.table, b.name, b.kind, c.Hook)
	for _, r := range rules {
		text, ruleErr := nftRuleText(c.Family, r)
		if ruleErr != nil {
			return ruleErr
		}
		if r.Network.IsValid() {
			text += fmt.Sprintf(" comment %q", r.Network)
		}
		fmt.Fprintf(script, "nft 'add rule %s %s %s %s'\n", words.ip, words.table, b.name, text)
	}
	return err
}
