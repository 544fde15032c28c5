package node

import (
	"fmt"
	"slices"
	"strings"

	"github.com/flanneld/flannel/core/backend/all"
	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/driver"
)

// forwarding returns the settings that make the host forward packets of the
// config's families. The node sets them only if its options say so: other
// programs, and the operator, may have reasons of their own.
func (n *Node) forwarding() []dataplane.Sysctl {
	var settings []dataplane.Sysctl
	for _, f := range cidr.Families {
		if n.network.config.Of(f).Enabled() {
			settings = append(settings, dataplane.Forwarding(f))
		}
	}
	return settings
}

// checkForwarding notes the settings of the host that keep packets between pods
// from passing. It logs them once, and when packets pass again.
func (n *Node) checkForwarding() {
	h := &n.host
	h.noForwarding = n.forwardsNothing()
	if len(h.noForwarding) > 0 {
		n.once(Warning, "forwarding", strings.Join(h.noForwarding, "; "))
		return
	}
	if n.log.Lasts("forwarding") {
		n.log.Over("forwarding")
		n.event(Info, "forwarding", "the host forwards packets")
	}
}

// forwardsNothing says for each family why no packet passes between pods, with the
// remedy. With a backend that carries no packets, pods may be connected in other
// ways.
func (n *Node) forwardsNothing() (reasons []string) {
	if spec, _ := all.Find(n.transition.Set().Type()); spec.CarriesNothing {
		return nil
	}
	for _, f := range cidr.Families {
		if n.network.config.Of(f).Enabled() {
			reasons = append(reasons, n.forwardsNone(f)...)
		}
	}
	return reasons
}

// forwardsNone says why no packet of a family passes: those from peers do not, those from this node's
// own pods do not, or neither, of which the host's setting is one reason.
func (n *Node) forwardsNone(f cidr.Family) (reasons []string) {
	in, known := n.entrance(f)
	if known && in.NoForwarding[f] {
		reasons = append(reasons, n.describeForwarding(f, in.Name, "so none passes between pods"))
		if !n.asksLink(f) {
			return reasons
		}
	}
	links := n.host.facts.Links
	i := slices.IndexFunc(links, func(l driver.Link) bool { return l.NoForwarding[f] && n.ofPods(l, f) })
	if i >= 0 {
		reasons = append(reasons, n.describeForwarding(f, links[i].Name, "so its pods reach nothing outside it"))
	}
	return reasons
}

// ofPods reports whether packets of this node's pods come in by a link: it is up and has an address in
// the node's subnet, as the bridge of the CNI plugin has, and is not flannel's. Flannel does not change
// it, since the CNI plugin made it.
func (n *Node) ofPods(l driver.Link, f cidr.Family) bool {
	return l.Up && !l.Loopback && !n.host.links[l.Name] && slices.ContainsFunc(l.Addrs, func(a driver.LinkAddr) bool {
		return n.lease.self.Key.Of(f).Contains(a.Prefix.Addr())
	})
}

// forwardingBlocked says why packets between pods are not forwarded: a setting of the
// kernel, or a foreign rule of the firewall.
func (n *Node) forwardingBlocked() []string {
	reasons := slices.Clone(n.host.noForwarding)
	for _, blocked := range n.firewall.blocked {
		reasons = append(reasons, blocked.Error())
	}
	return reasons
}

// entrance returns the link by which packets of a family come in from peers: the
// device with an address of the overlay, or else the uplink.
func (n *Node) entrance(f cidr.Family) (driver.Link, bool) {
	name := n.host.uplink.Link
	var last dataplane.Addr
	for a := range n.host.want.state.Addrs {
		if cidr.FamilyOf(a.Prefix.Addr()) == f && a.Compare(last) > 0 {
			last, name = a, a.Link
		}
	}
	links := n.host.facts.Links
	i := slices.IndexFunc(links, func(l driver.Link) bool { return l.Name == name })
	if i < 0 {
		return driver.Link{}, false
	}
	return links[i], true
}

// asksLink reports whether the setting of a link alone can be the reason that the host forwards no
// packet which comes in by it: the host forwards packets that come in by others. In IPv6 a link's own
// setting can only allow more than the host's does.
func (n *Node) asksLink(f cidr.Family) bool {
	forwards := func(l driver.Link) bool { return !l.NoForwarding[f] }
	return f == cidr.V4 && slices.ContainsFunc(n.host.facts.Links, forwards)
}

// describeForwarding names the effect, and the setting to change: that of the host, or that of one link
// if the host forwards IPv4 packets that come in by others.
func (n *Node) describeForwarding(f cidr.Family, link, effect string) string {
	if n.asksLink(f) {
		return fmt.Sprintf("the host forwards no IPv4 packet that comes in by %s, %s: set net/ipv4/conf/%s/forwarding to 1",
			link, effect, link)
	}
	setting := dataplane.Forwarding(f)
	remedy := "or start flanneld with --ip-forward"
	if n.opts.IPForward {
		remedy = "which flanneld is about to do"
		if n.host.denied[setting.Path] {
			remedy = "which flanneld may not do"
		}
	}
	return fmt.Sprintf("the host forwards no %s packet, %s: set %s to 1, %s",
		f, effect, strings.ReplaceAll(setting.Path, "/", "."), remedy)
}
