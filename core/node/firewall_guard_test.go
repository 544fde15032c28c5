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
	"github.com/flanneld/flannel/core/node/transition"
)

// guardIs compares the chain at the hook input, and what the node says of it.
func (w *world) guardIs(t *testing.T, want string, inForce bool) {
	t.Helper()
	c := w.firewall.chains.Chains[dataplane.ChainKey{Flavour: dataplane.IPTables, Hook: dataplane.Input}]
	if string(c.Rules) != want || w.n.transition.Guarded(w.n.facts()) != inForce {
		t.Errorf("chain %q, want %q; in force %t, want %t", c.Rules, want, w.n.transition.Guarded(w.n.facts()), inForce)
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
	w.pass(10*time.Second + transition.PrepareFor)
	w.tell()
	w.pass(transition.Linger + 10*time.Second) // for packets under way from those that have followed
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

// TestLostGuardEndsReadiness: another program removes the guard, and the host refuses a new one.
func TestLostGuardEndsReadiness(t *testing.T) {
	w := guarding(t, func(*Options) {}, func(*fakeFirewall) {})
	w.wantReady()
	clear(w.firewall.chains.Chains)
	w.firewall.refuse = func(dataplane.Op) error { return driver.ErrDenied }
	w.run(hint(FirewallLane))
	w.pass(2 * time.Second)
	s := w.status()
	if s.Ready || !strings.Contains(strings.Join(s.Reasons, "\n"), "firewall: replace iptables ipv4 input") {
		t.Errorf("ready %t, reasons %q", s.Ready, s.Reasons)
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
			if w.n.Status().Change != nil {
				t.Errorf("the change goes on: %+v", w.n.Status().Change)
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
			w.pass(transition.GuardWithin)
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
		if link, ok := op.Object.(dataplane.Link); ok && link.Name == "flannel.1" && !w.n.transition.Guarded(w.n.facts()) {
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

// TestGuardGoesAfterTheDevice: at the end of a change the guard stays until the unencrypted device has gone, also if
// the kernel does not delete that for a while, the daemon is started again meanwhile, or the network is removed.
func TestGuardGoesAfterTheDevice(t *testing.T) {
	ended := strings.TrimSuffix(wireguardConfig, "}") + `,"Formerly":[]}`
	for name, restarts := range map[string]bool{"in one run": false, "with a restart": true} {
		t.Run(name, func(t *testing.T) {
			w := guarding(t, func(*Options) {}, func(f *fakeFirewall) {})
			isLink := func(op dataplane.Op) bool { l, ok := op.Object.(dataplane.Link); return ok && l.Name == "flannel.1" }
			stuck := true
			w.applyErr = func(op dataplane.Op) error {
				if isLink(op) && op.Verb == dataplane.Delete && stuck {
					return errors.New("device or resource busy")
				}
				return nil
			}
			w.firewall.refuse = func(op dataplane.Op) error {
				_, has := w.host.Links["flannel.1"]
				if c := op.Object.(dataplane.Chain); c.Hook == dataplane.Input && has &&
					(op.Verb == dataplane.Delete || !strings.Contains(string(c.Rules), "udp 8472 drop")) {
					t.Errorf("while the device exists: %s", op)
				}
				return nil
			}
			w.configure(ended)
			w.pass(transition.Linger + 10*time.Second)
			w.wantDevice("while the kernel refuses", true)
			if restarts {
				w.pass(time.Minute) // the state file is written
				w.start()
				w.tell()
				w.pass(time.Minute)
				w.wantDevice("after the restart", true)
			}
			if w.n.transition.Set().Has(vxlanID) || w.chains() == "" {
				t.Errorf("the change is not over, or nothing is left of the guard: %q", w.chains())
			}
			stuck = false
			w.pass(time.Minute)
			w.wantDevice("at the end", false)
			if w.chains() != "" {
				t.Errorf("at the end: %s", w.chains())
			}
		})
	}
}

// TestNoOpenDeviceWithoutAGuard: an unencrypted device that exists before its guard goes as soon as the node has turned
// out to be unable to make one, and comes back with the guard.
func TestNoOpenDeviceWithoutAGuard(t *testing.T) {
	for name, c := range harms {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, vxlanConfig)
			w.firewall.bothFlavours()
			usable := w.firewall.facts
			w.facts.Keys = map[dataplane.SecretName]driver.Key{dataplane.WireGuardKey: {Public: dataplane.PublicKey{7}}}
			w.put(vxlanPeer("10.5.3.0-24", 4))
			w.tell()
			w.pass(time.Second)
			c.harm(&w.firewall)
			w.run(hint(FirewallLane))
			w.configure(wireguardConfig)
			w.pass(transition.PrepareFor - time.Second)
			w.wantDevice("while the node prepares", true)
			w.tell()
			w.pass(2 * time.Second)
			w.wantDevice("without a guard", false)
			w.firewall.facts, w.firewall.refuse = usable, nil
			w.run(hint(FirewallLane))
			w.pass(20 * time.Second)
			w.wantDevice("with a guard", true)
			w.wantRouteBy("with a guard", "10.5.3.0/24", "flannel.1")
		})
	}
}

// TestRebootIsGuarded: after a reboot in the middle of a change, the node makes the unencrypted device after the guard.
func TestRebootIsGuarded(t *testing.T) {
	w := guarding(t, func(*Options) {}, func(*fakeFirewall) {})
	w.pass(time.Minute) // the state file is written
	w.host = dataplane.NewState()
	clear(w.firewall.chains.Chains)
	w.applyErr = func(op dataplane.Op) error {
		if link, ok := op.Object.(dataplane.Link); ok && link.Name == "flannel.1" && len(w.firewall.chains.Chains) == 0 {
			t.Errorf("without a guard: %s", op)
		}
		return nil
	}
	w.start()
	w.tell()
	w.pass(20 * time.Second)
	w.wantDevice("after the guard", true)
}

// TestGuardComesBeforeItIsNeeded: the guard is in force when the node begins to use the encrypting backend.
func TestGuardComesBeforeItIsNeeded(t *testing.T) {
	w := newWorld(t, vxlanConfig)
	w.firewall.bothFlavours()
	w.facts.Keys = map[dataplane.SecretName]driver.Key{dataplane.WireGuardKey: {Public: dataplane.PublicKey{7}}}
	p := vxlanPeer("10.5.3.0-24", 4)
	w.put(p)
	w.tell()
	w.pass(time.Second)
	w.configure(wireguardConfig)
	w.pass(transition.PrepareFor - time.Second)
	w.guardIs(t, "of 10.5.0.0/16 in lo return; of 10.5.0.0/16 udp 8472 from "+p.Attrs.PublicIP.String()+
		"/32 return; of 10.5.0.0/16 udp 8472 drop", true)
	if len(w.n.transition.Set().Guarded()) != 0 {
		t.Error("the node does not prepare")
	}
}
