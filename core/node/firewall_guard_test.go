package node

import (
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/driver"
	"github.com/flanneld/flannel/core/firewall"
)

// keepsVXLAN makes a node keep its former device for peers at these addresses.
func (w *world) keepsVXLAN(from ...string) {
	var addrs []netip.Addr
	for _, text := range from {
		addrs = append(addrs, netip.MustParseAddr(text))
	}
	w.n.firewall.guards[cidr.V4] = []firewall.Guard{{Proto: dataplane.ProtoUDP, Port: 8472, From: addrs}}
	w.run(Input{})
	w.pass(time.Second)
}

// guardIs compares the chain at the hook input, and what the node says of it.
func (w *world) guardIs(t *testing.T, want string, inForce bool) {
	t.Helper()
	c := w.firewall.chains.Chains[dataplane.ChainKey{Flavour: dataplane.IPTables, Hook: dataplane.Input}]
	if string(c.Rules) != want || w.n.guardsInForce() != inForce {
		t.Errorf("chain %q, want %q; in force %t, want %t", c.Rules, want, w.n.guardsInForce(), inForce)
	}
}

// TestGuardsAreKept: the chain follows the guards, is there without the operator's rules, and goes with the last guard.
func TestGuardsAreKept(t *testing.T) {
	const head, tail = "of 10.5.0.0/16 in lo return; ", "of 10.5.0.0/16 udp 8472 drop"
	for name, mod := range map[string]func(*Options){"rules": withRules, "no rules": func(*Options) {}} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, vxlanConfig, mod)
			w.firewall.bothFlavours()
			w.tell()
			w.wantReady()
			others := len(w.firewall.chains.Chains)
			w.guardIs(t, "", true)
			w.keepsVXLAN("192.168.64.2", "192.168.64.3")
			w.guardIs(t, head+"of 10.5.0.0/16 udp 8472 from 192.168.64.2/31 return; "+tail, true)
			w.keepsVXLAN("192.168.64.3")
			w.guardIs(t, head+"of 10.5.0.0/16 udp 8472 from 192.168.64.3/32 return; "+tail, true)
			w.keepsVXLAN()
			w.guardIs(t, head+tail, true)
			clear(w.firewall.chains.Chains)
			w.run(hint(FirewallLane))
			w.pass(2 * time.Second)
			w.guardIs(t, head+tail, true)
			w.n.firewall.guards = [2][]firewall.Guard{}
			w.run(Input{})
			w.pass(2 * time.Second)
			w.guardIs(t, "", true)
			if n := len(w.firewall.chains.Chains); n != others {
				t.Errorf("%d chains, want %d:\n%s", n, others, w.chains())
			}
			w.wantReady()
		})
	}
}

// TestGuardsThatCannotBe: a host that cannot hold the guard says so in a note, and stays ready.
func TestGuardsThatCannotBe(t *testing.T) {
	denied := errors.New("operation not permitted")
	for name, c := range map[string]struct {
		harm func(*fakeFirewall)
		note string
	}{
		"no tool": {func(f *fakeFirewall) { f.facts.Tools = [2]driver.Tools{} },
			"no packet filter keeps IPv4 packets of udp 8472 from other hosts than peers"},
		"no right": {func(f *fakeFirewall) { f.refuse = func(dataplane.Op) error { return denied } },
			"operation not permitted"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, vxlanConfig)
			w.firewall.bothFlavours()
			c.harm(&w.firewall)
			w.tell()
			w.keepsVXLAN("192.168.64.2")
			w.pass(10 * time.Second)
			w.guardIs(t, "", false)
			said := func(note string) bool { return strings.Contains(note, c.note) }
			if notes := w.status().Notes; !slices.ContainsFunc(notes, said) {
				t.Errorf("notes %q", notes)
			}
			w.wantReady()
		})
	}
}
