package trace

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/driver"
	"github.com/flanneld/flannel/core/node"
	"github.com/flanneld/flannel/internal/shellword"
)

// The bytes that tunnels add in front of a packet, over IPv4 and over IPv6 (interop 6.0).
var (
	vxlanHeaders     = headers{50, 70}
	wireguardHeaders = headers{60, 80}
	udpHeaders       = headers{28, 48}
	ipipHeader       = headers{20, 40}
	ipsecHeaders     = headers{77, 97}
)

type headers [2]int

// vxlan follows a packet into a vxlan device: the neighbour entry names a MAC, and the
// forwarding entry of that MAC the host behind it.
func (w *walk) vxlan(v dataplane.VXLAN) error {
	next, link := w.next(), w.out.Link
	n, ok := w.view.State.Neighs.Get(dataplane.NeighKey{Link: link, IP: next})
	if !ok {
		return w.end("neigh_missing", "neighbour", heals, "%s has no entry for %s, and no host answers requests on it",
			link, next)
	}
	w.hop("neighbour", "%s is %s", next, n.MAC)
	e, ok := w.view.State.FDB.Get(dataplane.FDBKey{Link: link, MAC: n.MAC})
	if !ok {
		return w.end("fdb_missing", "tunnel", heals, "%s has no forwarding entry for %s", link, n.MAC)
	}
	if e.Odd() {
		return w.end("fdb_missing", "tunnel", heals, "the forwarding entry of %s for %s is another program's, and leads "+
			"elsewhere", link, n.MAC)
	}
	if own, err := w.Route(Question{Dst: v.Local}); v.Local.IsValid() && (err != nil || !own.Local) {
		text := fmt.Sprintf("%s sends from %s, which is no address of this host", link, v.Local)
		if v.Local.Is4() {
			return w.end("bad_source", "tunnel", heals, "%s", text)
		}
		w.note("tunnel", "%s", text) // for IPv6, the kernel does not ask
	}
	return w.underlay(e.Dst, v.Local, vxlanHeaders, outer{"udp", v.Port},
		fmt.Sprintf("vxlan, VNI %d, UDP port %d", v.VNI, v.Port))
}

// wireguard follows a packet into a WireGuard device, which chooses the peer with the
// longest prefix that contains the destination.
func (w *walk) wireguard(state *dataplane.State, alive func(dataplane.WGPeer) bool) error {
	var found dataplane.WGPeer
	bits := -1
	for k, p := range state.WGPeers.All {
		for a := range p.AllowedIPs {
			if k.Link == w.out.Link && a.Contains(w.Flow.Dst) && a.Bits() > bits {
				found, bits = p, a.Bits()
			}
		}
	}
	switch {
	case bits < 0:
		return w.end("wg_no_peer", "tunnel", w.lostRemedy(), "%s has no peer for %s", w.out.Link, w.Flow.Dst)
	case !found.Endpoint.IsValid():
		return w.end("wg_no_endpoint", "tunnel", heals, "%s does not know where its peer %s is", w.out.Link, found.Public)
	}
	if !alive(found) {
		w.note("tunnel", "no handshake with %s in the last three minutes: the next packet asks for one; if none comes, "+
			"UDP port %d is blocked there, or the keys differ", found.Endpoint.Addr(), found.Endpoint.Port())
	}
	return w.underlay(found.Endpoint.Addr(), netip.Addr{}, wireguardHeaders, outer{"udp", found.Endpoint.Port()},
		fmt.Sprintf("WireGuard, UDP port %d", found.Endpoint.Port()))
}

// session reports whether the destination's node has a session, as the daemon says of a device in
// its own process.
func (w *walk) session(dataplane.WGPeer) bool {
	peer, _ := w.peerOf(w.Flow.Dst)
	return slices.ContainsFunc(peer.Ways, func(way node.Way) bool {
		return way.Subnet.Contains(w.Flow.Dst) && way.Session == "alive"
	})
}

// process follows a packet to a device whose packets flanneld itself carries. Only the
// daemon knows its table of peers, so the cluster's records stand for it.
func (w *walk) process(extra headers) error {
	if w.known.Unanswered {
		return w.end("no_process", "tunnel", "start flanneld; if it runs, name its --subnet-file",
			"flanneld itself carries the packets of %s, and does not answer", w.out.Link)
	}
	peer, ok := w.peerOf(w.Flow.Dst)
	if !ok {
		return w.end("no_route", "tunnel", w.lostRemedy(), "flanneld, which reads %s, knows no node with %s", w.out.Link,
			w.Flow.Dst)
	}
	if peer.State == node.PeerPending {
		w.Pending = true
		w.note("tunnel", "flanneld does not serve %s in full yet, and may drop the packet: flannelctl diff shows what it "+
			"still has to do", addressOf(peer))
	}
	from, err := w.boundTo()
	if err != nil {
		return err
	}
	return w.underlay(addressOf(peer), from, extra, outer{proto: "udp"},
		"by flanneld itself, which reads "+w.out.Link)
}

// boundTo returns the address that flanneld sends from, zero if it is not known. The socket keeps it when the host
// loses it, and the kernel then sends nothing.
func (w *walk) boundTo() (netip.Addr, error) {
	if w.known.Carried == nil {
		return netip.Addr{}, nil
	}
	from := w.known.Carried.Proxies[w.out.Link].Local.Addr()
	if !from.IsValid() {
		return from, nil
	}
	if own, err := w.Route(Question{Dst: from}); err != nil || !own.Local {
		return from, w.end("bad_source", "tunnel", heals, "flanneld, which reads %s, sends from %s, which is no address of "+
			"this host", w.out.Link, from)
	}
	return from, nil
}

// underlay follows the outer packet of a tunnel out of the host.
func (w *walk) underlay(to, from netip.Addr, extra headers, o outer, what string) error {
	size := w.Flow.Size + extra[cidr.FamilyOf(to)]
	w.hop("tunnel", "becomes %d bytes to %s (%s)", size, to, what)
	way, err := w.Route(Question{Src: from, Dst: to, Protocol: protocolNumber(o.proto, to), Port: o.port})
	switch {
	case err != nil && refusal(err) == "":
		return err
	case err != nil:
		return w.end(refusal(err), "underlay", "ip route get "+to.String()+" must name a way to that host",
			"the kernel has no way to the host %s: %v", to, err)
	case way.Local:
		return w.end("loop", "underlay", "look at ip addr, which shows the device that has it: if it is this node's own, "+
			"two nodes share an address, and flannelctl leases list shows which; else another program gave this host the "+
			"address of that node", "%s is an address of this host%s", to, w.deviceWith(to))
	}
	link, ok := w.view.link(way.Link)
	switch {
	case !ok || !link.Up:
		return w.end("link_down", "underlay", "ip link set "+shellword.Of(way.Link)+" up", "%s is down", way.Link)
	case size > link.MTU:
		w.note("underlay", "%s takes %d bytes: the packet is cut into two, which some networks drop; "+
			"set MTU in the Backend, or a smaller one for pods", way.Link, link.MTU)
	}
	if !from.IsValid() {
		from = way.Src
	}
	err = w.sent(from, to, way.Link, o)
	if err != nil {
		return err
	}
	next := to
	if way.Via.IsValid() {
		next = way.Via
	}
	n, err := w.Neighbour(way.Link, next)
	if err != nil {
		return err
	}
	if n.Failed {
		return w.end("neigh_failed", "underlay", fmt.Sprintf("is the host %s up, and on the segment of %s?", next, way.Link),
			"no host on %s answers for %s", way.Link, next)
	}
	if n.Fixed {
		w.doubt("underlay", fixed(way.Link, next, n))
	}
	w.hop("underlay", "%s goes by %s%s", to, way.Link, viaText(way.Via))
	return w.left(to, "by %s to the host %s", way.Link, to)
}

// deviceWith names the device of this host with an address; empty: none shows it.
func (w *walk) deviceWith(a netip.Addr) string {
	for _, l := range w.view.Host.Links {
		if slices.ContainsFunc(l.Addrs, func(on driver.LinkAddr) bool { return on.Prefix.Addr() == a }) {
			return ", on " + l.Name
		}
	}
	return ""
}

// fixed says that a neighbour is permanent.
func fixed(link string, ip netip.Addr, n Neighbour) string {
	return fmt.Sprintf("%s has a permanent entry, by which %s is %s: if that is not its MAC, packets are lost", link, ip,
		n.MAC)
}

func viaText(via netip.Addr) string {
	if !via.IsValid() {
		return ""
	}
	return ", gateway " + via.String()
}
