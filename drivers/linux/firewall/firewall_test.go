package firewall

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/driver"
)

// TestReadsBack makes, replaces and deletes chains in every way there is. A
// deleted chain leaves neither chain nor jump behind (interop F2).
func TestReadsBack(t *testing.T) {
	eachMaking(t, func(t *testing.T, w *world, m making, f cidr.Family) {
		w.expect(t)
		chains := wanted(t, m.flavour, f)
		w.apply(t, ops(dataplane.Create, chains)...)
		w.expect(t, chains...)
		w.apply(t, ops(dataplane.Replace, chains)...)
		w.expect(t, chains...)
		w.apply(t, ops(dataplane.Delete, chains[:1])...)
		w.expect(t, chains[1:]...)
		w.apply(t, ops(dataplane.Delete, chains[1:])...)
		w.expect(t)
	})
}

// TestContract checks names, comments and order, which other programs read
// (interop 7.1, 7.2).
func TestContract(t *testing.T) {
	w := newWorld(t, variantNFT)
	w.apply(t, ops(dataplane.Create, append(wanted(t, dataplane.IPTables, cidr.V4),
		wanted(t, dataplane.NFTables, cidr.V6)...))...) // and those of guards, which upstream does not have
	var have []string
	for line := range strings.Lines(w.sh(t, "iptables-save")) {
		if strings.HasPrefix(line, "-A") {
			have = append(have, strings.Replace(line, "-p 4 ", "-p ipencap ", 1)) // without /etc/protocols
		}
	}
	slices.Sort(have)
	const iptables = `-A FLANNEL-FWD -d 10.5.0.0/16 -m comment --comment "flanneld forward" -j ACCEPT
-A FLANNEL-FWD -s 10.5.0.0/16 -m comment --comment "flanneld forward" -j ACCEPT
-A FLANNEL-INPUT -i lo -m comment --comment "flanneld guard 10.5.0.0/16" -j RETURN
-A FLANNEL-INPUT -p ipencap -m comment --comment "flanneld guard 10.5.0.0/16" -j DROP
-A FLANNEL-INPUT -p udp -m udp --dport 8472 -m comment --comment "flanneld guard 10.5.0.0/16" -j DROP
-A FLANNEL-INPUT -s 10.5.1.0/32 -p ipencap -m comment --comment "flanneld guard 10.5.0.0/16" -j RETURN
-A FLANNEL-INPUT -s 10.5.1.0/32 -p udp -m udp --dport 8472 -m comment --comment "flanneld guard 10.5.0.0/16" -j RETURN
-A FLANNEL-INPUT -s 10.5.2.2/32 -p ipencap -m comment --comment "flanneld guard 10.5.0.0/16" -j RETURN
-A FLANNEL-INPUT -s 10.5.2.2/32 -p udp -m udp --dport 8472 -m comment --comment "flanneld guard 10.5.0.0/16" -j RETURN
-A FLANNEL-POSTRTG ! -s 10.5.0.0/16 -d 10.5.0.0/16 -m comment --comment "flanneld masq" -j MASQUERADE --random-fully
-A FLANNEL-POSTRTG ! -s 10.5.0.0/16 -d 10.5.1.0/24 -m comment --comment "flanneld masq" -j RETURN
-A FLANNEL-POSTRTG -m mark --mark 0x4000/0x4000 -m comment --comment "flanneld masq" -j RETURN
-A FLANNEL-POSTRTG -s 10.5.0.0/16 ! -d 224.0.0.0/4 -m comment --comment "flanneld masq" -j MASQUERADE --random-fully
-A FLANNEL-POSTRTG -s 10.5.0.0/16 -d 10.5.1.0/24 -m comment --comment "flanneld masq" -j RETURN
-A FLANNEL-POSTRTG -s 10.5.1.0/24 -d 10.5.0.0/16 -m comment --comment "flanneld masq" -j RETURN
-A FORWARD -m comment --comment "flanneld forward" -j FLANNEL-FWD
-A INPUT -p ipencap -m comment --comment "flanneld guard" -j FLANNEL-INPUT
-A INPUT -p udp -m udp --dport 8472 -m comment --comment "flanneld guard" -j FLANNEL-INPUT
-A POSTROUTING -m comment --comment "flanneld masq" -j FLANNEL-POSTRTG
`
	if d := cmp.Diff(iptables, strings.Join(have, "")); d != "" {
		t.Errorf("iptables, sorted (-want +have):\n%s", d)
	}
	table := w.sh(t, "nft -y list table ip6 flannel-ipv6")
	for _, want := range []string{
		`comment "rules for flannel-ipv6"`, `comment "chain to accept flannel ` +
			`traffic"`, `comment "chain to manage traffic masquerading by flannel"`,
		"type filter hook forward priority 0; policy accept;", "type nat hook postrouting priority 100; policy accept;",
		"ip6 saddr fd00:5::/48 ip6 daddr != ff00::/8 masquerade fully-random\n",
	} {
		if !strings.Contains(table, want) {
			t.Errorf("want %s in\n%s", want, table)
		}
	}
}

// TestUnreadable: a rule that nft puts into a table of iptables can keep
// iptables-save from reading it. That stops only iptables.
func TestUnreadable(t *testing.T) {
	w := newWorld(t, variantNFT)
	w.sh(t, "iptables -N FLANNEL-FWD\nnft 'add rule ip filter FLANNEL-FWD quota over 5 mbytes drop'")
	about := w.facts(t).Tools[cidr.V4].IPTables
	if want := (driver.Tool{About: "the tables of iptables cannot be read: iptables-save: Table `filter' is " +
		"incompatible, use 'nft' tool."}); about != want {
		t.Errorf("iptables: %+v, want %+v", about, want)
	}
	for _, op := range ops(dataplane.Replace, wanted(t, dataplane.IPTables, cidr.V4)) {
		if err := w.f.Apply(t.Context(), []dataplane.Op{op})[0]; !errors.Is(err, driver.ErrUnsupported) {
			t.Errorf("error %v", err)
		}
	}
	if !w.facts(t).Tools[cidr.V6].IPTables.Usable {
		t.Error("ip6tables suffers, too")
	}
	chains := wanted(t, dataplane.NFTables, cidr.V4)
	w.apply(t, ops(dataplane.Create, chains)...)
	w.expect(t, chains...)
	w.sh(t, "nft flush chain ip filter FLANNEL-FWD")
	if about := w.facts(t).Tools[cidr.V4].IPTables; !about.Usable {
		t.Errorf("iptables afterwards: %+v", about)
	}
}
