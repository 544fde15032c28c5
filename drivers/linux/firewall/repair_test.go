package firewall

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/dataplane"
)

// damage is a foreign change to our chains, with the words of [fill].
type damage struct {
	name string
	does string
	seen string // a part of the state observed after the damage
}

var damages = map[dataplane.Flavour][]damage{
	dataplane.NFTables: {
		{"the table is deleted", "nft delete table {ip} {table}", ""},
		{"a chain is deleted", "nft delete chain {ip} {table} postrtg", "chain nftables"},
		{"a chain is emptied", "nft flush chain {ip} {table} forward", "forward jump placed { }"},
		{"a rule is doubled", "nft add rule {ip} {table} forward {ip} daddr {net} accept",
			"to {net} accept; to {net} accept }"},
		{"a rule is put first", "nft insert rule {ip} {table} forward {ip} saddr {other} drop",
			"{ from {other} drop; from {net} accept"},
		{"a rule of another form", "nft add rule {ip} {table} forward tcp dport 80 accept",
			`other "rule 3 of the table has another form"`},
		{"a further condition", "nft insert rule {ip} {table} forward iifname lo {ip} saddr {net} accept",
			`other "rule 1 of the table has another form"`},
		{"a chain besides", "nft add chain {ip} {table} more", `other "chain more beside it"`},
		{"a jump to an added chain", "nft 'add chain {ip} {table} more; insert rule {ip} {table} forward jump more'",
			`other "chain more beside it"`},
		{"an added set without effect",
			"nft 'add set {ip} {table} more { type inet_service ; }; flush chain {ip} {table} forward'", "{ }"},
		{"the table sleeps", "nft 'add table {ip} {table} { flags dormant ; }'", "jump missing"},
		{"another policy", "nft 'add chain {ip} {table} forward { policy drop ; }'", `other "policy drop"`},
		{"another priority", "nft 'flush chain {ip} {table} forward; delete chain {ip} {table} forward; " +
			"add chain {ip} {table} forward { type filter hook forward priority 5 ; }'", "forward jump moved { }"},
		{"no hook", "nft 'flush chain {ip} {table} forward; delete chain {ip} {table} forward; " +
			"add chain {ip} {table} forward'", "forward jump missing { }"},
		{"everything is flushed", "nft flush ruleset", ""},
	},
	dataplane.IPTables: {
		{"the chain is emptied", "{iptables} -F FLANNEL-FWD", "forward jump placed { }"},
		{"a rule is deleted", "{iptables} -D FLANNEL-FWD 1", "placed { to {net} accept }"},
		{"a rule is doubled", `{iptables} -A FLANNEL-FWD -d {net} -m comment --comment "flanneld forward" -j ACCEPT`,
			"to {net} accept; to {net} accept }"},
		{"rules change places", `{iptables} -D FLANNEL-FWD 1` + "\n" +
			`{iptables} -A FLANNEL-FWD -s {net} -m comment --comment "flanneld forward" -j ACCEPT`,
			"{ to {net} accept; from {net} accept }"},
		{"a rule of another form", "{iptables} -A FLANNEL-FWD -i lo -j ACCEPT", `other "rule -i lo -j ACCEPT"`},
		{"a rule without our comment", "{iptables} -A FLANNEL-FWD -s {net} -j ACCEPT", `other "rule -s {net} -j ACCEPT"`},
		{"the jump is gone", `{iptables} -D FORWARD -m comment --comment "flanneld forward" -j FLANNEL-FWD`,
			"jump missing { from"},
		{"the jump is first", `{iptables} -D FORWARD -m comment --comment "flanneld forward" -j FLANNEL-FWD` + "\n" +
			`{iptables} -I FORWARD -m comment --comment "flanneld forward" -j FLANNEL-FWD`, "jump moved { from"},
		{"the jump is there twice", `{iptables} -A FORWARD -m comment --comment "flanneld forward" -j FLANNEL-FWD`,
			"jump moved { from"},
		{"a jump of another form", "{iptables} -A FORWARD -i lo -j FLANNEL-FWD", "jump moved { from"},
		{"a foreign rule comes last", "{iptables} -A FORWARD -s {other} -j DROP", "forward jump moved { from"},
		{"a foreign rule comes last in nat", "{iptables} -t nat -A POSTROUTING -s {other} -j ACCEPT",
			"postrouting jump moved {"},
		{"a table is flushed", "{iptables} -t nat -F", "postrouting jump missing { }"},
		{"all tables are flushed and chains deleted",
			"{iptables} -F\n{iptables} -X\n{iptables} -t nat -F\n{iptables} -t nat -X", ""},
	},
}

// fill puts the words of a family into a text: {iptables}, {ip}, {table} for
// our table of nftables, {net}, {group} for multicast, and {other} for a
// foreign network.
func fill(text string, f cidr.Family) string {
	w := wordsOf(f)
	return strings.NewReplacer("{iptables}", w.iptables, "{ip}", w.ip, "{table}", w.table,
		"{group}", multicast(f).String(),
		"{other}", [...]string{"10.99.0.0/16", "fd00:99::/48"}[f], "{net}", [...]string{"10.5.0.0/16", "fd00:5::/48"}[f],
		"{own}", [...]string{"10.5.1.0/24", "fd00:5:0:1::/64"}[f],
	).Replace(text)
}

// TestRepair does each damage, sees it, and repairs it with a Replace of all
// chains (interop F1: watch and repair rules).
func TestRepair(t *testing.T) {
	eachMaking(t, func(t *testing.T, w *world, m making, f cidr.Family) {
		w.others(t, m, f)
		chains := wanted(t, m.flavour, f)
		w.apply(t, ops(dataplane.Create, chains)...)
		w.expect(t, chains...)
		for _, d := range damages[m.flavour] {
			t.Run(d.name, func(t *testing.T) {
				w.sh(t, fill(d.does, f))
				seen := w.inspect(t)
				if s := dump(chains); seen == s {
					t.Error("the look does not see the damage")
				}
				if !strings.Contains(seen, fill(d.seen, f)) {
					t.Errorf("observed\n%swant in it\n%s", seen, fill(d.seen, f))
				}
				w.apply(t, ops(dataplane.Replace, chains)...)
				w.expect(t, chains...)
			})
		}
	})
}

func dump(chains []dataplane.Chain) string {
	s := dataplane.NewState()
	for _, c := range chains {
		s.AddChain(c)
	}
	return s.Dump()
}

// othersRules are like those of docker, kube-proxy and an administrator who
// writes the same rules as we do.
const othersRules = `*nat
:DOCKER - [0:0]
:KUBE-MARK-MASQ - [0:0]
:KUBE-POSTROUTING - [0:0]
:KUBE-SERVICES - [0:0]
-A PREROUTING -m comment --comment "kubernetes service portals" -j KUBE-SERVICES
-A PREROUTING -m addrtype --dst-type LOCAL -j DOCKER
-A POSTROUTING -m comment --comment "kubernetes postrouting rules" -j KUBE-POSTROUTING
-A POSTROUTING -s {other} ! -o docker0 -j MASQUERADE
-A POSTROUTING -s {net} ! -d {group} -j MASQUERADE
-A KUBE-MARK-MASQ -j MARK --set-xmark 0x4000/0x4000
-A KUBE-POSTROUTING -m mark ! --mark 0x4000/0x4000 -j RETURN
-A KUBE-POSTROUTING -j MARK --set-xmark 0x4000/0x0
-A KUBE-POSTROUTING -m comment --comment "kubernetes service traffic requiring \"SNAT\"" -j MASQUERADE --random-fully
COMMIT
*filter
:DOCKER-USER - [0:0]
:KUBE-FORWARD - [0:0]
-A FORWARD -m comment --comment "kubernetes forwarding rules" -j KUBE-FORWARD
-A FORWARD -j DOCKER-USER
-A FORWARD -o docker0 -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT
-A FORWARD -s {net} -j ACCEPT
-A FORWARD -d {net} -j ACCEPT
-A DOCKER-USER -j RETURN
-A KUBE-FORWARD -m conntrack --ctstate INVALID -j DROP
-A KUBE-FORWARD -m comment --comment "flanneld forward" -m mark --mark 0x4000/0x4000 -j ACCEPT
COMMIT
`

// othersTable is like firewalld's.
const othersTable = `
table inet firewalld {
	comment "rules for flannel-ipv4"
	chain filter_FORWARD {
		type filter hook forward priority filter + 10; policy accept;
		ct state { established, related } accept
		ip saddr 10.5.0.0/16 accept
	}
	chain nat_POSTROUTING {
		type nat hook postrouting priority srcnat + 10; policy accept;
		ip saddr 10.5.0.0/16 ip daddr != 224.0.0.0/4 masquerade
	}
}
`

// others adds the rules of other programs. After damages that flush, the caller
// repairs only ours.
func (w *world) others(t testing.TB, m making, f cidr.Family) {
	t.Helper()
	w.sh(t, wordsOf(f).iptables+"-restore --noflush <<'END'\n"+fill(othersRules, f)+
		"END\nnft -f - <<'END'"+othersTable+"END")
}

// allRules returns everything in the packet filter except our rules, as its own
// tools print it.
func (w *world) allRules(t testing.TB) string {
	t.Helper()
	var programs []string
	for _, f := range cidr.Families {
		for _, v := range []variant{variantNFT, variantLegacy} {
			programs = append(programs, wordsOf(f).iptables+"-"+string(v)+"-save")
		}
	}
	lines := strings.Split(w.sh(t, strings.Join(programs, "\n")+"\nnft -s list table inet firewalld"), "\n")
	lines = slices.DeleteFunc(lines, func(l string) bool {
		return strings.HasPrefix(l, "#") || strings.Contains(l, "FLANNEL-")
	})
	return strings.Join(lines, "\n")
}

// TestOthersAreLeftAlone: foreign rules stay the same byte for byte.
func TestOthersAreLeftAlone(t *testing.T) {
	eachMaking(t, func(t *testing.T, w *world, m making, f cidr.Family) {
		w.others(t, m, f)
		before := w.allRules(t)
		w.expect(t) // no foreign rule is taken for our rule
		chains := wanted(t, m.flavour, f)
		w.apply(t, ops(dataplane.Create, chains)...)
		if m.flavour == dataplane.IPTables {
			w.sh(t, fill("{iptables} -I FORWARD -j FLANNEL-FWD\n{iptables} -A FORWARD -j FLANNEL-FWD", f))
		}
		w.apply(t, ops(dataplane.Replace, chains)...)
		w.expect(t, chains...)
		if d := cmp.Diff(before, w.allRules(t)); d != "" {
			t.Errorf("foreign rules while ours are there (-before +after):\n%s", d)
		}
		w.apply(t, ops(dataplane.Delete, chains)...)
		if d := cmp.Diff(before, w.allRules(t)); d != "" {
			t.Errorf("foreign rules (-before +after):\n%s", d)
		}
	})
}
