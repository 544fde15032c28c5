package firewall

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/dataplane"
)

// releases are the rules that older releases left behind (interop 7.1), as
// iptables-restore reads them and with the words of [fill].
var releases = map[string]string{
	"v0.8": `*nat
-A POSTROUTING -s {net} -d {net} -j RETURN
-A POSTROUTING -s {net} ! -d {group} -j MASQUERADE
-A POSTROUTING ! -s {net} -d {net} -j MASQUERADE
COMMIT
`,
	"v0.9": `*nat
-A POSTROUTING -s {net} -d {net} -j RETURN
-A POSTROUTING -s {net} ! -d {group} -j MASQUERADE --random-fully
-A POSTROUTING ! -s {net} -d {own} -j RETURN
-A POSTROUTING ! -s {net} -d {net} -j MASQUERADE --random-fully
COMMIT
*filter
-A FORWARD -s {net} -j ACCEPT
-A FORWARD -d {net} -j ACCEPT
COMMIT
`,
	"v0.16": `*nat
-A POSTROUTING -s {net} -d {net} -m comment --comment "flanneld masq" -j RETURN
-A POSTROUTING -s {net} ! -d {group} -m comment --comment "flanneld masq" -j MASQUERADE --random-fully
-A POSTROUTING ! -s {net} -d {own} -m comment --comment "flannel masq" -j RETURN
-A POSTROUTING ! -s {net} -d {net} -m comment --comment "flanneld masq" -j MASQUERADE --random-fully
COMMIT
*filter
-A FORWARD -s {net} -m comment --comment "flanneld forward" -j ACCEPT
-A FORWARD -d {net} -m comment --comment "flanneld forward" -j ACCEPT
COMMIT
`,
	"v0.20.0": `*nat
:FLANNEL-POSTRTG - [0:0]
-I POSTROUTING 1 -m comment --comment "flanneld masq" -j FLANNEL-POSTRTG
-A FLANNEL-POSTRTG -s {net} -d {net} -m comment --comment "flanneld masq" -j RETURN
-A FLANNEL-POSTRTG -s {net} ! -d {group} -m comment --comment "flanneld masq" -j MASQUERADE --random-fully
-A FLANNEL-POSTRTG ! -s {net} -d {own} -m comment --comment "flanneld masq" -j RETURN
-A FLANNEL-POSTRTG ! -s {net} -d {net} -m comment --comment "flanneld masq" -j MASQUERADE --random-fully
COMMIT
*filter
:FLANNEL-FWD - [0:0]
-I FORWARD 1 -m comment --comment "flanneld forward" -j FLANNEL-FWD
-A FLANNEL-FWD -s {net} -m comment --comment "flanneld forward" -j ACCEPT
-A FLANNEL-FWD -d {net} -m comment --comment "flanneld forward" -j ACCEPT
COMMIT
`,
	"v0.28": `*nat
:FLANNEL-POSTRTG - [0:0]
-A POSTROUTING -m comment --comment "flanneld masq" -j FLANNEL-POSTRTG
-A FLANNEL-POSTRTG -m mark --mark 0x4000/0x4000 -m comment --comment "flanneld masq" -j RETURN
-A FLANNEL-POSTRTG -s {own} -d {net} -m comment --comment "flanneld masq" -j RETURN
-A FLANNEL-POSTRTG -s {net} -d {own} -m comment --comment "flanneld masq" -j RETURN
-A FLANNEL-POSTRTG ! -s {net} -d {own} -m comment --comment "flanneld masq" -j RETURN
-A FLANNEL-POSTRTG -s {net} ! -d {group} -m comment --comment "flanneld masq" -j MASQUERADE --random-fully
-A FLANNEL-POSTRTG ! -s {net} -d {net} -m comment --comment "flanneld masq" -j MASQUERADE --random-fully
COMMIT
*filter
:FLANNEL-FWD - [0:0]
-A FORWARD -m comment --comment "flanneld forward" -j FLANNEL-FWD
-A FLANNEL-FWD -s {net} -m comment --comment "flanneld forward" -j ACCEPT
-A FLANNEL-FWD -d {net} -m comment --comment "flanneld forward" -j ACCEPT
COMMIT
`,
	"rules of another network, some time ago": strings.ReplaceAll(`*nat
-A POSTROUTING -s {net} -d {net} -m comment --comment "flanneld masq" -j RETURN
COMMIT
`, "{net}", "{other}"),
}

// theirs are foreign rules that must stay: they look like ours, without proof
// that they are.
const theirs = `*nat
-A POSTROUTING -s {other} -d {other} -j RETURN
-A POSTROUTING -s {other} ! -d {group} -j MASQUERADE
-A POSTROUTING -s {other} -m comment --comment "no flanneld masq" -j RETURN
COMMIT
*filter
:MINE - [0:0]
-A FORWARD -j MINE
-A FORWARD -s {other} -j ACCEPT
-A FORWARD -d {other} -j ACCEPT
COMMIT
`

// TestOlderReleases upgrades from each release, in both variants and to both
// flavours.
func TestOlderReleases(t *testing.T) {
	eachMaking(t, func(t *testing.T, w *world, m making, f cidr.Family) {
		restore := fill("{iptables}-restore --noflush <<'END'\n", f)
		w.sh(t, restore+fill(theirs, f)+"END")
		before := withoutNotes(w.sh(t, fill("{iptables}-save", f)))
		for name, left := range releases {
			t.Run(name, func(t *testing.T) {
				w.sh(t, restore+fill(left, f)+"END")
				w.upgrade(t, m, f)
				if d := cmp.Diff(before, withoutNotes(w.sh(t, fill("{iptables}-save", f)))); d != "" {
					t.Errorf("the rules left (-before +after):\n%s", d)
				}
			})
		}
	})
}

// upgrade makes our chains where an older release has run, and removes them.
func (w *world) upgrade(t *testing.T, m making, f cidr.Family) {
	t.Helper()
	have := w.look(t).State
	if len(have.Chains) == 0 {
		t.Fatal("observed no chains")
	}
	chains := wanted(t, m.flavour, f)
	plan := ops(dataplane.Replace, chains)
	for _, h := range dataplane.Hooks {
		k := dataplane.ChainKey{Flavour: dataplane.IPTables, Family: f, Hook: h}
		if c, there := have.Chains[k]; there && m.flavour != k.Flavour {
			plan = append(plan, dataplane.Op{Verb: dataplane.Delete, Object: c})
		}
	}
	w.apply(t, plan...)
	w.expect(t, chains...)
	w.apply(t, ops(dataplane.Delete, chains)...)
	w.expect(t)
}

// withoutNotes removes the lines with the time of day.
func withoutNotes(save string) string {
	var b strings.Builder
	for line := range strings.Lines(save) {
		if !strings.HasPrefix(line, "#") {
			b.WriteString(line)
		}
	}
	return b.String()
}

// TestOtherVariant: after iptables has become its other variant, the driver
// finds and removes the former variant's rules with its program.
func TestOtherVariant(t *testing.T) {
	for _, f := range cidr.Families {
		for now, before := range map[variant]variant{variantNFT: variantLegacy, variantLegacy: variantNFT} {
			t.Run(string(now)+"/"+f.String(), func(t *testing.T) {
				w := newWorld(t, now)
				w.sh(t, fill("{iptables}-"+string(before)+"-restore --noflush <<'END'\n"+releases["v0.20.0"]+"END", f))
				chains := wanted(t, dataplane.IPTables, f)
				for _, c := range chains[:2] { // releases had none at the hook input
					c.Jump, c.Rules = dataplane.Missing, ""
					c.Other = "rules in the other variant of iptables"
					if have := w.inspect(t); !strings.Contains(have, c.String()) {
						t.Errorf("observed\n%swant in it\n%s", have, c)
					}
				}
				w.apply(t, ops(dataplane.Replace, chains)...)
				w.expect(t, chains...)
				if left := w.sh(t, fill("{iptables}-"+string(before)+"-save", f)); strings.Contains(left, "FLANNEL") {
					t.Errorf("left behind:\n%s", left)
				}
			})
		}
	}
}
