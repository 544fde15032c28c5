package node

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/driver"
)

// The status lists the failures of a lane: of its last look, and of the ops of its last plan. The
// look counts as failed.
func TestFailuresInTheStatus(t *testing.T) {
	w := newWorld(t, vxlanConfig)
	w.applyErr = func(op dataplane.Op) error {
		if _, ok := op.Object.(dataplane.Addr); ok {
			return driver.ErrBusy
		}
		return nil
	}
	w.tell()
	w.pass(time.Second)
	if got := fmt.Sprint(w.status().Lanes[HostLane].Failures); !strings.Contains(got, "addr 10.5.") {
		t.Errorf("failures %s, want the address", got)
	}
	w = guarded(t)
	w.firewall.err = errors.New("nft: out of memory")
	w.pass(2 * time.Minute)
	lane := w.status().Lanes[FirewallLane]
	if got := fmt.Sprint(lane.Failures); got != "[nft: out of memory]" || lane.Work.FailedLooks == 0 {
		t.Errorf("failures %s, %d failed looks", got, lane.Work.FailedLooks)
	}
}

// The status names the firewall's tools, each once and in order.
func TestToolsInTheStatus(t *testing.T) {
	w := newWorld(t, dualConfig, withRules)
	w.firewall.bothFlavours()
	for i, f := range cidr.Families {
		w.firewall.facts.Tools[f].IPTables.About = []string{"iptables v1.8.11", "ip6tables v1.8.11"}[i]
		w.firewall.facts.Tools[f].NFTables.About = "nftables v1.1.3"
	}
	w.tell()
	w.pass(time.Second)
	w.wantReady()
	names := strings.Split(w.status().Firewall, ", ")
	for i := 1; i < len(names); i++ {
		if names[i-1] >= names[i] {
			t.Errorf("tools %q", names)
		}
	}
}

// Looks at the firewall name the node's networks: several nodes of a host share the chains.
func TestFirewallLooksNameTheNetworks(t *testing.T) {
	w := guarded(t)
	if got := fmt.Sprint(w.n.lanes[FirewallLane].part.look().Extent.Networks); got != "[10.5.0.0/16]" {
		t.Errorf("the look names %s", got)
	}
}

// The log says once that the network has been removed.
func TestRemovalIsLogged(t *testing.T) {
	w := named(t)
	w.unconfigured()
	w.tell()
	w.pass(time.Second)
	if got := w.logged("network-removed"); len(got) != 1 || !strings.Contains(got[0], "no longer holds the config") {
		t.Errorf("log %q", got)
	}
}

// A config that is written again with the same text changes nothing but its revision. Another text counts, even with
// the same revision, as after a restore of the datastore.
func TestConfigWrittenAgain(t *testing.T) {
	w := readyWorld(t)
	plans := len(w.plans)
	w.configure(vxlanConfig)
	w.pass(time.Minute)
	w.wantReady()
	if len(w.plans) != plans || w.n.network.doc.Revision != w.snap.Config.Revision {
		t.Errorf("%d plans, config of revision %d, want %d", len(w.plans)-plans, w.n.network.doc.Revision,
			w.snap.Config.Revision)
	}
	w.snap.Config.Data = []byte(strings.Replace(vxlanConfig, `"vxlan"`, `"vxlan","MTU":1300`, 1))
	w.rev++
	w.snap.Revision = w.rev
	w.tell()
	w.pass(time.Minute)
	if mtu := w.status().MTU; mtu != 1250 {
		t.Errorf("MTU %d of the overlay, want 50 less than the new config names", mtu)
	}
}

// A daemon whose datastore is away goes on with the saved leases by itself after a while, and says when the datastore
// answers again.
func TestSaysThatTheDatastoreAnswersAgain(t *testing.T) {
	w := readyWorld(t)
	w.pass(2 * time.Minute)
	w.events = nil
	w.start()
	w.run(Input{})
	w.pass(patience / 2)
	if w.status().Stale {
		t.Error("the node uses the saved leases at once")
	}
	w.pass(patience)
	if !w.status().Stale || w.count("store-synced") != 0 {
		t.Errorf("stale %t\n%s", w.status().Stale, w.log())
	}
	w.tell()
	w.pass(time.Second)
	if w.status().Stale || w.count("store-synced") != 1 {
		t.Errorf("stale %t\n%s", w.status().Stale, w.log())
	}
	w.events = nil
	w.start()
	w.tell()
	w.pass(time.Second)
	if w.count("store-synced") != 0 {
		t.Errorf("a datastore that was never away is said to answer again:\n%s", w.log())
	}
}

// The state file holds the end of the lease: each renewal moves that.
func TestStateFileFollowsRenewals(t *testing.T) {
	w := readyWorld(t)
	w.tell()
	w.pass(2 * time.Minute)
	before := w.files[StateFile]
	requests := len(w.requests)
	w.pass(24 * time.Hour)
	if w.asked(Renew, requests) == 0 {
		t.Fatalf("no renewal in a day:\n%s", w.log())
	}
	w.pass(2 * time.Minute)
	expires := w.status().Expires.Format(time.RFC3339)
	if strings.Contains(before, expires) || !strings.Contains(w.files[StateFile], expires) {
		t.Errorf("the state file does not hold the end of the lease, %s", expires)
	}
}

// A link that the kernel cannot change in place is made anew, but not one that is busy for a moment, and not a
// WireGuard device, which would lose its sessions.
func TestMakesAnewOnlyWhatCannotChange(t *testing.T) {
	for _, c := range []struct {
		name    string
		world   func(*testing.T) *world
		link    string
		err     error
		deleted bool
	}{
		{"vxlan, unsupported", readyWorld, "flannel.1", driver.ErrUnsupported, true},
		{"vxlan, busy", readyWorld, "flannel.1", driver.ErrBusy, false},
		{"wireguard, unsupported", func(t *testing.T) *world { return wireguardWorld(t) }, "flannel-wg",
			driver.ErrUnsupported, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := c.world(t)
			w.wantReady()
			l := w.host.Links[c.link]
			l.Up = false
			w.host.AddLink(l)
			deleted := false
			w.applyErr = func(op dataplane.Op) error {
				_, isLink := op.Object.(dataplane.Link)
				switch {
				case isLink && op.Verb == dataplane.Replace:
					return c.err
				case isLink && op.Verb == dataplane.Delete:
					deleted = true
				}
				return nil
			}
			w.pass(2 * time.Minute)
			if deleted != c.deleted {
				t.Errorf("deleted %t, want %t\n%s", deleted, c.deleted, w.log())
			}
		})
	}
}
