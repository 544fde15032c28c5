package node

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/driver"
	"github.com/flanneld/flannel/core/lease"
)

func gatewayPeer(key string, n byte) lease.Lease {
	return lease.Lease{Key: mustKey(key), ID: int64(n), Attrs: lease.Attrs{
		PublicIP: netip.AddrFrom4([4]byte{192, 168, 64, n}), BackendType: "host-gw"}}
}

// While the store did not follow, the node changed its network and left deletes for later. When the store follows
// again, a look at the firewall ends before one at the host.
func TestForgetsNoNetworkWhoseRoutesAreLeft(t *testing.T) {
	w := newWorld(t, `{"Network":"10.5.0.0/16","Backend":{"Type":"host-gw"}}`, withRules)
	w.firewall.bothFlavours()
	w.put(gatewayPeer("10.5.99.0-24", 99))
	w.tell()
	w.pass(time.Minute)
	w.tell()
	w.pass(time.Minute)
	w.wantReady()
	old := dataplane.RouteKey{Dst: netip.MustParsePrefix("10.5.99.0/24")}
	if _, has := w.host.Routes.Get(old); !has {
		t.Fatalf("no route:\n%s", w.host.Dump())
	}
	w.loose = true
	w.remove(mustKey("10.5.99.0-24"))
	w.put(gatewayPeer("10.6.99.0-24", 99))
	w.configure(`{"Network":"10.6.0.0/16","Backend":{"Type":"host-gw"}}`)
	w.pass(time.Minute)
	w.tell()
	w.pass(time.Minute)
	if _, has := w.host.Routes.Get(old); !has {
		t.Fatalf("the former route has gone already:\n%s", w.host.Dump())
	}
	// a look at the firewall alone is under way
	var r Effects
	for {
		at := w.n.wake()
		w.now = at
		w.n.Step(w.now, Input{})
		r = w.n.Ready()
		w.events = append(w.events, r.Events...)
		if r.Lanes[FirewallLane].Look != nil && r.Lanes[HostLane].Look == nil {
			break
		}
		if in, some := w.perform(r); some {
			w.run(in)
		}
	}
	in, _ := w.perform(r)
	w.loose = false
	in.View = w.view()
	w.run(in) // the store follows, and the look at the firewall has ended
	w.pass(5 * time.Minute)
	w.tell()
	w.pass(5 * time.Minute)
	if _, has := w.host.Routes.Get(old); has {
		t.Errorf("the former route stays; the node owns %v, ready %t:\n%s", w.n.host.networks, w.status().Ready,
			w.host.Dump())
	}
}

// A look at the firewall under way when the network changes: the host is as desired first, and the lane of the firewall
// does not know yet that its rules are for another network.
func TestForgetsNoNetworkWhoseRulesAreLeft(t *testing.T) {
	w := newWorld(t, `{"Network":"10.5.0.0/16","Backend":{"Type":"host-gw"}}`, withRules)
	w.firewall.bothFlavours()
	w.tell()
	w.pass(time.Minute)
	w.tell()
	w.pass(time.Minute)
	w.wantReady()
	w.firewall.busy = true
	w.pass(10 * time.Second) // a look at the firewall is under way
	w.configure(`{"Network":"10.6.0.0/16","Backend":{"Type":"host-gw"}}`)
	w.pass(2 * time.Second)
	w.tell()
	w.pass(2 * time.Second)
	if len(w.n.host.networks) != 2 {
		t.Errorf("the node owns %v while its rules are for the former network", w.n.host.networks)
	}
	w.firewall.busy = false
	seen := driver.Observation{Facts: w.firewall.facts, State: w.firewall.chains.Clone()}
	w.run(looked(FirewallLane, Looked{Seen: seen}))
	w.pass(5 * time.Minute)
	w.tell()
	w.pass(5 * time.Minute)
	if strings.Contains(w.chains(), "10.5.") {
		t.Errorf("rules of the former network stay, ready %t:\n%s", w.status().Ready, w.chains())
	}
}
