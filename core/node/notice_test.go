package node

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/flanneld/flannel/core/lease"
	"github.com/flanneld/flannel/core/probe"
)

// notices returns the names of all notices so far, in order.
func (w *world) notices() string {
	var names []string
	for _, e := range w.events {
		if name := e.Notice(); name != "" {
			names = append(names, name)
		}
	}
	return strings.Join(names, " ")
}

func (w *world) wantNotices(want string) {
	w.t.Helper()
	if got := w.notices(); got != want {
		w.t.Errorf("notices: %q, want %q\n%s", got, want, w.log())
	}
}

// TestSilenceOfOtherPeersIsANotice has one of two silent peers answer again, and then a
// third fall silent: the operator knows of two, and not of this one.
func TestSilenceOfOtherPeersIsANotice(t *testing.T) {
	p := newProber(t, vxlanConfig,
		vxlanPeer("10.5.1.0-24", 11), vxlanPeer("10.5.2.0-24", 12), vxlanPeer("10.5.3.0-24", 13))
	p.pass(2 * time.Minute)
	second := netip.MustParseAddr("10.5.2.0")
	p.dead[netip.MustParseAddr("10.5.1.0")], p.dead[second] = true, true
	p.pass(3 * longSilence)
	before := p.count("peers-silent")
	delete(p.dead, second)
	p.pass(longSilence)
	if got := p.count("peers-silent"); before == 0 || got != before {
		t.Errorf("%d notices, then %d:\n%s", before, got, p.log())
	}
	p.dead[netip.MustParseAddr("10.5.3.0")] = true
	p.pass(2 * longSilence)
	if got := p.count("peers-silent"); got != before+1 {
		t.Errorf("%d notices, want %d:\n%s", got, before+1, p.log())
	}
}

// TestLongSilenceIsANotice has a peer fall silent for a while, and then for long.
func TestLongSilenceIsANotice(t *testing.T) {
	p := newProber(t, vxlanConfig, vxlanPeer("10.5.1.0-24", 11), vxlanPeer("10.5.2.0-24", 12))
	first, second := netip.MustParseAddr("10.5.1.0"), netip.MustParseAddr("10.5.2.0")
	p.pass(2 * time.Minute)
	p.dead[first] = true
	p.pass(longSilence / 2)
	p.dead = map[netip.Addr]bool{}
	p.pass(longSilence)
	p.wantNotices("")

	p.dead[first] = true
	p.pass(longSilence + 3*time.Minute)
	p.wantNotices("PeersUnreachable")
	if want := "peers-silent: subnets without an answer for more than 10m0s: 1; the first is 10.5.1.0/24, " +
		"which does not answer at 10.5.1.0"; !strings.Contains(p.log(), want) {
		t.Errorf("no line %q:\n%s", want, p.log())
	}
	p.pass(5 * longSilence)
	p.wantNotices("PeersUnreachable") // one is enough
	p.dead[second] = true
	p.pass(longSilence + 3*time.Minute)
	p.wantNotices("PeersUnreachable PeersUnreachable")
	delete(p.dead, first)
	p.pass(longSilence)
	p.wantNotices("PeersUnreachable PeersUnreachable")
	delete(p.dead, second)
	p.pass(2 * time.Minute)
	p.wantNotices("PeersUnreachable PeersUnreachable PeersReachable")
}

// TestRecoveryIsLoggedAfterChangeOfMTU ends a fault together with a change of the MTU,
// so that the examination that finds the peer well has another target than the one
// that found the fault.
func TestRecoveryIsLoggedAfterChangeOfMTU(t *testing.T) {
	p := newProber(t, vxlanConfig, vxlanPeer("10.5.1.0-24", 11))
	p.small = 1400
	p.pass(2 * time.Minute)
	if got := p.count("probe-fault"); got != 1 {
		t.Fatalf("%d faults:\n%s", got, p.log())
	}
	p.configure(`{"Network":"10.5.0.0/16","Backend":{"Type":"vxlan","MTU":1450}}`)
	p.pass(2 * time.Minute)
	if r := p.n.Peers()[0].Ways[0].Probe; r.Finding != probe.Well || r.MTU != 1400 {
		t.Fatalf("%+v", r)
	}
	if got := p.count("probe-well"); got != 1 {
		t.Errorf("%d recoveries:\n%s", got, p.log())
	}
}

func TestLossOfLeaseIsANotice(t *testing.T) {
	w := newWorld(t, vxlanConfig)
	w.tell()
	w.pass(time.Second)
	w.wantReady()
	w.wantNotices("")
	own := w.own()
	w.remove(own.Key)
	taken := vxlanPeer(own.Key.String(), 66)
	w.put(taken)
	w.tell()
	w.pass(time.Second)
	w.wantNotices("LeaseLost")
}

// TestOverlapIsANoticeOfTheOwner has the datastore ignore a record for each reason: only
// the one that claims our own subnet concerns us.
func TestOverlapIsANoticeOfTheOwner(t *testing.T) {
	own := lease.Assigned{Key: mustKey("10.5.7.0-24")}
	w := newAssignedWorld(t, vxlanConfig, own)
	w.tell()
	w.pass(time.Second)
	w.wantReady()
	ignore := func(raw, key, reason string) {
		w.snap.Quarantined = append(slices.Clone(w.snap.Quarantined),
			lease.Quarantined{Raw: raw, Key: mustKey(key), Reason: reason})
		w.rev++
		w.snap.Revision = w.rev
		w.tell()
		w.pass(time.Second)
	}
	ignore("nodes/n8", "10.5.9.0-24", "node n8: pod CIDR 10.5.9.0/24 overlaps that of node n9")
	w.wantNotices("")
	ignore("nodes/n6", "10.5.6.0-23", "node n6: pod CIDR 10.5.6.0/23 overlaps that of node n1")
	w.wantNotices("SubnetOverlap")
	ignore("nodes/n8", "10.5.9.0-24", "node n8: another reason")
	w.wantNotices("SubnetOverlap")
}
