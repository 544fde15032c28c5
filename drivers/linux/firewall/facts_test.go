package firewall

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/driver"
	"github.com/flanneld/flannel/drivers/drivertest"
)

func (w *world) facts(t testing.TB) driver.FirewallFacts {
	t.Helper()
	return w.look(t).Facts.(driver.FirewallFacts)
}

func TestTools(t *testing.T) {
	for v, kind := range map[variant]string{variantNFT: "(nf_tables)", variantLegacy: "(legacy)"} {
		t.Run(string(v), func(t *testing.T) {
			w := newWorld(t, v)
			for _, f := range cidr.Families {
				tools := w.facts(t).Tools[f]
				if !tools.IPTables.Usable || !tools.IPTables.RandomFully || !strings.HasSuffix(tools.IPTables.About, kind) {
					t.Errorf("%s: iptables: %+v", f, tools.IPTables)
				}
				if !tools.NFTables.Usable || !tools.NFTables.RandomFully || !strings.HasPrefix(tools.NFTables.About, "nftables v") {
					t.Errorf("%s: nftables: %+v", f, tools.NFTables)
				}
			}
			// Programs may come and go while the daemon runs. Without a program
			// there is nothing to clean up (interop F2: leave no rules behind).
			for _, name := range []string{"ip6tables-restore", "nft"} {
				if err := os.Rename(filepath.Join(w.dir, name), filepath.Join(w.dir, "hidden-"+name)); err != nil {
					t.Fatal(err)
				}
			}
			want := driver.FirewallFacts{Tools: w.facts(t).Tools}
			want.Tools[cidr.V6].IPTables = driver.Tool{About: "no ip6tables in $PATH"}
			for _, f := range cidr.Families {
				want.Tools[f].NFTables = driver.Tool{About: "no nft in $PATH"}
			}
			if d := cmp.Diff(want, w.facts(t)); d != "" || !want.Tools[cidr.V4].IPTables.Usable {
				t.Errorf("without programs (-want +have):\n%s", d)
			}
			for _, c := range append(wanted(t, dataplane.NFTables, cidr.V4), wanted(t, dataplane.IPTables, cidr.V6)...) {
				err := w.f.Apply(t.Context(), ops(dataplane.Create, []dataplane.Chain{c}))[0]
				if want := fmt.Sprintf("add %s: %s: not supported by kernel", c,
					want.Tools[c.Family].Of(c.Flavour).About); err == nil || err.Error() != want {
					t.Errorf("error %v\nwant  %s", err, want)
				}
			}
		})
	}
}

// TestProgramThatFails has a program that fails: the driver tries it again
// later.
func TestProgramThatFails(t *testing.T) {
	w := newWorld(t, variantNFT)
	if err := os.WriteFile(filepath.Join(w.dir, "nft"), []byte("#!/bin/sh\necho out of order >&2\nexit 1\n"),
		0o755); err != nil {
		t.Fatal(err)
	}
	if got, want := w.facts(t).Tools[cidr.V4].NFTables, (driver.Tool{About: "nft: out of order"}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	old := w.f.tools
	if fresh := old.current(t.Context(), w.ns, old.retry.Add(-1)); fresh != old {
		t.Error("it was tried again at once")
	}
	if fresh := old.current(t.Context(), w.ns, old.retry); fresh == old {
		t.Error("it was not tried again")
	}
}

// TestForwardBlocks: a block is certain only behind rules that accept nothing.
func TestForwardBlocks(t *testing.T) {
	for _, v := range []variant{variantNFT, variantLegacy} {
		for _, f := range cidr.Families {
			chain := map[variant]string{
				variantNFT:    "chain FORWARD in table {ip} filter",
				variantLegacy: "chain FORWARD in table filter of {iptables}-legacy",
			}[v]
			for name, c := range forwardBlocks(chain) {
				t.Run(fmt.Sprintf("%s/%s/%s", v, f, name), func(t *testing.T) { c.check(t, v, f) })
			}
		}
	}
}

// forwardBlock is a script and the block that it makes, if any.
type forwardBlock struct {
	script       string
	by           string
	overriddenBy dataplane.Flavour
	doubtful     bool
}

func (c forwardBlock) check(t *testing.T, v variant, f cidr.Family) {
	w := newWorld(t, v)
	w.sh(t, fill("{iptables} -N FLANNEL-FWD\n"+c.script, f))
	var want, have []driver.ForwardBlock
	if c.by != "" {
		want = append(want, driver.ForwardBlock{
			Family: f, By: fill(c.by, f), OverriddenBy: c.overriddenBy, Doubtful: c.doubtful,
		})
	}
	for _, b := range w.facts(t).Blocks {
		if b.Family == f { // a table of both families blocks both
			have = append(have, b)
		}
	}
	if d := cmp.Diff(want, have); d != "" {
		t.Errorf("%s (-want +have):\n%s", c.script, d)
	}
}

// forwardBlocks returns cases in which the given chain is our chain of the
// variant.
func forwardBlocks(chain string) map[string]forwardBlock {
	const everything = ", which drops everything"
	return map[string]forwardBlock{
		"policy":   {script: "{iptables} -P FORWARD DROP", by: "policy DROP of " + chain, overriddenBy: dataplane.IPTables},
		"one drop": {script: "{iptables} -A FORWARD -s {other} -j DROP"},
		"final reject": {
			script: "{iptables} -A FORWARD -m comment --comment last -j REJECT",
			by:     "rule 1 of " + chain + everything,
		},
		"final drop behind our jump": {
			script: "{iptables} -A FORWARD -j FLANNEL-FWD\n{iptables} -A FORWARD -j DROP",
			by:     "rule 2 of " + chain + everything, overriddenBy: dataplane.IPTables,
		},
		"rules that accept nothing": {
			script: "{iptables} -A FORWARD -d {other} -j DROP\n{iptables} -A FORWARD -i eth9 -j LOG\n" +
				"{iptables} -A FORWARD -s {other}\n{iptables} -A FORWARD -p tcp -j REJECT\n{iptables} -A FORWARD -j DROP",
			by: "rule 5 of " + chain + everything,
		},
		"accepts by interface": {
			script: "{iptables} -A FORWARD -i eth9 -j ACCEPT\n{iptables} -A FORWARD -j DROP",
			by:     "rule 2 of " + chain + everything, doubtful: true,
		},
		"another chain": {
			script: "{iptables} -N USER\n{iptables} -A USER -s {other} -j ACCEPT\n{iptables} -A FORWARD -j USER\n" +
				"{iptables} -A FORWARD -j DROP",
			by: "rule 2 of " + chain + everything, doubtful: true,
		},
		"go to another chain": {
			script: "{iptables} -N USER\n{iptables} -A FORWARD -s {other} -g USER\n{iptables} -P FORWARD DROP",
			by:     "policy DROP of " + chain, overriddenBy: dataplane.IPTables, doubtful: true,
		},
		"return to the policy": {
			script: "{iptables} -A FORWARD -s {other} -j RETURN\n{iptables} -A FORWARD -j DROP",
			by:     "rule 2 of " + chain + everything, doubtful: true,
		},
		"nft policy": {
			script: "nft 'add table inet x; add chain inet x through { type filter hook forward priority 5; policy drop; }'",
			by:     "policy DROP of chain through in table inet x",
		},
		"nft reject": {
			script: "nft 'add table inet x; add chain inet x through { type filter hook forward priority 5; }; " +
				"add rule inet x through counter reject'",
			by: "rule 1 of chain through in table inet x" + everything,
		},
		"another hook": {
			script: "nft 'add table inet x; add chain inet x through { type filter hook input priority 5; policy drop; }'",
		},
		"nft rules that accept nothing": {
			script: "nft -f - <<'END'\ntable inet x {\nchain through { type filter hook forward priority 5; " +
				"ct state invalid drop; iifname eth9 tcp dport { 80, 443 } reject; log; limit rate 1/second log; drop; }\n}\nEND",
			by: "rule 5 of chain through in table inet x" + everything,
		},
		"nft map with verdicts": {
			script: "nft -f - <<'END'\ntable inet x {\nchain through { type filter hook forward priority 5; " +
				"iifname vmap { eth9 : accept }; drop; }\n}\nEND",
			by: "rule 2 of chain through in table inet x" + everything, doubtful: true,
		},
		"firewalld by zones": {
			script: "nft -f - <<'END'\n" + drivertest.FirewalldZones("firewalld", []string{"cni0", "flannel.1"}) + "END",
			by:     "rule 6 of chain filter_FORWARD in table inet firewalld" + everything, doubtful: true,
		},
	}
}

// TestForwardBlocksInOtherChains: a chain to which every packet is led may drop everything, whatever it is called.
func TestForwardBlocksInOtherChains(t *testing.T) {
	const first = "rule 1 of chain FORWARD in table {ip} filter, which drops everything"
	const user = "{iptables} -N USER\n{iptables} -A FORWARD -j USER\n"
	for name, c := range map[string]forwardBlock{
		"it drops":      {script: user + "{iptables} -A USER -j REJECT", by: first},
		"it drops some": {script: user + "{iptables} -A USER -p tcp -j REJECT"},
		"it returns before that": {
			script: user + "{iptables} -A USER -s {other} -j RETURN\n{iptables} -A USER -j DROP",
		},
		"go to": {script: "{iptables} -N USER\n{iptables} -A FORWARD -g USER\n{iptables} -A USER -j DROP", by: first},
		"go to one that drops some": {script: "{iptables} -N USER\n{iptables} -A FORWARD -g USER\n" +
			"{iptables} -A USER -p tcp -j DROP\n{iptables} -P FORWARD DROP",
			by: "policy DROP of chain FORWARD in table {ip} filter", overriddenBy: dataplane.IPTables, doubtful: true},
		"only some packets are led there": {script: "{iptables} -N USER\n{iptables} -A FORWARD -i eth9 -j USER\n" +
			"{iptables} -A USER -j DROP"},
		"a chain behind it": {script: user + "{iptables} -N LAST\n{iptables} -A USER -j LAST\n{iptables} -A LAST -j DROP",
			by: first},
		"an empty chain before a drop": {script: user + "{iptables} -A FORWARD -j DROP",
			by: "rule 2 of chain FORWARD in table {ip} filter, which drops everything"},
		"nft": {script: "nft 'add table inet x; add chain inet x y; add rule inet x y counter reject; add chain inet x " +
			"through { type filter hook forward priority 5; }; add rule inet x through jump y'",
			by: "rule 1 of chain through in table inet x, which drops everything"},
	} {
		for _, f := range cidr.Families {
			t.Run(fmt.Sprintf("%s/%s", f, name), func(t *testing.T) { c.check(t, variantNFT, f) })
		}
	}
}

// TestPolicyOfOtherVariant: the node makes the chain at the hook forward in both
// variants while the other's policy drops packets, and in its own alone after that.
func TestPolicyOfOtherVariant(t *testing.T) {
	for now, other := range map[variant]variant{variantNFT: variantLegacy, variantLegacy: variantNFT} {
		for _, f := range cidr.Families {
			t.Run(fmt.Sprintf("%s/%s", now, f), func(t *testing.T) { policyOfOther(t, now, other, f) })
		}
	}
}

func policyOfOther(t *testing.T, now, other variant, f cidr.Family) {
	w := newWorld(t, now)
	chains := wanted(t, dataplane.IPTables, f)
	jumps := func() int {
		save := w.sh(t, fill("{iptables}-"+string(other)+"-save -t filter", f))
		return strings.Count(save, "-A FORWARD -m comment --comment \"flanneld forward\" -j FLANNEL-FWD")
	}
	w.apply(t, ops(dataplane.Create, chains)...)
	w.sh(t, fill("{iptables}-"+string(other)+" -P FORWARD DROP", f))
	if blocks := w.facts(t).Blocks; len(blocks) != 1 || blocks[0].OverriddenBy != dataplane.IPTables {
		t.Errorf("blocks %+v, want one that iptables overrides", blocks)
	}
	w.wantOther(t, f, "other rules in the other variant of iptables, whose FORWARD drops packets")
	w.apply(t, ops(dataplane.Replace, chains)...)
	w.expect(t, chains...)
	if got := jumps(); got != 1 {
		t.Errorf("%d jumps in the other variant, want 1", got)
	}

	w.sh(t, fill("{iptables}-"+string(other)+" -F FLANNEL-FWD", f))
	w.wantOther(t, f, "other rules in the other variant of iptables, whose FORWARD drops packets")
	w.apply(t, ops(dataplane.Replace, chains)...)
	w.expect(t, chains...)

	w.sh(t, fill("{iptables}-"+string(other)+" -P FORWARD ACCEPT", f))
	w.wantOther(t, f, "rules in the other variant of iptables")
	w.apply(t, ops(dataplane.Replace, chains)...)
	w.expect(t, chains...)
	if got := jumps(); got != 0 {
		t.Errorf("%d jumps in the other variant, want none", got)
	}
	w.sh(t, fill("{iptables}-"+string(other)+" -P FORWARD DROP", f))
	w.apply(t, ops(dataplane.Replace, chains)...)
	w.apply(t, ops(dataplane.Delete, chains)...)
	w.expect(t)
	if got := jumps(); got != 0 {
		t.Errorf("%d jumps in the other variant after the delete, want none", got)
	}
}

// wantOther expects that reading our chain at the hook forward finds want.
func (w *world) wantOther(t *testing.T, f cidr.Family, want string) {
	t.Helper()
	k := dataplane.ChainKey{Flavour: dataplane.IPTables, Family: f, Hook: dataplane.Forward}
	if got := w.look(t).State.Chains[k].Other; got != want {
		t.Errorf("chain holds other things: %q, want %q", got, want)
	}
}
