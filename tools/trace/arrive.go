package trace

import (
	"cmp"
	"net/netip"
	"slices"

	"github.com/flanneld/flannel/core/backend/alloc"
	"github.com/flanneld/flannel/core/backend/extension"
	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/driver"
	"github.com/flanneld/flannel/core/node"
	"github.com/flanneld/flannel/internal/shellword"
)

// arrive finds out how the packet comes to the host.
func (w *walk) arrive() error {
	src := w.Flow.Src
	way, err := w.Route(Question{Dst: src})
	if err == nil && way.Local {
		w.hop("arrive", "this host sends it, from its own address %s", src)
		return nil
	}
	if down := w.ownDown(src, "arrive"); down != nil {
		return down
	}
	own := w.ownDevices(src)
	flannels, served := w.byFlannel(src)
	switch {
	case err != nil && refusal(err) == "":
		return err
	case len(own) > 0: // it comes from there, wherever the host itself would send
		if !slices.ContainsFunc(own, func(l driver.Link) bool { return l.Name == way.Link }) {
			way.Link = own[0].Name
		}
	case served && (err != nil || w.astray(src, way)): // by flannel's route its node sends
		w.note("arrive", "answers to %s take another way than flannel's route: %s", src, w.otherWay(way, err))
		way = Route{Link: flannels.Link, Via: flannels.Via}
	case err != nil:
		return w.end(refusal(err), "arrive", "check the address: no pod and no host here has it",
			"%s is not an address of this host, and the kernel has no route to it: %v", src, err)
	}
	w.in = way.Link
	peer, ok := w.peerOf(src)
	if !ok || w.isOwn(src) {
		w.hop("arrive", "it comes in by %s, the source's device", way.Link)
		if w.isTunnel(way.Link) {
			w.doubt("arrive", "rules about the tunnel's packets, since no record names the node of "+src.String())
		}
		return nil
	}
	if w.astray(src, way) {
		return w.end("no_listener", "arrive", heals, "no device of flannel takes packets from %s here, the node of %s",
			addressOf(peer), src)
	}
	w.hop("arrive", "it comes in by %s, the device towards its node, %s", way.Link, addressOf(peer))
	return w.admitted(peer)
}

// otherWay describes a way of answers, or why there is none.
func (w *walk) otherWay(way Route, err error) string {
	if err != nil {
		return err.Error()
	}
	return cmp.Or(w.ruleOf(way), "a route") + " leads them out by " + way.Link
}

// byFlannel returns flannel's route to a pod of another node, whatever other route comes before it.
func (w *walk) byFlannel(pod netip.Addr) (best dataplane.Route, ok bool) {
	if _, known := w.peerOf(pod); !known {
		return best, false
	}
	for key, r := range w.view.State.Routes.All {
		longer := !ok || key.Dst.Bits() > best.Dst.Bits()
		if r.Protocol == dataplane.Protocol && r.Kind == dataplane.Unicast && key.Dst.Contains(pod) && longer {
			best, ok = r, true
		}
	}
	return best, ok
}

// peerOf returns the node with an address in its subnet. Of two records that claim it, one
// of a node that is served counts.
func (w *walk) peerOf(a netip.Addr) (peer node.Peer, known bool) {
	for _, p := range w.known.Peers {
		s := p.Subnet.Of(cidr.FamilyOf(a))
		if !s.IsValid() || !s.Contains(a) {
			continue
		}
		if p.State != node.PeerRefused {
			return p, true
		}
		peer, known = p, true
	}
	return peer, known
}

// addressOf returns the public address of a node.
func addressOf(p node.Peer) netip.Addr {
	if p.PublicIP.IsValid() {
		return p.PublicIP
	}
	return p.PublicIP6
}

// isOwn reports whether an address lies in a subnet of one of this host's own devices,
// such as the bridge of its pods.
func (w *walk) isOwn(a netip.Addr) bool { return len(w.ownDevices(a)) > 0 }

// ownDevices returns this host's own devices with a subnet that contains an address.
func (w *walk) ownDevices(a netip.Addr) []driver.Link {
	var own []driver.Link
	for _, l := range w.view.Host.Links {
		contains := func(on driver.LinkAddr) bool { return on.Prefix.Contains(a) }
		if !w.isTunnel(l.Name) && slices.ContainsFunc(l.Addrs, contains) {
			own = append(own, l)
		}
	}
	return own
}

// ownDown ends the packets from and to a pod of this host whose bridge is down: the
// kernel has no route to the bridge's subnet then, and takes that to the outside.
func (w *walk) ownDown(a netip.Addr, step string) error {
	own := w.ownDevices(a)
	up := func(l driver.Link) bool { return l.Up }
	_, others := w.peerOf(a)
	if len(own) == 0 || !w.isFlannels(a) || others || slices.ContainsFunc(own, up) {
		return nil
	}
	name := own[0].Name
	return w.end("link_down", step, "ip link set "+shellword.Of(name)+" up",
		"%s, which has the subnet of %s, is down", name, a)
}

// astray reports whether the route to a pod on another node is one that flannel does not
// make: without its mark or a tunnel, and through a gateway that is not a node. Some backends
// leave the routes to other programs, or to the router of the underlay. Without its datastore, a
// daemon may keep routes of its own to peers that it does not know. A rule may send the packet past these.
func (w *walk) astray(pod netip.Addr, way Route) bool {
	peer, known := w.peerOf(pod)
	switch {
	case !w.isFlannels(pod) || peer.Backend == alloc.Type || peer.Backend == extension.Type || isRouted(peer):
		return false
	case !known && slices.ContainsFunc(w.known.Peers, isRouted):
		return false // the router may know a node of which this one has not heard
	case w.isTunnel(way.Link) || w.view.State.Policies.Len() > 0:
		return false
	}
	if best, ok := w.best(pod); ok && best.Link == way.Link && best.Via == way.Via && best.Protocol == dataplane.Protocol {
		return false
	}
	return !w.isNode(way.Via) && !w.isOwn(pod)
}

// isRouted reports whether the router of the underlay knows the way to a peer.
func isRouted(peer node.Peer) bool {
	return slices.ContainsFunc(peer.Ways, func(w node.Way) bool { return w.Type == "router" })
}

// isBridge reports whether a device has ports.
func (w *walk) isBridge(link string) bool {
	return slices.ContainsFunc(w.view.Host.Links, func(l driver.Link) bool { return l.Master == link && link != "" })
}

// isTunnel reports whether a device is one of a backend that has tunnels.
func (w *walk) isTunnel(link string) bool {
	switch w.view.State.Links[link].Params.(type) {
	case dataplane.VXLAN, dataplane.IPIP, dataplane.WireGuard, dataplane.TUN:
		return true
	}
	return false
}
