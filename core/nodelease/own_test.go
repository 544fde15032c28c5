package nodelease

import (
	"net/netip"
	"testing"

	"github.com/flanneld/flannel/core/lease"
)

// Of each family the first InternalIP counts, and odd texts do not.
func TestInternal(t *testing.T) {
	v4, v6 := netip.MustParseAddr("192.168.64.1"), netip.MustParseAddr("fd00:64::1")
	for text, want := range map[string]lease.ByFamily{
		"":                                     {},
		"192.168.64.1":                         {V4: v4},
		"192.168.64.1,fd00:64::1,192.168.65.1": {V4: v4, V6: v6},
		"::ffff:192.168.64.1":                  {V4: v4},
		"ip-1,fe80::1%eth0,fd00:64::1":         {V6: v6},
	} {
		n := Node{InternalIPs: text}
		if got := n.internal(); got != want {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
}

// An assignment names the node object, as long as there is one.
func TestAssignedNamesItsNode(t *testing.T) {
	table := tableOf(t, onlyV4)
	table.Set(peer(2), 10)
	if _, a := table.Snapshot(); a.Node != "" {
		t.Errorf("without its object the node is %q", a.Node)
	}
	table.Set(Node{Name: "n1", UID: "u", PodCIDRs: "10.244.1.0/24"}, 11)
	if _, a := table.Snapshot(); a.Node != "n1" {
		t.Errorf("with its object the node is %q", a.Node)
	}
}
