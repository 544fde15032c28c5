package node

import (
	"encoding/json"
	"errors"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/flanneld/flannel/core/lease"
)

// assignedWorld is a world whose store hands the subnets out.
type assignedWorld struct {
	*world
	assigned lease.Assigned
}

func newAssignedWorld(t *testing.T, conf string, a lease.Assigned) *assignedWorld {
	w := &assignedWorld{world: newWorld(t, conf), assigned: a}
	w.answer = func(req Request) (lease.Grant, error) {
		if req.Verb != Create && req.Verb != Update {
			t.Errorf("request to %s", req.Verb)
		}
		return lease.Grant{Lease: w.put(lease.Lease{Key: keyOf(req), Attrs: req.Attrs})}, nil
	}
	w.decorate = func(v *lease.View) { a := w.assigned; v.Assigned = &a }
	return w
}

var errNoPodCIDR = errors.New("node n1 has no pod CIDR yet")

// A node without a subnet waits, and takes the one that comes, whatever its
// length and wherever in the network it lies.
func TestAssignedWaitsAndTakes(t *testing.T) {
	w := newAssignedWorld(t, `{"Network":"10.5.0.0/29","Backend":{"Type":"vxlan"}}`, lease.Assigned{Err: errNoPodCIDR})
	w.tell()
	w.pass(time.Hour)
	if len(w.requests) != 0 || w.exit != nil || w.count("no-subnet") != 1 {
		t.Fatalf("requests %v, exit %v, log:\n%s", w.requests, w.exit, w.log())
	}
	if reasons := strings.Join(w.status().Reasons, "; "); !strings.Contains(reasons, errNoPodCIDR.Error()) {
		t.Errorf("reasons: %s", reasons)
	}
	w.assigned = lease.Assigned{Key: mustKey("10.5.0.0-30")}
	w.tell()
	w.pass(time.Second)
	w.wantReady()
	if own := w.own(); own.Key != w.assigned.Key {
		t.Errorf("own record %v", own)
	}
	requests := len(w.requests)
	w.pass(48 * time.Hour)
	if len(w.requests) != requests {
		t.Errorf("requests of an idle node: %v", w.requests[requests:])
	}
}

// A record that is already as wanted needs no request.
func TestAssignedAdopts(t *testing.T) {
	w := newAssignedWorld(t, vxlanConfig, lease.Assigned{Key: mustKey("10.5.7.0-24")})
	w.tell()
	w.pass(time.Second)
	w.wantReady()
	requests := len(w.requests)
	w.start()
	w.tell()
	w.pass(time.Second)
	w.wantReady()
	if len(w.requests) != requests {
		t.Errorf("a restart asked for %v", w.requests[requests:])
	}
}

func TestAssignedOutsideTheNetwork(t *testing.T) {
	w := newAssignedWorld(t, vxlanConfig, lease.Assigned{Key: mustKey("10.6.7.0-24")})
	w.tell()
	w.pass(time.Second)
	want := "lease: subnet 10.6.7.0-24: 10.6.7.0/24 is outside the network 10.5.0.0/16"
	if reasons := strings.Join(w.status().Reasons, "; "); len(w.requests) != 0 || !strings.Contains(reasons, want) {
		t.Errorf("requests %v, reasons %s", w.requests, reasons)
	}
}

// The node moves to another subnet, and its host with it.
func TestAssignedAnotherSubnet(t *testing.T) {
	w := newAssignedWorld(t, vxlanConfig, lease.Assigned{Key: mustKey("10.5.7.0-24")})
	w.tell()
	w.pass(time.Second)
	w.wantReady()
	w.assigned = lease.Assigned{Key: mustKey("10.5.8.0-24")}
	w.remove(mustKey("10.5.7.0-24"))
	w.tell()
	w.pass(time.Second)
	w.wantReady()
	if w.count("lease-reassigned") != 1 || w.count("lease-lost") != 0 ||
		!strings.Contains(w.files[SubnetFile], "FLANNEL_SUBNET=10.5.8.1/24\n") {
		t.Errorf("subnet file %s, log:\n%s", w.files[SubnetFile], w.log())
	}
}

// A node whose object is gone keeps its data plane and is not ready; it comes
// back with the object.
func TestOwnNodeObjectIsGone(t *testing.T) {
	key := mustKey("10.5.7.0-24")
	w := newAssignedWorld(t, vxlanConfig, lease.Assigned{Key: key})
	w.put(vxlanPeer("10.5.3.0-24", 4))
	w.tell()
	w.pass(time.Second)
	w.wantReady()
	before := w.host.Dump()
	w.assigned = lease.Assigned{Err: errors.New("there is no node n1")}
	w.remove(key)
	w.tell()
	w.pass(time.Minute)
	if s := w.status(); s.Ready || !s.Fenced || w.host.Dump() != before {
		t.Errorf("ready %v, fenced %v, host:\n%s", s.Ready, s.Fenced, w.host.Dump())
	}
	w.assigned = lease.Assigned{Key: key}
	w.tell()
	w.pass(time.Second)
	w.wantReady()
}

// The node writes its record again after another program has removed or changed it,
// after ever longer pauses.
func TestAssignedRecordIsPutRight(t *testing.T) {
	key := mustKey("10.5.7.0-24")
	for name, harm := range map[string]func(*assignedWorld){
		"removed": func(w *assignedWorld) { w.remove(key) },
		"changed": func(w *assignedWorld) {
			own := w.own()
			own.Attrs.PublicIP = netip.MustParseAddr("192.168.64.77")
			w.put(own)
		},
		"garbled": func(w *assignedWorld) {
			own := w.own()
			own.Attrs.BackendData = json.RawMessage("7")
			w.put(own)
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newAssignedWorld(t, vxlanConfig, lease.Assigned{Key: key})
			w.tell()
			w.pass(time.Second)
			attrs, requests := w.own().Attrs, len(w.requests)
			for i := range 8 {
				harm(w)
				w.tell()
				w.pass(time.Duration(2<<i) * time.Second)
				if own := w.own(); !own.Attrs.Equal(attrs) {
					t.Fatalf("record after harm %d: %+v", i, own)
				}
			}
			w.wantReady()
			if len(w.requests) != requests+8 || w.count("lease-lost") != 0 {
				t.Errorf("%d requests, log:\n%s", len(w.requests)-requests, w.log())
			}
		})
	}
}

// An operator's addresses take precedence over the node's options and its host, and
// the node follows them while it runs.
func TestAssignedAddresses(t *testing.T) {
	nat, inside := netip.MustParseAddr("203.0.113.5"), netip.MustParseAddr("192.168.64.3")
	w := newAssignedWorld(t, vxlanConfig, lease.Assigned{Key: mustKey("10.5.7.0-24")})
	w.tell()
	w.pass(time.Second)
	w.assigned.Published = lease.ByFamily{V4: nat}
	w.tell()
	w.pass(time.Second)
	w.wantReady()
	if rec, _ := findLease(&w.snap, w.assigned.Key); rec.Attrs.PublicIP != nat {
		t.Errorf("published %s", rec.Attrs.PublicIP)
	}
	if link := w.host.Links["flannel.1"]; vxlanOf(link).Local != inside {
		t.Errorf("the device sends from %s", vxlanOf(link).Local)
	}
	w.assigned.Published = lease.ByFamily{}
	w.tell()
	w.pass(time.Second)
	if own := w.own(); own.Key != w.assigned.Key {
		t.Errorf("own record %v", own)
	}
	w.assigned.Detected = lease.ByFamily{V4: nat} // which is on no link
	w.tell()
	w.pass(time.Second)
	if reasons := strings.Join(w.status().Reasons, "; "); !strings.Contains(reasons, "203.0.113.5") {
		t.Errorf("reasons: %s", reasons)
	}
}

// The node loses nothing when the store's revisions begin again.
func TestAssignedStoreWentBack(t *testing.T) {
	w := newAssignedWorld(t, vxlanConfig, lease.Assigned{Key: mustKey("10.5.7.0-24")})
	w.tell()
	w.pass(time.Second)
	requests := len(w.requests)
	old := *w.snap.Leases[0]
	old.ModRevision = 5
	w.snap.Revision, w.rev = 5, 5
	w.snap.Leases = []*lease.Lease{&old}
	w.tell()
	w.pass(time.Second)
	w.wantReady()
	if len(w.requests) != requests || w.count("lease-lost") != 0 {
		t.Errorf("requests %v, log:\n%s", w.requests[requests:], w.log())
	}
}

// The node waits while an operator's address cannot be used, from the start on.
func TestAssignedAddressThatCannotBeUsed(t *testing.T) {
	nowhere := lease.ByFamily{V4: netip.MustParseAddr("203.0.113.5")}
	for name, a := range map[string]lease.Assigned{
		"on no link":           {Detected: nowhere},
		"not good for host-gw": {Published: nowhere},
	} {
		t.Run(name, func(t *testing.T) {
			a.Key = mustKey("10.5.7.0-24")
			w := newAssignedWorld(t, `{"Network":"10.5.0.0/16","Backend":{"Type":"host-gw"}}`, a)
			w.tell()
			w.pass(time.Hour)
			if reasons := strings.Join(w.status().Reasons, "; "); w.exit != nil || len(w.requests) != 0 ||
				!strings.Contains(reasons, "203.0.113.5") {
				t.Fatalf("exit %v, requests %v, reasons %s", w.exit, w.requests, reasons)
			}
			w.assigned.Detected, w.assigned.Published = lease.ByFamily{}, lease.ByFamily{}
			w.tell()
			w.pass(time.Minute)
			w.wantReady()
		})
	}
}

// A problem with an assigned subnet is logged once, and one without a subnet is no
// problem of the assignment.
func TestAssignmentWithAProblem(t *testing.T) {
	key := mustKey("10.5.7.0-24")
	w := newAssignedWorld(t, vxlanConfig, lease.Assigned{Key: key})
	w.tell()
	w.pass(time.Second)
	w.wantReady()
	for range 2 {
		w.assigned.Err = errors.New("annotation public-ip-overwrite: want an address")
		w.rev++
		w.snap.Revision = w.rev
		w.tell()
	}
	if got := w.logged("assignment"); len(got) != 1 || !strings.Contains(got[0], "public-ip-overwrite") {
		t.Errorf("logged %q, want one line with the problem", got)
	}
	w.assigned = lease.Assigned{Err: errNoPodCIDR}
	w.tell()
	if got := w.logged("assignment"); len(got) != 1 {
		t.Errorf("logged %q after the subnet was gone", got)
	}
}

// A store that was restored from a backup holds an older form of our record. No
// program disputes the record.
func TestAssignedStoreWentBackToAnotherRecord(t *testing.T) {
	w := newAssignedWorld(t, vxlanConfig, lease.Assigned{Key: mustKey("10.5.7.0-24")})
	w.tell()
	w.pass(time.Second)
	old := *w.snap.Leases[0]
	old.ModRevision--
	old.Attrs.BackendType = "udp"
	w.rev++
	w.snap.Revision = w.rev
	w.snap.Leases = []*lease.Lease{&old}
	w.tell()
	w.pass(time.Second)
	w.wantReady()
	if w.count("store-restored") != 1 || w.count("lease-disputed") != 0 || w.own().Attrs.BackendType != "vxlan" {
		t.Errorf("record %v, want it written again after a restore\n%s", w.own(), w.log())
	}
}

// TestAssignedWithAFormerNode has the node object of a host that was registered again under
// another name: the former object, with the same address, is still there.
func TestAssignedWithAFormerNode(t *testing.T) {
	w := newAssignedWorld(t, `{"Network":"10.5.0.0/16","Backend":{"Type":"vxlan"}}`,
		lease.Assigned{Key: mustKey("10.5.9.0-24")})
	former := vxlanPeer("10.5.3.0-24", 3) // 192.168.64.3 is our address
	w.put(former)
	w.tell()
	w.pass(time.Second)
	w.wantReady()
	if len(w.requests) != 1 || w.count("lease-doubled") != 0 {
		t.Errorf("requests %v, log:\n%s", w.requests, w.log())
	}
}
