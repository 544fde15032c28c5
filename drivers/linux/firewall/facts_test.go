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
)

func (w *world) facts(t testing.TB) driver.FirewallFacts {
	t.Helper()
	facts, _, err := w.f.Inspect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return facts
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
			// Programs may come and go while we run. Where one is missing there is
			// nothing to clean up (interop F2).
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
				if want := fmt.Sprintf("add %s: %s: not supported by kernel", c, want.Tools[c.Family].Of(c.Flavour).About); err == nil || err.Error() != want {
					t.Errorf("error %v\nwant  %s", err, want)
				}
			}
		})
	}
}

// TestProgramThatFails is there, and is tried again later.
func TestProgramThatFails(t *testing.T) {
	w := newWorld(t, variantNFT)
	if err := os.WriteFile(filepath.Join(w.dir, "nft"), []byte("#!/bin/sh\necho out of order >&2\nexit 1\n"), 0o755); err != nil {
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

func TestBars(t *testing.T) {
	for _, v := range []variant{variantNFT, variantLegacy} {
		for _, f := range cidr.Families {
			t.Run(fmt.Sprintf("%s/%s", v, f), func(t *testing.T) {
				chain := map[variant]string{
					variantNFT: "chain FORWARD in table {ip} filter", variantLegacy: "chain FORWARD in table filter of {iptables}-legacy",
				}[v]
				w := newWorld(t, v)
				for _, c := range []struct {
					does    string
					by      string
					yields  dataplane.Flavour
					accepts dataplane.Rules
				}{
					{"{iptables} -P FORWARD DROP", "policy DROP of " + chain, dataplane.IPTables, ""},
					{"{iptables} -A FORWARD -s {other} -j DROP", "", "", ""},
					{"{iptables} -A FORWARD -m comment --comment last -j REJECT", "rule 1 of " + chain + ", which drops everything", "", ""},
					{"{iptables} -A FORWARD -j FLANNEL-FWD\n{iptables} -A FORWARD -j DROP", "rule 2 of " + chain + ", which drops everything", dataplane.IPTables, ""},
					{"nft 'add table inet x; add chain inet x through { type filter hook forward priority 5; policy drop; }'",
						"policy DROP of chain through in table inet x", "", ""},
					{"nft 'add table inet x; add chain inet x through { type filter hook forward priority 5; }; add rule inet x through counter reject'",
						"rule 1 of chain through in table inet x, which drops everything", "", ""},
					{"nft 'add table inet x; add chain inet x through { type filter hook input priority 5; policy drop; }'", "", "", ""},
					{"{iptables} -P FORWARD DROP\n{iptables} -A FORWARD -m comment --comment mine -s {net} -j ACCEPT\n{iptables} -A FORWARD -d {other} -j DROP\n" +
						"{iptables} -A FORWARD -i lo -d {other} -j ACCEPT\n{iptables} -A FORWARD -d {net} -j ACCEPT",
						"policy DROP of " + chain, dataplane.IPTables, "from {net} accept; to {net} accept"},
					{"nft -f - <<'END'\ntable inet x {\nchain zone { iifname lo accept; {ip} saddr {other} accept; }\n" +
						"chain user { {ip} daddr {net} accept; {ip} saddr {net} counter log accept; tcp dport 80 accept; jump user2; }\n" +
						"chain user2 { accept; }\n" +
						"chain through { type filter hook forward priority 5; ct state established accept; jump user; {ip} daddr {own} goto zone; reject; {ip} saddr {own} accept; }\n}\nEND",
						"rule 4 of chain through in table inet x, which drops everything", "", "to {net} accept; from {net} accept; accept; from {other} to {own} accept"},
				} {
					w.sh(t, fill("nft flush ruleset\n{iptables} -P FORWARD ACCEPT\n{iptables} -F\n{iptables} -X\n{iptables} -N FLANNEL-FWD\n"+c.does, f))
					var want []driver.Bar
					if c.by != "" {
						want = append(want, driver.Bar{Family: f, By: fill(c.by, f), Yields: c.yields, Accepts: dataplane.Rules(fill(string(c.accepts), f))})
					}
					var have []driver.Bar
					for _, b := range w.facts(t).Bars {
						if b.Family == f { // a table of both families bars both
							have = append(have, b)
						}
					}
					if d := cmp.Diff(want, have); d != "" {
						t.Errorf("%s (-want +have):\n%s", c.does, d)
					}
				}
			})
		}
	}
}

// TestPolicyOfOtherVariant cannot be overruled by our chains.
func TestPolicyOfOtherVariant(t *testing.T) {
	w := newWorld(t, variantNFT)
	w.sh(t, "iptables-legacy -P FORWARD DROP")
	want := []driver.Bar{{By: "policy DROP of chain FORWARD in table filter of iptables-legacy"}}
	if d := cmp.Diff(want, w.facts(t).Bars); d != "" {
		t.Errorf("bars (-want +have):\n%s", d)
	}
}
