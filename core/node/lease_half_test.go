package node

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/lease"
)

// The configs of a cluster that changes under its nodes.
const (
	dualConfig   = `{"Network":"10.5.0.0/16","EnableIPv6":true,"IPv6Network":"fd00:10::/48","Backend":{"Type":"vxlan"}}`
	v6Config     = `{"EnableIPv4":false,"EnableIPv6":true,"IPv6Network":"fd00:10::/48","Backend":{"Type":"vxlan"}}`
	grownConfig  = `{"Network":"10.0.0.0/8","EnableIPv6":true,"IPv6Network":"fd00:10::/48","Backend":{"Type":"vxlan"}}`
	coarseConfig = `{"Network":"10.0.0.0/8","SubnetLen":20,"EnableIPv6":true,"IPv6Network":"fd00:10::/48",` +
		`"Backend":{"Type":"vxlan"}}`
	otherV4Config = `{"Network":"10.9.0.0/16","EnableIPv6":true,"IPv6Network":"fd00:10::/48","Backend":{"Type":"vxlan"}}`
	fullV6Config  = `{"Network":"10.5.0.0/16","EnableIPv6":true,"IPv6Network":"fd00:10::/60",` +
		`"IPv6SubnetLen":64,"IPv6SubnetMin":"fd00:10:0:1::","IPv6SubnetMax":"fd00:10:0:1::","Backend":{"Type":"vxlan"}}`
)

// bounds is a config with both families whose IPv4 subnets lie between two bases.
func bounds(lowest, highest string) string {
	return fmt.Sprintf(`{"Network":"10.5.0.0/16","SubnetMin":%q,"SubnetMax":%q,"EnableIPv6":true,`+
		`"IPv6Network":"fd00:10::/48","Backend":{"Type":"vxlan"}}`, lowest, highest)
}

// configure changes the network config.
func (w *world) configure(text string) {
	w.rev++
	w.snap.Revision = w.rev
	w.snap.Config = lease.Document{Data: []byte(text), Revision: w.rev}
	w.tell()
}

// IPv6 is switched on and off, the network grows, its bounds change: what of
// the subnet still fits stays the node's, on the host and in the datastore.
func TestKeepsTheHalfThatFits(t *testing.T) {
	for _, c := range []struct {
		name, from, to string
		kept           []cidr.Family
		moves          int
	}{
		{"IPv6 is switched on", vxlanConfig, dualConfig, []cidr.Family{cidr.V4}, 1},
		{"IPv6 is switched off", dualConfig, vxlanConfig, []cidr.Family{cidr.V4}, 1},
		{"IPv4 is switched on", v6Config, dualConfig, []cidr.Family{cidr.V6}, 1},
		{"IPv4 is switched off", dualConfig, v6Config, []cidr.Family{cidr.V6}, 1},
		{"IPv4 takes the place of IPv6", v6Config, vxlanConfig, nil, 1},
		{"IPv6 takes the place of IPv4", vxlanConfig, v6Config, nil, 1},
		{"IPv4 moves", dualConfig, otherV4Config, []cidr.Family{cidr.V6}, 1},
		{"IPv4 grows", dualConfig, grownConfig, []cidr.Family{cidr.V4, cidr.V6}, 0},
		{"IPv4 grows and is divided differently", dualConfig, coarseConfig, []cidr.Family{cidr.V6}, 1},
		{"the bounds still hold our subnet", bounds("10.5.8.0", "10.5.15.0"), bounds("10.5.4.0", "10.5.31.0"),
			[]cidr.Family{cidr.V4, cidr.V6}, 0},
		{"SubnetMin rises above our subnet", bounds("10.5.8.0", "10.5.15.0"), bounds("10.5.16.0", "10.5.31.0"),
			[]cidr.Family{cidr.V6}, 1},
		{"SubnetMax falls below our subnet", bounds("10.5.8.0", "10.5.15.0"), bounds("10.5.1.0", "10.5.7.0"),
			[]cidr.Family{cidr.V6}, 1},
	} {
		for _, restart := range []bool{false, true} {
			w := newWorld(t, c.from)
			w.tell()
			w.pass(10 * time.Second)
			w.wantReady()
			before := w.own().Key
			if restart {
				w.start() // without a subnet file
			}
			requests := len(w.requests)
			w.configure(c.to)
			w.pass(10 * time.Second)
			w.wantReady()
			after := w.own().Key
			if moves, releases := w.asked(Move, requests), w.asked(Release, requests); moves != c.moves || releases > 0 {
				t.Errorf("%s, restart %t: %d moves, want %d, and %d releases", c.name, restart, moves, c.moves, releases)
			}
			for _, f := range cidr.Families {
				if kept := slices.Contains(c.kept, f); kept && before.Of(f) != after.Of(f) {
					t.Errorf("%s, restart %t: %s became %s", c.name, restart, before, after)
				}
			}
			if len(w.snap.Leases) != 1 {
				t.Errorf("%s, restart %t: leases %v", c.name, restart, w.snap.Leases)
			}
		}
	}
}

// While the record is changed, the half that stays is on the host without a gap.
func TestKeptHalfStaysOnTheHost(t *testing.T) {
	w := newWorld(t, vxlanConfig)
	w.put(vxlanPeer("10.5.3.0-24", 4))
	w.tell()
	w.pass(10 * time.Second)
	own := dataplane.Addr{Link: "flannel.1", Prefix: netip.PrefixFrom(w.own().Key.V4.Addr(), 32)}
	w.held = true
	w.configure(dualConfig)
	w.pass(time.Minute)
	if _, ok := w.host.Addrs[own]; !ok || w.pending == nil || w.pending.Verb != Move {
		t.Errorf("pending %v, host:\n%s", w.pending, w.host.Dump())
	}
	w.held = false
	w.run(Input{Requested: w.serve()})
	w.tell()
	w.pass(10 * time.Second)
	w.wantReady()
	if _, ok := w.host.Addrs[own]; !ok {
		t.Errorf("host:\n%s", w.host.Dump())
	}
}

// Where the other half cannot be had, the lease is kept for the half that fits.
func TestKeepsTheLeaseIfNoOtherIsFree(t *testing.T) {
	w := newWorld(t, vxlanConfig)
	peer := vxlanPeer("10.5.3.0-24", 4)
	peer.Key.V6 = netip.MustParsePrefix("fd00:10:0:1::/64")
	w.put(peer)
	w.tell()
	w.pass(10 * time.Second)
	before, requests := w.own(), len(w.requests)
	w.configure(fullV6Config)
	w.pass(25 * time.Hour)
	if s := w.status(); s.Ready || s.Fenced || w.own().ModRevision != before.ModRevision || w.count("no-subnet") != 1 {
		t.Errorf("own record %v, was %v; status %+v\n%s", w.own(), before, s, w.log())
	}
	if w.asked(Renew, requests) == 0 {
		t.Errorf("requests %v", w.requests[requests:])
	}
	w.remove(peer.Key)
	w.tell()
	w.pass(2 * time.Minute)
	w.wantReady()
	if w.own().Key.V4 != before.Key.V4 {
		t.Errorf("own record %v, was %v", w.own(), before)
	}
}

// A move whose answer is lost took place all the same: the node goes on with the
// new record, and never takes its lease for lost.
func TestMoveWithoutAnAnswer(t *testing.T) {
	w := newWorld(t, dualConfig, func(o *Options) { o.ExitOnLoss = true })
	w.tell()
	w.pass(10 * time.Second)
	before, lose := w.own().Key, true
	w.answer = func(r Request) (lease.Grant, error) {
		if r.Verb != Move || !lose {
			return lease.Grant{}, nil
		}
		lose = false
		_, _ = w.store(r)
		return lease.Grant{}, errors.New("no answer")
	}
	w.configure(vxlanConfig)
	w.pass(time.Minute)
	w.wantReady()
	if after := w.own().Key; after != (lease.Key{V4: before.V4}) || w.count("lease-lost") > 0 || len(w.snap.Leases) != 1 {
		t.Errorf("%s became %s; leases %v\n%s", before, after, w.snap.Leases, w.log())
	}
}

// Until the answer, a node whose record has moved already is not ready: peers do not
// reach its present subnet.
func TestNotReadyWhileItsRecordHasMoved(t *testing.T) {
	w := newWorld(t, dualConfig)
	w.tell()
	w.pass(10 * time.Second)
	w.held = true
	w.configure(otherV4Config)
	if _, err := w.store(*w.pending); err != nil {
		t.Fatal(err)
	}
	w.tell()
	w.pass(time.Second)
	if w.status().Ready {
		t.Errorf("ready with %s, though the store holds %v\n%s", w.n.lease.self.Key, w.snap.Leases, w.log())
	}
	w.held = false
	w.run(Input{Requested: &Requested{Err: errors.New("no answer")}})
	w.pass(time.Minute)
	w.wantReady()
}

// Another node takes the subnet that the node wants to move to: it keeps its
// record until it gets another one.
func TestMoveToATakenSubnet(t *testing.T) {
	w := newWorld(t, dualConfig)
	w.tell()
	w.pass(10 * time.Second)
	before, take := w.own().Key, true
	w.answer = func(r Request) (lease.Grant, error) {
		if r.Verb == Move && take {
			take = false
			peer := vxlanPeer("10.9.3.0-24", 4)
			peer.Key = r.Key
			w.put(peer)
		}
		return lease.Grant{}, nil
	}
	w.configure(otherV4Config)
	w.pass(time.Second)
	w.tell()
	w.pass(time.Minute)
	w.wantReady()
	if after := w.own().Key; after.V4 == before.V4 || take || w.count("lease-lost") > 0 || len(w.snap.Leases) != 2 {
		t.Errorf("%s became %s; leases %v\n%s", before, after, w.snap.Leases, w.log())
	}
}
