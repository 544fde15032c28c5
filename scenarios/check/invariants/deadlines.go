package invariants

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/driver"
	"github.com/flanneld/flannel/core/lease"
	"github.com/flanneld/flannel/core/node"
	"github.com/flanneld/flannel/core/subnetfile"
	"github.com/flanneld/flannel/drivers/sim/daemon"
)

// The longest times that a daemon may take, in virtual time. A process that
// stands still is excused: its deadlines begin again when it continues.
const (
	// lookBound is how long a host may go without a look: a resync is due after
	// 36 s at most, and failures are followed by pauses of half a minute.
	lookBound = 75 * time.Second
	// fenceBound is how long after its saved lease ended a node may claim it.
	fenceBound = 2 * time.Second
	// conflictBound is the longest pause after a conflict with another write.
	conflictBound = 6 * time.Second
)

// deadlines holds what the process in charge has to do, and since when.
type deadlines struct {
	looking  bool          // a look or a plan of the host is under way
	slowed   bool          // a plan of commands is under way that a fault makes slow, or fail
	looked   bool          // the process has looked at its host
	lookedAt time.Duration // when the last look or plan ended

	asking  bool          // a request is under way
	askedAt time.Duration // when the last request ended
	granted time.Duration // when the store last confirmed the lease
	ttl     time.Duration // of that lease; 0: none, or a reservation
	expires time.Time     // by the daemon's clock: when that lease ends
	forever bool          // its record was a reservation as of the last turn

	savedUntil time.Time // by the daemon's clock: when the lease of the last run ends; zero: never
}

// savedExpiry returns the end of the lease that the state file holds.
func (n *Node) savedExpiry() time.Time {
	var saved struct{ Expires time.Time }
	if text, ok := n.Daemon.File(node.StateFile); !ok || json.Unmarshal(text, &saved) != nil {
		return time.Time{}
	}
	return saved.Expires
}

// savedRun returns the network config and the node's subnet that the state file holds.
func (n *Node) savedRun() (config string, own lease.Key) {
	text, _ := n.Daemon.File(node.StateFile)
	marks, err := node.SavedMarks(text)
	if err != nil {
		return "", lease.Key{}
	}
	return string(marks.Config), marks.Own
}

// stepped follows the input of a turn.
func (n *Node) stepped(now time.Time, in node.Input, m daemon.Machine) {
	d, elapsed := &n.deadlines, n.all.elapsed()
	if host := in.Lanes[node.HostLane]; host.Looked != nil || host.Applied != nil {
		d.looking, d.lookedAt = false, elapsed
	}
	if in.Lanes[node.CommandsLane].Applied != nil {
		d.slowed = false
	}
	n.checkForwarding(in.Lanes[node.HostLane].Looked, m)
	if done := in.Requested; done != nil {
		d.asking, d.askedAt = false, elapsed
		n.noteRequest(done)
		if done.Err == nil {
			d.granted = elapsed
			d.ttl, d.expires = done.Grant.TTL, done.Grant.Expires
		}
	}
	if !in.Stop {
		n.checkFence(now, m)
	}
}

// checkFence checks that a node fences itself soon after its lease has ended, by its
// own clock. The lease that a former process saved counts until the node hears from
// the store.
func (n *Node) checkFence(now time.Time, m daemon.Machine) {
	d := &n.deadlines
	before := d.forever
	d.forever = n.neverExpires()
	if before && !d.forever {
		d.expires = now.Add(d.ttl) // the node learns of the lease's end with the answer to a renewal
	}
	expired := d.ttl > 0 && !d.expires.IsZero() && now.Sub(d.expires) > fenceBound
	// A node that removes its network lets the lease run out.
	if key, holds := m.Holding(); holds && expired && !d.forever && !n.leaving {
		n.all.broken("fenced-in-time", "%s claims %s, though its lease ended %s ago", n.name, key, now.Sub(d.expires))
	}
	if n.client.View().Snapshot == nil && !d.savedUntil.IsZero() && now.Sub(d.savedUntil) > fenceBound {
		if s := m.Status(); s.Stale && s.Subnet.IsValid() && !s.Fenced {
			n.all.broken("fenced-in-time", "%s claims %s, though the lease it saved ended %s ago",
				n.name, s.Subnet, now.Sub(d.savedUntil))
		}
	}
}

// checkForwarding checks that a node is not ready after a look at a host that
// forwards no packet between pods: none that comes in by any link, by a device with an
// address of the overlay, or by the bridge of its own pods.
func (n *Node) checkForwarding(looked *node.Looked, m daemon.Machine) {
	if looked == nil || looked.Err != nil {
		return
	}
	links := looked.Seen.Facts.(driver.HostFacts).Links
	for _, f := range cidr.Families {
		passes := func(l driver.Link) bool { return !l.NoForwarding[f] }
		off := !slices.ContainsFunc(links, passes)
		for a := range looked.Seen.State.Addrs {
			device := func(l driver.Link) bool { return l.Name == a.Link && !passes(l) }
			off = off || n.all.config.Of(f).Network.Contains(a.Prefix.Addr()) && slices.ContainsFunc(links, device)
		}
		own, _ := m.Holding()
		off = off || slices.ContainsFunc(links, func(l driver.Link) bool {
			inSubnet := func(a driver.LinkAddr) bool { return own.Of(f).Contains(a.Prefix.Addr()) }
			return l.Up && !passes(l) && slices.ContainsFunc(l.Addrs, inSubnet)
		})
		if off && n.all.config.Of(f).Enabled() && !n.all.bad && m.Status().Ready {
			n.all.broken("ready-forwards", "%s is ready, though its host forwards no %s packet", n.name, f)
		}
	}
}

// began follows the effects that the node begins.
func (n *Node) began(r node.Effects) {
	d := &n.deadlines
	if host := r.Lanes[node.HostLane]; host.Look != nil || host.Plan != nil {
		d.looking, d.looked = true, true
	}
	if r.Lanes[node.CommandsLane].Plan != nil {
		d.slowed = slices.Contains(n.all.situation.Faults, n.name+" commands")
	}
	d.asking = d.asking || r.Request != nil
	for _, w := range r.Writes {
		if w.File == node.SubnetFile {
			n.checkAnnounced(subnetfile.Previous(w.Data))
		}
	}
}

// checkLooks is called after every event.
func (i *Invariants) checkLooks() error {
	now := i.elapsed()
	for _, name := range i.order {
		n := i.nodes[name]
		d := &n.deadlines
		if n.stands() {
			d.lookedAt = now
		}
		if d.looked && !d.looking && now-d.lookedAt > lookBound {
			return fmt.Errorf("%s has not looked at its host for %s", name, now-d.lookedAt)
		}
	}
	return nil
}

// checkRenewals is called after every event.
func (i *Invariants) checkRenewals() error {
	now := i.elapsed()
	for _, name := range i.order {
		n := i.nodes[name]
		if n.stands() || n.leaving {
			n.deadlines.askedAt, n.deadlines.granted = now, now
		}
		if err := n.checkTries(now); err != nil {
			return err
		}
	}
	return nil
}

// noteStanding is called after every event, before the checks: deadlines begin when
// a process continues.
func (i *Invariants) noteStanding() error {
	now := i.elapsed()
	for _, n := range i.nodes {
		idle := !n.Daemon.Running() || n.Daemon.Halted() || n.Daemon.Stopping()
		if idle || n.idle {
			n.stoodAt = now
		}
		n.idle = idle
	}
	return nil
}

// stands reports whether the node has no process that could act, or has one only
// from this instant on.
func (n *Node) stands() bool { return n.stoodAt == n.all.elapsed() }

// checkTries checks that a node asks for its lease several times once half of it is
// over, so that one answer in time is enough.
func (n *Node) checkTries(now time.Duration) error {
	d := &n.deadlines
	if n.holds && n.neverExpires() {
		d.granted = now
	}
	if !n.holds || d.ttl == 0 || d.asking || now-d.granted < d.ttl/2 {
		return nil
	}
	idle := now - max(d.askedAt, d.granted+d.ttl/2)
	if idle > max(d.ttl/5, conflictBound) {
		return fmt.Errorf("%s, whose lease of %s was confirmed %s ago, has not asked for it for %s",
			n.name, d.ttl, now-d.granted, idle)
	}
	return nil
}

// beginRenewals notes that a record which was a reservation until now has to be renewed.
func (i *Invariants) beginRenewals(record string) {
	for _, n := range i.nodes {
		if n.record == record {
			n.deadlines.granted = i.elapsed()
		}
	}
}

// neverExpires reports whether the node's record is a reservation, or was one in
// the last snapshot that the node has seen.
func (n *Node) neverExpires() bool {
	if n.all.reserved[n.record] {
		return true
	}
	snap := n.client.View().Snapshot
	return snap != nil && snap.Revision < n.all.unreserved[n.record]
}

// checkAnnounced checks that a node writes its subnet file only after a look has shown
// its address in the subnet on its overlay device, if the backend has one, or the policy
// that blocks packets without encryption.
func (n *Node) checkAnnounced(key lease.Key) {
	if n.all.sealed && !n.all.bad && !n.blocks() {
		n.all.broken("file-follows-host", "%s writes a subnet file before a look has shown the blocking policy", n.name)
	}
	if n.all.bad || !n.hasDevice() {
		return
	}
	for _, f := range cidr.Families {
		if subnet := key.Of(f); subnet.IsValid() && !n.all.showsAddress(n.claims.looked, subnet) {
			n.all.broken("file-follows-host",
				"%s writes a subnet file with %s before a look has shown its address there", n.name, subnet)
		}
	}
}

// showsAddress reports whether a state has an address in a subnet on a device of
// flannel that is up.
func (i *Invariants) showsAddress(s *dataplane.State, subnet netip.Prefix) bool {
	if s == nil {
		return false
	}
	for a := range s.Addrs {
		if i.links[a.Link] && s.Links[a.Link].Up && subnet.Contains(a.Prefix.Addr()) {
			return true
		}
	}
	return false
}
