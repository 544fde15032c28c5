package node

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/driver"
	"github.com/flanneld/flannel/core/lease"
)

// guardIs compares the chain at the hook input, and what the node says of it.
func (w *world) guardIs(t *testing.T, want string, inForce bool) {
	t.Helper()
	c := w.firewall.chains.Chains[dataplane.ChainKey{Flavour: dataplane.IPTables, Hook: dataplane.Input}]
	if string(c.Rules) != want || w.n.guardsInForce() != inForce {
		t.Errorf("chain %q, want %q; in force %t, want %t", c.Rules, want, w.n.guardsInForce(), inForce)
	}
}

// encrypted returns the record of a peer that has followed the change from vxlan to wireguard.
func encrypted(before lease.Lease, key string) lease.Lease {
	after := before
	after.Attrs.Ways.Former = []lease.FormerWay{{Backend: json.RawMessage(vxlanID), Data: before.Attrs.BackendData}}
	after.Attrs.BackendType, after.Attrs.BackendData = "wireguard", []byte(`{"PublicKey":"`+key+`"}`)
	return after
}

// guarding returns the world of a node that has left vxlan for wireguard with one peer. Another peer has not followed.
func guarding(t *testing.T, mod func(*Options), harm func(*fakeFirewall)) *world {
	t.Helper()
	w := newWorld(t, vxlanConfig, mod)
	w.firewall.bothFlavours()
	harm(&w.firewall)
	w.facts.Keys = map[dataplane.SecretName]driver.Key{dataplane.WireGuardKey: {Public: dataplane.PublicKey{7}}}
	p := vxlanPeer("10.5.3.0-24", 4)
	w.put(p)
	w.put(vxlanPeer("10.5.4.0-24", 5))
	w.tell()
	w.pass(time.Second)
	w.guardIs(t, "", true)
	w.configure(wireguardConfig)
	w.pass(time.Second)
	w.put(encrypted(p, "CQAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="))
	w.tell()
	w.pass(10*time.Second + prepareFor)
	w.tell()
	w.pass(linger + 10*time.Second) // for packets under way from those that have followed
	return w
}

// TestGuardsAreKept: the chain admits the peers that have not followed, is there without the operator's rules, comes
// back after a flush, and admits no peer when all have followed.
func TestGuardsAreKept(t *testing.T) {
	for name, mod := range map[string]func(*Options){"rules": withRules, "no rules": func(*Options) {}} {
		t.Run(name, func(t *testing.T) {
			w := guarding(t, mod, func(*fakeFirewall) {})
			laggard := vxlanPeer("10.5.4.0-24", 5)
			const head, tail = "of 10.5.0.0/16 in lo return; ", "of 10.5.0.0/16 udp 8472 drop"
			admits := "of 10.5.0.0/16 udp 8472 from " + laggard.Attrs.PublicIP.String() + "/32 return; "
			w.guardIs(t, head+admits+tail, true)
			clear(w.firewall.chains.Chains)
			w.run(hint(FirewallLane))
			w.pass(2 * time.Second)
			w.guardIs(t, head+admits+tail, true)
			w.put(encrypted(laggard, "CgAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="))
			w.tell()
			w.pass(5 * time.Second)
			w.guardIs(t, head+tail, true)
		})
	}
}

// harms are the ways in which a host cannot hold a guard, with what the node says of each.
var harms = map[string]struct {
	harm func(*fakeFirewall)
	note string
}{
	"no tool": {func(f *fakeFirewall) { f.facts.Tools = [2]driver.Tools{} },
		"no packet filter keeps IPv4 packets of udp 8472 from other hosts than peers: IPv4: neither iptables nor nft can " +
			"be used: ; ; install one of them"},
	"no right": {func(f *fakeFirewall) {
		f.refuse = func(dataplane.Op) error { return errors.New("operation not permitted") }
	}, "operation not permitted"},
}

// TestGuardsThatCannotBe: a host that cannot hold the guard says so in a note, and ends the unencrypted device within
// a minute. A new node does not open it.
func TestGuardsThatCannotBe(t *testing.T) {
	for name, c := range harms {
		t.Run(name, func(t *testing.T) {
			w := guarding(t, func(*Options) {}, c.harm)
			w.pass(20 * time.Second)
			w.wantDevice("a minute later", false)
			w.wantReady()
			w.wantOffered("a minute later", false)
			if log := w.logged("backend-given-up"); len(log) != 1 || !strings.Contains(log[0], c.note) {
				t.Errorf("log %q", log)
			}
			if w.n.change() != nil {
				t.Errorf("the change goes on: %+v", w.n.change())
			}
		})
		t.Run(name+", new node", func(t *testing.T) {
			w := newWorld(t, strings.TrimSuffix(wireguardConfig, "}")+`,"Formerly":[{"Type":"vxlan"}]}`)
			w.firewall.bothFlavours()
			c.harm(&w.firewall)
			joins(w)
			w.wantDevice("before the guard", false)
			said := func(note string) bool { return strings.Contains(note, c.note) }
			if notes := w.status().Notes; !slices.ContainsFunc(notes, said) {
				t.Errorf("notes %q", notes)
			}
			w.pass(guardWithin)
			w.wantReady()
			w.wantDevice("a minute later", false)
			if log := w.logged("backend-given-up"); len(log) != 1 || !strings.Contains(log[0], c.note) {
				t.Errorf("log %q", log)
			}
		})
	}
}

// joins lets a new node join a cluster in which one peer has not followed the change from vxlan to wireguard.
func joins(w *world) {
	w.facts.Keys = map[dataplane.SecretName]driver.Key{dataplane.WireGuardKey: {Public: dataplane.PublicKey{7}}}
	w.put(vxlanPeer("10.5.4.0-24", 5))
	w.tell()
	w.pass(10 * time.Second)
	w.tell()
	w.pass(time.Second)
}

// TestNewNodeIsGuarded: a node that joins in the middle of a change makes the unencrypted device after the guard.
func TestNewNodeIsGuarded(t *testing.T) {
	w := newWorld(t, strings.TrimSuffix(wireguardConfig, "}")+`,"Formerly":[{"Type":"vxlan"}]}`)
	w.firewall.bothFlavours()
	w.applyErr = func(op dataplane.Op) error {
		if link, ok := op.Object.(dataplane.Link); ok && link.Name == "flannel.1" && !w.n.guardsInForce() {
			t.Errorf("without a guard: %s", op)
		}
		return nil
	}
	joins(w)
	w.wantDevice("after the guard", true)
	w.wantReady()
	w.wantOffered("after the guard", true)
	w.wantRouteBy("after the guard", "10.5.4.0/24", "flannel.1")
}
