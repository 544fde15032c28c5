package trace

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/node"
)

// inner returns the traced packet as a filter sees it.
func (w *walk) inner(out string) packet {
	return packet{src: w.Flow.Src, dst: w.Flow.Dst, in: w.in, out: out, proto: w.Flow.Proto, port: w.Flow.Port}
}

// filter judges the rules of all programs about the packet that leaves.
func (w *walk) filter() error {
	for _, why := range w.view.Unread {
		w.note("filter", "rules could not be read: %s", why)
	}
	hook := hookForward
	if w.in == "" {
		hook = hookOutput
	}
	return w.filtered("filter", hook, w.inner(w.out.Link))
}

// filtered ends the walk if a rule drops a packet at a hook.
func (w *walk) filtered(step, hook string, p packet) error {
	j := judge(w.view.Filters[cidr.FamilyOf(p.dst)], hook, p)
	switch {
	case j.drops != "" && j.accepted != "":
		w.note(step, "%s drops it, unless this accepts it before: %s", j.drops, j.accepted)
	case j.drops != "" && isGuard(j.drops):
		return w.end("fw_drop", step, "this host keeps the former backend only for the nodes that have not followed the "+
			"change of backend: flannelctl change says how far each is", "%s drops it", j.drops)
	case j.drops != "":
		return w.end("fw_drop", step, "put a rule that accepts it before that one, or remove that one",
			"%s drops it", j.drops)
	}
	for _, rule := range j.mayDrop {
		w.note(step, "flannelctl cannot say whether this drops it: %s", rule)
	}
	return nil
}

// isGuard reports whether the rule that drops a packet at the hook input is flannel's.
func isGuard(rule string) bool {
	ours := []string{"of chain FLANNEL-INPUT ", "of chain input (nftables, table ip flannel-ipv4)",
		"of chain input (nftables, table ip6 flannel-ipv6)"}
	return slices.ContainsFunc(ours, func(chain string) bool { return strings.Contains(rule, chain) })
}

// outer is the packet of a tunnel, as filters see it.
type outer struct {
	proto string
	port  uint16 // of both ends; 0: none
}

// admitted judges whether this host's rules let in the packet of the tunnel that brings a
// packet from a peer.
func (w *walk) admitted(peer node.Peer) error {
	var from, own netip.Addr
	var o outer
	switch l := w.view.State.Links[w.in].Params.(type) {
	case dataplane.VXLAN:
		own, o = l.Local, outer{"udp", l.Port}
	case dataplane.WireGuard:
		o = outer{"udp", l.ListenPort}
	case dataplane.IPIP:
		own, o = l.Local, outer{proto: "ipencap"}
	default:
		return nil
	}
	from = peer.PublicIP
	if !from.IsValid() || own.Is6() {
		from = peer.PublicIP6
	}
	if !from.IsValid() {
		return nil
	}
	way, err := w.Route(Question{Dst: from})
	if err != nil {
		return nil // how the packet came is not known
	}
	if !own.IsValid() {
		own = way.Src
	}
	if !own.IsValid() {
		return nil
	}
	return w.filtered("arrive", hookInput, packet{src: from, dst: own, in: way.Link, proto: o.proto, port: o.port})
}
