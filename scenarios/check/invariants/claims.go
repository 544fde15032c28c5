package invariants

import (
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/flanneld/flannel/core/backend/all"
	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/driver"
	"github.com/flanneld/flannel/core/lease"
	"github.com/flanneld/flannel/core/node"
	"github.com/flanneld/flannel/scenarios/check/oracle"
)

// hintBound is how long a node may call itself ready without its own device and
// address on the host: a hint leads to a look within 600 ms, and the look takes some time.
const hintBound = 1500 * time.Millisecond

// claims compares a node's status and subnet file with the host. The node may
// claim what its last completed look showed, and for a short time more than the
// host holds.
type claims struct {
	ready  bool            // as of the last turn
	synced bool            // the last view of the store that the node got follows the store
	snap   *lease.Snapshot // of that view

	looked  *dataplane.State // by the look that the node knows of
	file    lease.Key        // the subnets in the subnet file, as of that look
	written bool             // the node has written the subnet file since the look began

	compared compared      // what the last comparison with the host was about
	lacks    bool          // the host lacks the node's own device or address
	lacksAt  time.Duration // since when, or until when the process was away
	hintless bool          // hints were lost at that time
}

// tookLook notes the end of a look that the driver has performed.
func (n *Node) tookLook(in node.Input) {
	c := &n.claims
	if looked := in.Lanes[node.HostLane].Looked; looked != nil && looked.Err == nil {
		c.looked = n.observed
	}
	if in.View != nil {
		c.synced, c.snap = in.View.Synced, in.View.Snapshot
	}
	c.written = c.written || in.Wrote != nil
}

// checkClaims is called after every turn of the node: a ready node follows the
// store, and its last look showed its own device, its address and its subnet file. The
// turns in which a process ends publish nothing.
func (n *Node) checkClaims(in node.Input, ready bool) {
	c := &n.claims
	c.ready = ready
	if !ready || n.Twinned || in.Stop {
		return
	}
	if !c.synced {
		n.all.broken("ready-is-true", "%s calls itself ready, though it does not know what the store holds", n.name)
	}
	if subnet := n.without(c.looked); subnet.IsValid() {
		n.all.broken("ready-is-true", "%s calls itself ready, though its last look showed no device with an address in %s",
			n.name, subnet)
	}
	if in.Lanes[node.HostLane].Looked != nil && !c.written && !n.named(c.file) {
		n.all.broken("ready-is-true", "%s calls itself ready with %s, though the subnet file holds %q",
			n.name, n.key, c.file)
	}
}

// named reports whether a subnet file names the node's subnet of each family that
// the config has switched on. While the node gives up the other family, the file
// names no subnet of that one.
func (n *Node) named(file lease.Key) bool {
	for _, f := range cidr.Families {
		if file.Of(f) != n.key.Of(f) && (n.carries(f) || file.Of(f).IsValid()) {
			return false
		}
	}
	return true
}

// without returns a subnet of the node for which a state has no address on an
// overlay device that is up, if the backend has such a device.
func (n *Node) without(s *dataplane.State) netip.Prefix {
	return n.lacking(func(subnet netip.Prefix) bool { return n.all.showsAddress(s, subnet) })
}

// hasDevice reports whether the backend in force, and the one that the node knew last,
// have a device with an address of the subnet. While the host refuses the former one, the latter counts.
func (n *Node) hasDevice() bool {
	if n.refused {
		return overlay(n.backend)
	}
	return overlay(n.all.config.Backend.Type) && (n.backend == "" || overlay(n.backend))
}

// overlay reports whether a backend has a device with an address of the subnet.
func overlay(backendType string) bool {
	spec, _ := all.Find(backendType)
	return len(spec.Devices) > 0
}

// lacking returns a subnet of the node that is not shown, or none.
func (n *Node) lacking(shown func(netip.Prefix) bool) netip.Prefix {
	if !n.holds || n.all.bad || !n.hasDevice() {
		return netip.Prefix{}
	}
	for _, f := range cidr.Families {
		if subnet := n.key.Of(f); subnet.IsValid() && n.carries(f) && !shown(subnet) {
			return subnet
		}
	}
	return netip.Prefix{}
}

// checkReadiness is called after every event: a node does not call itself ready
// for long without its own device and address, though hints tell it to look.
func (i *Invariants) checkReadiness() error {
	i.compareHosts()
	now := i.elapsed()
	for _, name := range i.order {
		n := i.nodes[name]
		c := &n.claims
		if !c.lacks || n.stands() || n.Twinned {
			c.lacksAt = now
			continue
		}
		bound := hintBound
		if c.hintless {
			bound = lookBound
		}
		if c.ready && now-c.lacksAt > bound {
			return fmt.Errorf("%s calls itself ready, though its host has had no device with an address in %s for %s",
				name, n.key, now-c.lacksAt)
		}
	}
	return nil
}

// compared identifies a comparison of a host with the device that its node must have.
type compared struct {
	changes  uint64 // of the host
	inForce  string // the backend
	known    string // the backend that the node knew last
	key      lease.Key
	holds    bool
	unusable bool // the config in force
	refused  bool
}

// compareHosts compares each host with the claims of its node, if either has changed.
func (i *Invariants) compareHosts() {
	for _, name := range i.order {
		n := i.nodes[name]
		now := compared{n.Changes(), i.config.Backend.Type, n.backend, n.key, n.holds, i.bad, n.refused}
		if n.claims.compared != now {
			n.claims.compared = now
			n.compareOwn(i.elapsed())
		}
	}
}

// compareOwn notes whether the host holds the node's own device and address.
func (n *Node) compareOwn(now time.Duration) {
	c := &n.claims
	had := !c.lacks
	c.lacks = n.lacking(func(subnet netip.Prefix) bool {
		for link := range n.all.links {
			if n.HasAddressIn(link, subnet) {
				return true
			}
		}
		return false
	}).IsValid()
	if had && c.lacks {
		c.lacksAt = now
		c.hintless = slices.Contains(n.all.situation.Faults, n.name+" hints")
	}
}

// publication is the address of each family, and the WireGuard key, that the node's process has published.
type publication struct {
	address [2]netip.Addr
	stayed  [2]bool       // the last look before, and every look since, has shown it on a link that is up
	links   []driver.Link // as of the process's last look
	key     dataplane.PublicKey
	asked   []netip.Addr // in the requests of the process; the store may serve those of a former one late
}

// askedFor notes the addresses that a request of the process publishes.
func (n *Node) askedFor(attrs lease.Attrs) {
	for _, f := range cidr.Families {
		if ip := attrs.IP(f); !slices.Contains(n.published.asked, ip) {
			n.published.asked = append(n.published.asked, ip)
		}
	}
}

// notePublished follows the node's writes to its record: the published address
// stays as long as it is valid. The record may be written long after the request.
func (n *Node) notePublished(record lease.Lease) {
	attrs := record.Attrs
	p := &n.published
	key, _, _ := oracle.WireGuardData(record)
	p.key = key
	for _, f := range cidr.Families {
		old, now := p.address[f], attrs.IP(f)
		if old == now {
			continue
		}
		n.formerly = append(n.formerly, now)
		if now.IsValid() && !slices.Contains(p.asked, now) {
			continue
		}
		if old.IsValid() && now.IsValid() && p.stayed[f] && n.deadlines.asking && !n.Twinned {
			n.all.broken("address-kept", "%s publishes %s in the place of %s, which its uplink still has", n.name, now, old)
		}
		p.address[f], p.stayed[f] = now, p.shows(now)
	}
}

// sawAddresses follows the addresses of the host as the node's looks show them.
func (n *Node) sawAddresses(facts driver.HostFacts) {
	p := &n.published
	p.links = facts.Links
	for _, f := range cidr.Families {
		p.stayed[f] = p.stayed[f] && p.shows(p.address[f])
	}
}

// seen returns the addresses of the host that the last look showed. The host may have lost one since.
func (p *publication) seen() (all []netip.Addr) {
	for _, l := range p.links {
		for _, a := range l.Addrs {
			all = append(all, a.Prefix.Addr())
		}
	}
	return all
}

// shows reports whether the last look showed an address on a link that is up.
func (p *publication) shows(ip netip.Addr) bool {
	return slices.ContainsFunc(p.links, func(l driver.Link) bool {
		return l.Up && slices.ContainsFunc(l.Addrs, func(a driver.LinkAddr) bool { return a.Prefix.Addr() == ip })
	})
}
