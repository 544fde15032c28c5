package drivertest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/driver"
)

// firewallCases is the folder of the cases of firewalls, in the repository.
const firewallCases = "drivers/drivertest/firewall"

// FirewallWorld is one host whose packet filter has no rules, with the driver
// under test. Its iptables is the one over nf_tables. Its maker closes it
// (t.Cleanup).
type FirewallWorld interface {
	Firewall() driver.Lane

	// Harm changes the packet filter behind the driver's back, as an administrator
	// or another program would.
	Harm(ctx context.Context, h Harm) error

	// Admits sends a packet to the host, by the link "eth0" or from the host to itself, and reports whether it
	// passes the hook input. The source is an address of the segment of eth0, or with "lo" the host's own.
	Admits(ctx context.Context, p dataplane.Packet) (bool, error)
}

// Harm is one foreign change to a packet filter. The comment of the verb names
// the fields that are set.
type Harm struct {
	Verb   HarmVerb
	Family cidr.Family    // of Foreign
	Hook   dataplane.Hook // of Foreign
	Rule   dataplane.Rule // of Stray and Foreign; its Verdict alone of Policy
	Name   string         // of ForeignTable and Zones
}

// HarmVerb is the kind of a Harm.
type HarmVerb string

// The verbs.
const (
	FlushRuleset  HarmVerb = "flush-ruleset"  // nft flush ruleset
	FlushIPTables HarmVerb = "flush-iptables" // iptables -F and ip6tables -F for both tables
	// MoveJumps puts the jumps to our chains first in iptables, with a rule behind
	// them that accepts packets with the mark 0x1/0x1, those in INPUT behind such a
	// rule, and gives our nftables chains another priority.
	MoveJumps HarmVerb = "move-jumps"
	Stray     HarmVerb = "stray"   // Rule goes first into each of our chains, and looks like our rules
	Foreign   HarmVerb = "foreign" // Rule goes first into the shared iptables chain of Family and Hook
	Policy    HarmVerb = "policy"  // Rule.Verdict becomes the policy of FORWARD in iptables, for both families
	// ForeignTable makes a table inet, called Name, with a chain at the hook forward
	// whose last rule drops everything.
	ForeignTable HarmVerb = "foreign-table"
	Zones        HarmVerb = "zones" // a table inet, called Name, with the rules of [FirewalldZones]
)

// ParseHarm reads one line: a verb and its arguments, such as "flush-ruleset",
// "stray to 10.5.9.9/32 drop", "foreign ipv4 forward to 10.5.9.9/32 drop",
// "policy drop" or "foreign-table firewalld".
func ParseHarm(line string) (Harm, error) {
	verb, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
	h := Harm{Verb: HarmVerb(verb)}
	var err error
	words := strings.Fields(rest)
	switch h.Verb {
	case FlushRuleset, FlushIPTables, MoveJumps:
		err = wantWords(words, 0)
	case Stray, Policy:
		h.Rule, err = dataplane.ParseRule(rest)
	case ForeignTable, Zones:
		err = wantWords(words, 1)
		if err == nil {
			h.Name = words[0]
		}
	case Foreign:
		err = h.parseForeign(rest)
	default:
		err = fmt.Errorf("unknown verb %q", verb)
	}
	if err != nil {
		return Harm{}, fmt.Errorf("harm %q: %w", line, err)
	}
	return h, nil
}

func (h *Harm) parseForeign(rest string) error {
	family, rest, _ := strings.Cut(rest, " ")
	hook, rest, _ := strings.Cut(rest, " ")
	i := slices.IndexFunc(cidr.Families[:], func(f cidr.Family) bool { return strings.EqualFold(f.String(), family) })
	if i < 0 {
		return fmt.Errorf("unknown family %q", family)
	}
	h.Family, h.Hook = cidr.Families[i], dataplane.Hook(hook)
	if !slices.Contains(dataplane.Hooks[:], h.Hook) {
		return fmt.Errorf("unknown hook %q", hook)
	}
	var err error
	h.Rule, err = dataplane.ParseRule(rest)
	return err
}

// RunFirewall runs every case of firewalls, each file in a fresh world. The
// path leads from the driver's folder to the repository. The commands of a
// file are
//
//	harm     harms, one a line (see [ParseHarm]), which must succeed
//	apply    ops on chains, one a line; prints "ok" or the error's class for each
//	receive  packets of IPv4 or IPv6, one a line in the form of a rule without a verdict, such as
//	         "in eth0 udp 8472 from 192.168.64.9/32"; prints whether each passes the hook input
//	inspect  prints flannel's chains, and the foreign rules that block forwarded packets
func RunFirewall(t *testing.T, root string, newWorld func(t *testing.T) FirewallWorld) {
	datadriven.Walk(t, root+"/"+firewallCases, func(t *testing.T, path string) {
		w := newWorld(t)
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			switch d.Cmd {
			case "harm":
				return harm(t, w, d)
			case "apply":
				return apply(t, w.Firewall().Apply, d)
			case "receive":
				return receive(t, w, d)
			case "inspect":
				return inspect(t, w, d)
			}
			d.Fatalf(t, "unknown command %q", d.Cmd)
			return ""
		})
	})
}

func harm(t *testing.T, w FirewallWorld, d *datadriven.TestData) string {
	for line := range lines(d.Input) {
		h, err := ParseHarm(line)
		if err == nil {
			err = w.Harm(t.Context(), h)
		}
		if err != nil {
			d.Fatalf(t, "%s: %v", line, err)
		}
	}
	return ""
}

func receive(t *testing.T, w FirewallWorld, d *datadriven.TestData) string {
	var b strings.Builder
	for line := range lines(d.Input) {
		r, err := dataplane.ParseRule(line + " return")
		if err != nil {
			d.Fatalf(t, "%v", err)
		}
		packet := dataplane.Packet{In: r.In, Proto: r.Proto, Port: r.Port, Src: r.From.Prefix.Addr()}
		passes, err := w.Admits(t.Context(), packet)
		if err != nil {
			d.Fatalf(t, "%s: %v", line, err)
		}
		fmt.Fprintln(&b, map[bool]string{true: "passes", false: "dropped"}[passes])
	}
	return b.String()
}

func inspect(t *testing.T, w FirewallWorld, d *datadriven.TestData) string {
	seen, err := w.Firewall().Look(t.Context(), dataplane.Extent{})
	if err != nil {
		d.Fatalf(t, "%v", err)
	}
	var b strings.Builder
	b.WriteString(seen.State.Dump())
	for _, block := range seen.Facts.(driver.FirewallFacts).Blocks {
		fmt.Fprintf(&b, "block %s: %s", strings.ToLower(block.Family.String()), block.By)
		if block.OverriddenBy != "" {
			fmt.Fprintf(&b, ", overridden by %s", block.OverriddenBy)
		}
		if block.Doubtful {
			b.WriteString(", doubtful")
		}
		b.WriteByte('\n')
	}
	return b.String()
}
