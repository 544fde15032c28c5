package node

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"time"

	"github.com/flanneld/flannel/core/backend"
	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/config"
	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/driver"
	"github.com/flanneld/flannel/core/lease"
	"github.com/flanneld/flannel/core/reconcile"
)

// hintGap is the shortest time between two looks at the host that hints asked for.
const hintGap = 500 * time.Millisecond

// hostPart is the lane of the kernel's network tables and settings.
type hostPart struct{ n *Node }

func (p hostPart) pace() pace {
	return pace{
		every:   p.n.opts.Resync,
		hintGap: hintGap,
		most:    p.n.opts.Resync,
		insists: true, // the next plan may replace a link that refused a change
	}
}

func (p hostPart) watches() bool { return p.n.network.known }

func (p hostPart) follow() bool {
	n := p.n
	if !n.network.known {
		return false
	}
	if !n.removal.begun() {
		n.settleSelf()
		n.settleKeys()
	}
	if n.store.changed && n.host.looked {
		n.store.changed = false
		n.lookSoon(n.hostLane(), 0, causeChange)
	}
	return true
}

func (n *Node) hostLane() *lane { return n.lanes[HostLane] }

// settleSelf programs the held subnet once a snapshot as new as the lease has
// shown that no older record claims part of it, and that the host has no other.
func (n *Node) settleSelf() {
	l := &n.lease
	if l.grant == nil || l.expired || n.store.stale {
		return
	}
	if n.assigned() == nil && n.store.snap.Revision < l.grant.CreateRevision {
		return
	}
	self := backend.Self{Key: l.grant.Key, Attrs: l.full}
	if self.Key != l.self.Key && n.assigned() == nil {
		// A request under way keeps the node from giving such a lease up at once.
		_, overlaps := n.olderOverlap(n.store.snap.Leases, l.grant.Lease)
		_, doubled := n.olderOwn()
		if overlaps || doubled {
			return
		}
	}
	same := self.Key == l.self.Key && self.Attrs.Equal(l.self.Attrs)
	// While it was fenced the node may have removed a half that it was unsure of.
	want := &n.host.want
	withheld := n.hostLane().clean && want.state != nil && want.self.Key != n.undisputed(self.Key)
	if !same || withheld {
		l.self = self
		n.hostLane().outdated(n.now)
	}
}

func (p hostPart) look() Look {
	n := p.n
	extent := n.transition.Set().Extent()
	for _, name := range n.host.watched() {
		if !slices.Contains(extent.Links, name) { // a previous device
			extent.Links = append(extent.Links, name)
		}
	}
	extent.Networks = n.host.networks
	extent.Policies = n.host.policies
	if n.opts.IPForward {
		extent.Sysctls = append(extent.Sysctls, n.forwarding()...)
	}
	if n.host.checksums.value != "" {
		for _, name := range extent.Links {
			extent.Sysctls = append(extent.Sysctls, dataplane.TxChecksum(name, ""))
		}
	}
	extent.Reach = n.reach()
	n.host.asked = extent.Reach
	extent.Again = n.again()
	n.host.again, n.host.effect = extent.Again, n.hostLane().cause == causePlan
	n.files.seen = true
	return Look{Extent: extent, SubnetFile: true}
}

func (p hostPart) take(looked Looked) {
	n, h := p.n, &p.n.host
	facts := looked.Seen.Facts.(driver.HostFacts)
	changed := !h.facts.Equal(facts) || !slices.Equal(h.podBridges, looked.PodBridges)
	// After a failed choice, and with new facts, the node chooses the uplink again.
	n.underlay.Looked(changed)
	h.facts, h.have = facts, looked.Seen.State
	h.podBridges = looked.PodBridges
	h.looked = true
	n.recallDevices()
	n.settleRefused()
	n.retryRefused(changed)
	n.sawSubnetFile(looked.SubnetFile)
	n.followPacketPaths(looked.Seen.State)
}

func (p hostPart) tables() (want, have *dataplane.State) { return p.n.host.want.state, p.n.host.have }

func (p hostPart) compare() ([]dataplane.Op, bool) {
	n, h := p.n, &p.n.host
	if n.removal.begun() {
		return n.planRemoval(), h.looked
	}
	if deletes, ok := n.handOver(); !ok || len(deletes) > 0 {
		n.hostLane().moved()
		return deletes, ok
	}
	if !n.programmable() {
		return nil, false
	}
	l := n.hostLane()
	if n.asksAgain() {
		l.waits()
		return nil, false
	}
	want, moved := h.want.state, false
	if n.confirms() {
		l.lookBy(n.now.Add(n.opts.Debounce), causeChange)
	} else {
		want, moved = n.wanted()
	}
	n.checkForwarding()
	if moved || h.withheld > 0 {
		l.moved()
	}
	if moved && len(l.failures) == 0 {
		l.restart()
	}
	plan := n.difference(want)
	own := slices.ContainsFunc(plan.Ops, isOwn)
	if own {
		h.standing = lease.Key{}
	}
	if n.readTooLittle(plan.Ops) || n.givesUpPrevious(plan.Ops) || n.savesFirst(plan.Ops) {
		l.waits()
		return nil, false
	}
	h.withheld, h.conflicts = plan.Withheld, plan.Conflicts
	n.once(Error, "conflict", textOf(plan.Conflicts))
	if !own {
		h.standing = h.want.self.Key // without the halves of a lost subnet that the host must not hold
		n.transition.Stands()
	}
	for _, op := range plan.Ops {
		if link, ok := op.Object.(dataplane.Link); ok && op.Verb == dataplane.Create {
			delete(h.recreate, link.Name)
		}
	}
	return plan.Ops, true
}

// programmable reports whether the node knows enough to desire anything.
func (n *Node) programmable() bool {
	return n.host.looked && n.host.uplink.Link != "" && n.lease.self.Key.IsValid() && n.store.snap != nil
}

// difference compares the host with the desired state, as far as the node can put it into force.
func (n *Node) difference(want *dataplane.State) reconcile.Plan {
	return n.diff(n.withEndpoints(n.guarded(n.withoutRefused(want))))
}

// diff compares the host with the desired state. If neither has changed since
// they were found equal, it does not compare them again.
func (n *Node) diff(want *dataplane.State) reconcile.Plan {
	h := &n.host
	if h.settled == (settled{want, h.have}) {
		return reconcile.Plan{}
	}
	plan := reconcile.Diff(want, h.have, reconcile.Options{
		Own:       n.ownership(),
		Prune:     n.synced(),
		Recreate:  h.recreate,
		KeepMTU:   h.keepMTU,
		Denied:    h.denied,
		Receiving: n.transition.Set().EndingLinks(),
		Renamings: n.transition.Set().Renamings(),
	})
	h.settled = settled{}
	if plan.Empty() {
		h.settled = settled{want, h.have}
	}
	return plan
}

// isOwn reports whether an op is about the node itself and not about a peer.
func isOwn(op dataplane.Op) bool {
	switch o := op.Object.(type) {
	case dataplane.Link, dataplane.Addr, dataplane.Sysctl, dataplane.Proxy:
		return true
	case dataplane.Policy: // pods may send as soon as they know their subnet
		return o.Action != dataplane.Protect
	}
	return false
}

func (p hostPart) settled() string {
	p.n.host.programmed = p.n.host.want.snap // and maybe not the newest
	p.n.settleRefused()
	p.n.forgetOld()
	p.n.shareTables()
	return fmt.Sprintf("the host is as desired: %d objects", p.n.host.want.state.Len())
}

func (p hostPart) retries(plan []dataplane.Op) bool { return p.n.retriesOnly(plan) }

func (p hostPart) failed(op dataplane.Op, err error) error {
	p.n.host.endpoints.notWritten(op.Object)
	p.n.transition.Lacks(op, deviceOf(op.Object), err)
	if p.n.refusedPeer(op, err) {
		return nil
	}
	switch o := op.Object.(type) {
	case dataplane.Addr:
		p.n.host.refusals.ailing = append(p.n.host.refusals.ailing, o.Link)
	case dataplane.Route:
		p.n.host.refusals.notDeleted(op)
	case dataplane.Sysctl:
		if errors.Is(err, driver.ErrDenied) {
			p.n.denySetting(o, err)
			return nil
		}
		if errors.Is(err, driver.ErrNotFound) {
			p.n.skipSetting(o)
			return nil
		}
	case dataplane.Link:
		nameTaken := o.Was != "" && errors.Is(err, driver.ErrExists)
		if op.Verb == dataplane.Replace && (refused(err) || nameTaken) && o.Kind() != dataplane.LinkWireGuard {
			if p.n.keepsMTU(o, err) {
				return nil
			}
			p.n.host.recreate[o.Name] = true
		}
	}
	if lack := p.n.host.lack; lack != nil && op.Verb != dataplane.Delete && linkOf(op.Object) == lack.Link {
		return lack.Err
	}
	return fmt.Errorf("%s: %w", op, err)
}

// missed implements [misser]: another route may have taken the place of a deleted one.
func (p hostPart) missed(op dataplane.Op) { p.n.host.refusals.notDeleted(op) }

// refused reports whether the kernel cannot change a link in place.
func refused(err error) bool {
	return errors.Is(err, driver.ErrUnsupported) || errors.Is(err, driver.ErrInvalid)
}

// denySetting gives up on a kernel setting until the next start: in a container
// /proc/sys may be read-only, and another attempt would fail too.
func (n *Node) denySetting(s dataplane.Sysctl, err error) {
	n.host.denied[s.Path] = true
	n.event(Warning, "setting-denied",
		fmt.Sprintf("%s: %v; going on without it: set it on the host, or make /proc/sys writable", s, err))
}

// skipSetting reports a kernel setting that does not exist. If its device is
// missing too, the op of the device reports why.
func (n *Node) skipSetting(s dataplane.Sysctl) {
	n.once(Info, "setting-absent",
		fmt.Sprintf("%s: this host has no such setting, as without IPv6 or with an MTU below 1280", s))
}

func (hostPart) describe(plan []dataplane.Op) string {
	if len(plan) == 1 {
		return plan[0].String()
	}
	var counts [dataplane.Delete + 1]int
	for _, op := range plan {
		counts[op.Verb]++
	}
	return fmt.Sprintf("%d changes: %d added, %d replaced, %d deleted", len(plan),
		counts[dataplane.Create], counts[dataplane.Replace], counts[dataplane.Delete])
}

func (p hostPart) reasons() (rs []string) {
	h, l := &p.n.host, p.n.hostLane()
	if l.lookErr != nil {
		rs = append(rs, fmt.Sprintf("cannot read the host: %v", l.lookErr))
	}
	rs = append(rs, h.noForwarding...)
	for _, conflict := range h.conflicts {
		if _, peers := p.n.peerOf(conflict.Want.Dst); !peers {
			rs = append(rs, fmt.Sprintf("conflict: %v", conflict))
		}
	}
	rs = append(rs, few(h.guard.clear())...)
	for _, failure := range l.failures {
		if text := failure.Error(); !slices.Contains(rs, text) { // one lack fails several ops
			rs = append(rs, text)
		}
	}
	if !l.clean && len(l.failures) == 0 && l.contests.text() == "" {
		rs = append(rs, "the host is not yet as desired")
	}
	return rs
}

// rememberNetworks records the networks of a config as owned. They stay owned
// after a change of the config, so that the node removes their routes.
func (h *hostState) rememberNetworks(network config.Network) {
	for _, p := range owned(network) {
		if !slices.Contains(h.networks, p) {
			h.networks = append(h.networks, p)
		}
	}
}

// owned returns the networks of a config, including that of a family that is off, in
// which a former run may have left routes.
func owned(network config.Network) []netip.Prefix {
	networks := slices.Clone(network.Off)
	for _, f := range cidr.Families {
		if p := network.Of(f).Network; p.IsValid() {
			networks = append(networks, p)
		}
	}
	return networks
}

// hostRests reports whether the host is as desired, and no delete waits.
func (n *Node) hostRests() bool {
	l := n.hostLane()
	return l.clean && !l.retry && n.host.withheld == 0
}

// firewallRests reports whether the firewall is as the present config and lease want it: while a look is under
// way, the lane does not know yet that it is for others.
func (n *Node) firewallRests() bool {
	return n.lanes[FirewallLane].clean && n.aims().same(n.firewall.aim)
}

// forgetOld ends the ownership of previous devices and networks once the host
// holds nothing of them. Until the node has a subnet in a new network, the host holds objects for
// the former subnet, such as the address of a device. A former network may be wider than the new one, and
// ends as well once the new one has the subnet. The rules of a former network would be taken
// for those of another daemon, so they have to go first.
func (n *Node) forgetOld() {
	h := &n.host
	if !n.synced() || n.fenced() || !n.hostRests() || n.transition.Set() == nil {
		return
	}
	extent := n.transition.Set().Extent()
	links, networks := extent.Links, owned(n.network.config)
	h.policies = extent.Policies
	maps.DeleteFunc(h.links, func(name string, _ bool) bool { return !slices.Contains(links, name) })
	ports := n.transition.Set().Ports()
	h.ports = slices.DeleteFunc(h.ports, func(p backend.UDPPort) bool { return !slices.Contains(ports, p) })
	if !n.firewallRests() || !(cloudPart{n}).done() {
		return
	}
	own := n.lease.self.Key
	hasOwn := func(p netip.Prefix) bool {
		return cidr.Contains(p, own.V4) && !cidr.Within(networks, own.V4) ||
			cidr.Contains(p, own.V6) && !cidr.Within(networks, own.V6)
	}
	h.networks = slices.DeleteFunc(h.networks, func(p netip.Prefix) bool {
		return !slices.Contains(networks, p) && !hasOwn(p)
	})
}
