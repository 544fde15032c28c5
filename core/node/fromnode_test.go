package node

import (
	"errors"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/flanneld/flannel/core/driver"
	"github.com/flanneld/flannel/core/lease"
)

// newFromNodeWorld is an assignedWorld with --iface-from-node, on a host with two networks.
// The default route leaves through eth0, 192.168.64.3; eth1 has 10.9.0.3.
func newFromNodeWorld(t *testing.T, internal string) *assignedWorld {
	w := newAssignedWorld(t, vxlanConfig, lease.Assigned{Key: mustKey("10.5.7.0-24"), Node: "n1"})
	w.assigned.Internal = internalIP(internal)
	w.facts.Links = append(w.facts.Links, driver.Link{Name: "eth1", Index: 3, MTU: 9000, Up: true,
		Addrs: []driver.LinkAddr{{Prefix: netip.MustParsePrefix("10.9.0.3/24"), Permanent: true}}})
	w.start(fromNodeFlag)
	return w
}

func fromNodeFlag(o *Options) { o.Uplink.FromNode = true }

func internalIP(text string) lease.ByFamily { return lease.ByFamily{V4: netip.MustParseAddr(text)} }

// The node takes the interface of its InternalIP, follows a change of it, and an operator's
// annotation goes before it.
func TestUplinkFromNode(t *testing.T) {
	w := newFromNodeWorld(t, "10.9.0.3")
	published := func(want string) {
		t.Helper()
		w.tell()
		w.pass(time.Minute)
		w.wantReady()
		if got := w.snap.Leases[0].Attrs.PublicIP.String(); got != want {
			t.Errorf("published %s, want %s", got, want)
		}
	}
	published("10.9.0.3")
	w.assigned.Internal = internalIP("192.168.64.3")
	published("192.168.64.3")
	w.assigned.Detected = internalIP("10.9.0.3")
	published("10.9.0.3")
	w.assigned.Detected = lease.ByFamily{}
	published("192.168.64.3")
}

// An InternalIP that this host does not have is named, and the node waits for another one.
func TestUplinkFromNodeWithAForeignAddress(t *testing.T) {
	w := newFromNodeWorld(t, "10.9.0.99")
	w.tell()
	w.pass(time.Hour)
	reasons := strings.Join(w.status().Reasons, "; ")
	const want = "no interface has 10.9.0.99, the InternalIP of node n1"
	if w.exit != nil || len(w.requests) != 0 || !strings.Contains(reasons, want) {
		t.Fatalf("exit %v, requests %v, reasons %s", w.exit, w.requests, reasons)
	}
	w.assigned.Internal = internalIP("10.9.0.3")
	w.tell()
	w.pass(time.Minute)
	w.wantReady()
}

// While the API server cannot be read, the node stays with its address: in this run, and after
// a restart with the one that the last run published.
func TestUplinkFromNodeWithoutTheNode(t *testing.T) {
	w := newFromNodeWorld(t, "10.9.0.3")
	w.tell()
	w.pass(time.Minute)
	w.wantReady()
	w.assigned = lease.Assigned{Err: errors.New("there is no node n1")}
	w.tell()
	w.pass(time.Minute)
	if got := w.status().Uplink.Link; got != "eth1" {
		t.Errorf("the uplink is %s after the node object is gone", got)
	}
	w.down = true
	w.start(fromNodeFlag)
	w.tell()
	w.pass(time.Minute)
	if got := w.status().Uplink.Link; got != "eth1" {
		t.Errorf("the uplink is %q after a restart during an outage, log:\n%s", got, w.log())
	}
}

// An address that an operator publishes in the place of the host's, such as that of a NAT, does
// not hide the host's own address from a restart during an outage of the API server.
func TestUplinkFromNodeBehindNAT(t *testing.T) {
	w := newFromNodeWorld(t, "10.9.0.3")
	w.assigned.Published = internalIP("203.0.113.1")
	restartedOn := func(link string) {
		t.Helper()
		w.wantReady()
		w.down = true
		w.start(fromNodeFlag)
		w.tell()
		w.pass(time.Minute)
		if got := w.status().Uplink.Link; got != link {
			t.Errorf("the uplink is %q after a restart during an outage, want %s, log:\n%s", got, link, w.log())
		}
		w.down = false
		w.tell()
	}
	w.tell()
	w.pass(time.Minute)
	restartedOn("eth1")

	// The next address comes to the host later than into the node object, whose record stays.
	w.assigned.Internal = internalIP("192.168.64.4")
	w.tell()
	w.pass(time.Minute)
	added := driver.LinkAddr{Prefix: netip.MustParsePrefix("192.168.64.4/24"), Permanent: true}
	w.facts.Links[0].Addrs = append(w.facts.Links[0].Addrs, added)
	w.pass(time.Minute)
	restartedOn("eth0")
}
