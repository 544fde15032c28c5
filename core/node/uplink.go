package node

import (
	"slices"

	"github.com/flanneld/flannel/core/backend/all"
	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/lease"
	"github.com/flanneld/flannel/core/node/underlay"
	"github.com/flanneld/flannel/core/uplink"
)

// followUplink chooses the uplink again when that is due, and puts the choice in force.
func (n *Node) followUplink() {
	h := &n.host
	if !h.looked || !n.network.known || !n.underlay.Due(n.now) {
		return
	}
	chosen, fatal := n.underlay.Choose(n.uplinkFacts())
	if fatal != nil {
		n.exit(fatal)
	}
	if chosen {
		up := n.underlay.Uplink()
		if up != h.uplink && !n.hostLane().fresh { // time has changed the choice, and no look
			n.hostLane().outdated(n.now)
		}
		h.uplink = up
		clear(h.keepMTU) // the uplink may carry more now
		n.checkHost()
	}
	n.underlay.Watch(h.facts.Links)
}

// uplinkFacts returns what the choice of the uplink depends on. The addresses that an operator has set in the store
// take precedence over the options.
func (n *Node) uplinkFacts() underlay.Facts {
	opts, a := n.opts.Uplink, n.assigned()
	if a == nil {
		a = &lease.Assigned{}
	}
	opts.Node = a.Node
	opts.NodeIPs = n.nodeIPs(a)
	for _, f := range cidr.Families {
		if addr := a.Detected.Of(f); addr.IsValid() {
			*cidr.Pick(f, &opts.PublicIP, &opts.PublicIPv6) = addr.String()
		}
	}
	spec, _ := all.Find(n.transition.Set().Type())
	f := underlay.Facts{
		Now: n.now, Options: opts, Config: n.network.config,
		Host:         uplink.Host{Facts: n.host.facts, Own: n.ownOnHost()},
		OwnAddresses: spec.OwnAddresses, Published: a.Published, Waits: n.waitsForAddress(),
		Overlays: slices.Concat(owned(n.network.config), n.host.networks, n.store.view.Beside.Apart()),
	}
	if s := n.store.saved; s != nil {
		f.Saved = s.Uplink
		f.Before = &lease.ByFamily{V4: s.Self.Attrs.IP(cidr.V4), V6: s.Self.Attrs.IP(cidr.V6)}
	}
	return f
}

// ownOnHost returns what on the host belongs to this overlay or another one of the host.
func (n *Node) ownOnHost() uplink.Own {
	h, beside := &n.host, n.store.view.Beside
	own := uplink.Own{Networks: slices.Concat(h.networks, beside.Apart()), Bridges: h.podBridges}
	for _, l := range h.facts.Links {
		if all.NamesDevice(l.Name) || h.links[l.Name] || beside.HasDevice(l.Name) {
			own.Devices = append(own.Devices, l.Name)
		}
	}
	return own
}
