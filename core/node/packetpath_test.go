package node

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/flanneld/flannel/core/dataplane"
)

// How packets are carried is said when it is known and when it changes, and no
// oftener; the status has it with what was dropped.
func TestPacketPath(t *testing.T) {
	w := newWorld(t, `{"Network":"10.5.0.0/16","Backend":{"Type":"udp"}}`)
	w.tell()
	w.pass(time.Second)
	w.wantReady()
	if w.count("packet-path") != 0 {
		t.Errorf("told of a packet path that the host did not report:\n%s", w.log())
	}
	gso := dataplane.Running{Tier: "gso", Reason: "the kernel has every feature", Drops: map[string]uint64{"spoofed": 3}}
	w.host.Running = map[string]dataplane.Running{"flannel0": gso}
	w.pass(5 * time.Minute)
	if w.count("packet-path") != 1 {
		t.Errorf("told of the packet path %d times, want once:\n%s", w.count("packet-path"), w.log())
	}
	if d := cmp.Diff([]PacketPath{{"flannel0", gso}}, w.status().PacketPaths); d != "" {
		t.Errorf("status (-want +got):\n%s", d)
	}
	w.host.Running = map[string]dataplane.Running{"flannel0": {Tier: "plain", Reason: "the kernel refused"}}
	w.pass(time.Minute)
	if last := w.events[len(w.events)-1]; w.count("packet-path") != 2 ||
		last.Text != "flannel0: packets go by the plain tier: the kernel refused" {
		t.Errorf("after a change, last event %v:\n%s", last, w.log())
	}
	w.wantReady()
}
