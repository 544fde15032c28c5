package node

import (
	"fmt"
	"slices"

	"github.com/flanneld/flannel/core/backend/all"
	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/driver"
	"github.com/flanneld/flannel/core/uplink"
)

// followUplink chooses the uplink again when a look shows other facts, or when the choice depends on the time. While
// the one in use is not in order, because its address is gone or being changed, it stays in force.
func (n *Node) followUplink() {
	h := &n.host
	due := !h.chooseAt.IsZero() && !n.now.Before(h.chooseAt)
	if !h.looked || !n.network.known || h.chosen && !due {
		return
	}
	h.chosen = true
	defer n.reportUplinkDown()
	h.unreachable = n.opts.Uplink.Unreachable(h.facts)
	n.once(Warning, "cannot-reach", h.unreachable)
	n.recallUplink()
	d := n.chooseUplink()
	h.chooseAt = d.At
	if d.Used.Link == "" {
		n.reportNoUplink(d.Trouble)
		h.noUplink = d.Trouble
		return
	}
	up := n.asPublished(d.Used)
	if err := n.refusePublished(up); err != nil {
		n.reportNoUplink(err)
		h.noUplink = err
		return
	}
	n.reportUplink(up, d)
	if up != h.uplink && !n.hostLane().fresh { // time has changed the choice, and no look
		n.hostLane().outdated(n.now)
	}
	h.choice, h.choiceKey = d.Memory, fmt.Sprint(d.Used, d.Left, d.Beside)
	h.uplink, h.noUplink = up, d.Trouble
	clear(h.keepMTU) // the uplink may carry more now
	n.checkHost()
}

// uplinkDown names the uplink, or the ports of one that is a bridge, if no packet can leave by it; "": packets can. The
// address stays in use, so this keeps no node from being ready: probes find out whether peers answer.
func (n *Node) uplinkDown() string {
	name := n.host.uplink.Link
	var ports []driver.Link
	for _, l := range n.host.facts.Links {
		switch {
		case l.Name == name && !l.Up:
			return fmt.Sprintf("the uplink %s is down: no packet leaves by it", name)
		case l.Name == name && l.NoCarrier:
			return fmt.Sprintf("the uplink %s has no carrier: its cable, or the other end of it", name)
		case l.Master == name && !l.Inside:
			ports = append(ports, l)
		}
	}
	works := func(l driver.Link) bool { return l.Up && !l.NoCarrier }
	if name == "" || len(ports) == 0 || slices.ContainsFunc(ports, works) {
		return ""
	}
	return fmt.Sprintf("%s, by which the uplink %s reaches other hosts, is down or has no carrier", ports[0].Name, name)
}

// reportUplinkDown logs that packets can no longer leave by the uplink, and that they can again.
func (n *Node) reportUplinkDown() {
	h, text := &n.host, n.uplinkDown()
	switch {
	case text == h.uplinkDown:
		return
	case text == "":
		n.event(Info, "uplink-up", fmt.Sprintf("packets can leave by the uplink %s again", h.uplink.Link))
	default:
		n.event(Warning, "uplink-down", text)
	}
	h.uplinkDown = text
}

// recallUplink takes over the choice of the last run.
func (n *Node) recallUplink() {
	s := n.store.saved
	if s != nil && n.host.choice.Used.Link == "" {
		n.host.choice = s.Uplink // its key changes with the first decision
	}
}

// reportUplink logs what a choice has changed. Up is the new one as peers see it.
func (n *Node) reportUplink(up uplink.Uplink, d uplink.Decision) {
	h := &n.host
	switch {
	case d.Moved != "":
		n.event(Warning, "uplink-moved", fmt.Sprintf("moved from %s to %s: %s; to pin a choice, start with %s",
			describeUplink(h.choice.Used), describeUplink(up), d.Moved, pins(h.choice.Used)))
	case h.uplink.Link == "" || d.Trouble == nil && up != h.uplink:
		n.event(Info, "uplink", "using "+describeUplink(up)+n.describeFormer(up))
	case d.Trouble == nil && h.noUplink != nil:
		n.event(Info, "uplink-back", "using "+describeUplink(up)+" again")
	}
	if d.Trouble != nil && h.noUplink == nil {
		n.event(Warning, "uplink-lost", fmt.Sprintf("%v; in use is %s", d.Trouble, describeUplink(up)))
	}
}

// pins returns the flags that keep a choice.
func pins(u uplink.Uplink) string {
	text := "--iface=" + u.Link
	for _, f := range cidr.Families {
		if a := u.Addr(f); a.IsValid() {
			text += fmt.Sprintf(" or %s=%s", [2]string{cidr.V4: "--public-ip", cidr.V6: "--public-ipv6"}[f], a)
		}
	}
	return text
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

// refusePublished returns an error if an operator has set an address in the datastore that is inside the overlay.
func (n *Node) refusePublished(up uplink.Uplink) error {
	for _, f := range cidr.Families {
		for _, network := range slices.Concat(owned(n.network.config), n.host.networks, n.store.view.Beside.Apart()) {
			r, a := n.network.config.Of(f), up.Public(f)
			if a.IsValid() && network.Contains(a) && (network != r.Network || r.Holds(a)) {
				return fmt.Errorf("the address to publish, %s, is inside the network %s, and no peer reaches it", a, network)
			}
		}
	}
	return nil
}

// describeFormer names the addresses that a former run published and that this run,
// which chooses again, does not.
func (n *Node) describeFormer(up uplink.Uplink) string {
	text := ""
	for _, f := range cidr.Families {
		s := n.store.saved
		if n.host.uplink.Link != "" || s == nil {
			return ""
		}
		was := s.Self.Attrs.IP(f)
		if was.IsValid() && was != up.Public(f) {
			text += fmt.Sprintf("; the last run published %s", was)
		}
	}
	return text
}

// reportNoUplink logs that the choice of the uplink failed. Without an earlier
// uplink the process ends, unless an operator can fix the address in the
// datastore.
func (n *Node) reportNoUplink(err error) {
	h := &n.host
	switch {
	case h.uplink.Link == "" && n.waitsForAddress():
		n.once(Error, "assignment", err.Error())
	case h.uplink.Link == "":
		n.exit(err)
	case h.noUplink == nil:
		n.event(Warning, "uplink-lost", fmt.Sprintf("%v; in use is %s", err, describeUplink(h.uplink)))
	}
}

func describeUplink(u uplink.Uplink) string {
	text := fmt.Sprintf("%s (MTU %d", u.Link, u.MTU)
	for _, f := range cidr.Families {
		if u.Addr(f).IsValid() {
			text += fmt.Sprintf(", %s, public %s", u.Addr(f), u.Public(f))
		}
	}
	text += ")"
	if u.PassedOver != "" {
		text += "; passed over: " + u.PassedOver
	}
	return text
}
