package trace

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/node"
	"github.com/flanneld/flannel/tools/ruleset"
)

// The types of addresses, as chains compare them.
const (
	ownAddress   = "local"
	otherAddress = "unicast"
)

// inner returns the traced packet as a chain sees it.
func (w *walk) inner(out string) ruleset.Packet {
	p := ruleset.Packet{Src: w.Flow.Src, Dst: w.Flow.Dst, In: w.in, Out: out, Proto: w.Flow.Proto, Port: w.Flow.Port,
		SrcType: otherAddress, DstType: w.typeOf(w.Flow.Dst), Mark: w.mark, MarkKnown: !w.anyMark, Untracked: w.untracked,
		Established: w.Flow.Established}
	if w.in == "" {
		p.SrcType = ownAddress
	}
	return p
}

// typeOf returns the type of an address.
func (w *walk) typeOf(a netip.Addr) string {
	if way, err := w.Route(Question{Dst: a}); err == nil && way.Local {
		return ownAddress
	}
	return otherAddress
}

// prerouting judges the hooks at which the packet comes in.
func (w *walk) prerouting() error {
	for _, why := range w.view.Unread {
		w.doubt("prerouting", "rules could not be read: "+why)
	}
	if w.in == "" {
		return nil
	}
	for _, frames := range w.view.Frames {
		if l, _ := w.view.link(w.in); w.isBridge(l.Name) {
			w.doubt("ingress", frames+", which see frames at the ports of "+l.Name)
		}
	}
	if err := w.onDevice(w.in, false); err != nil {
		return err
	}
	if err := w.filtered("ingress", ruleset.Ingress, w.inner("")); err != nil {
		return err
	}
	return w.filtered("prerouting", ruleset.Prerouting, w.inner(""))
}

// filter judges the rules of all programs about the packet that leaves.
func (w *walk) filter() error {
	hook := ruleset.Forward
	if w.in == "" {
		hook = ruleset.Output
	}
	before := w.mark
	if err := w.filtered("filter", hook, w.inner(w.out.Link)); err != nil {
		return err
	}
	if hook == ruleset.Output && w.mark != before { // the kernel routes it again
		if err := w.route(); err != nil {
			return err
		}
	}
	if err := w.filtered("postrouting", ruleset.Postrouting, w.inner(w.out.Link)); err != nil {
		return err
	}
	if err := w.onDevice(w.out.Link, true); err != nil {
		return err
	}
	return w.filtered("egress", ruleset.Egress, w.inner(w.out.Link))
}

// doubt notes something that may stop the packet, and cannot be judged.
func (w *walk) doubt(step, what string) {
	w.note(step, "cannot judge: %s", what)
	w.Unsure = append(w.Unsure, what)
}

// onDevice judges what a device itself does to packets.
func (w *walk) onDevice(link string, out bool) error {
	hooks, has := w.Kernel.(DeviceHooks)
	if !has {
		return nil
	}
	step := map[bool]string{false: "ingress", true: "egress"}[out]
	drops, doubts := hooks.OnDevice(link, out)
	if drops != "" {
		return w.end("fw_drop", step, "look at tc qdisc show dev "+link+" and tc filter show dev "+link+" "+step,
			"%s drops it", drops)
	}
	for _, what := range doubts {
		w.doubt(step, what)
	}
	return nil
}

// filtered ends the walk if a rule drops a packet at a hook.
func (w *walk) filtered(step string, hook ruleset.Hook, p ruleset.Packet) error {
	j := w.view.Rules[cidr.FamilyOf(p.Dst)].Judge(hook, p)
	if p.Src == w.Flow.Src {
		w.mark = j.Packet.Mark
		w.anyMark, w.untracked = !j.Packet.MarkKnown, j.Packet.Untracked
	}
	switch {
	case j.Drops != "" && j.Accepted != "":
		w.doubt(step, j.Drops+", unless this accepts it before: "+j.Accepted)
	case j.Drops != "" && isGuard(j.Drops):
		return w.end("fw_drop", step, "this host keeps the previous backend only for the nodes that have not followed the "+
			"change of backend: flannelctl change says how far each is", "%s drops it", j.Drops)
	case j.Drops != "":
		return w.end("fw_drop", step, "at the hook "+string(hook)+", put a rule that accepts it before that one, or remove "+
			"that one", "%s drops it", j.Drops)
	}
	for _, rule := range j.Doubts {
		w.doubt(step, rule)
	}
	return w.changed(step, j, p)
}

// changed tells which rules change the packet's addresses. One to another pod must keep both.
func (w *walk) changed(step string, j ruleset.Judgement, p ruleset.Packet) error {
	between := w.isFlannels(p.Src) && w.isFlannels(p.Dst)
	tunnel := step == "arrive" || step == "underlay"
	for _, rule := range j.Changes {
		switch {
		case tunnel && (j.Packet.Dst != p.Dst || j.Packet.Port != p.Port):
			return w.end("translated", step, "keep the tunnel's packets from that rule; connections that it has changed stay "+
				"so until conntrack forgets them", "%s changes the destination of the tunnel's packet", rule)
		case !between:
			continue
		case j.Packet.Dst != p.Dst:
			return w.end("translated", step, "trace the packet to the address that it gets, or keep packets between pods from "+
				"that rule", "%s changes its destination to %s", rule, destinationText(j.Packet.Dst))
		}
		w.note(step, "%s changes its source: the pod sees another address", rule)
		w.Translated = rule
	}
	return nil
}

func destinationText(a netip.Addr) string {
	if !a.IsValid() {
		return "an address that is not known"
	}
	return a.String()
}

// isGuard reports whether the rule that drops a packet at the hook input is flannel's.
func isGuard(rule string) bool {
	ours := []string{"of chain FLANNEL-INPUT ", "of chain input (nftables, table ip flannel-ipv4)",
		"of chain input (nftables, table ip6 flannel-ipv6)"}
	return slices.ContainsFunc(ours, func(chain string) bool { return strings.Contains(rule, chain) })
}

// outer is the packet of a tunnel, as chains see it.
type outer struct {
	proto string
	port  uint16 // of both ends; 0: none
}

// admitted judges whether this host lets in the packet of the tunnel that brings a
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
	case dataplane.TUN:
		if w.known.Carried == nil {
			return nil // only the daemon knows its port
		}
		socket := w.known.Carried.Proxies[w.in].Local
		if !socket.IsValid() {
			w.doubt("arrive", "rules about the tunnel's packets, since the daemon holds no socket for "+w.in)
			return nil
		}
		own, o = socket.Addr(), outer{"udp", socket.Port()}
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
	if err := w.onDevice(way.Link, false); err != nil {
		return err
	}
	p := ruleset.Packet{Src: from, Dst: own, In: way.Link, Proto: o.proto, Port: o.port,
		SrcType: otherAddress, DstType: ownAddress, MarkKnown: true}
	for _, hook := range []ruleset.Hook{ruleset.Ingress, ruleset.Prerouting, ruleset.Input} {
		if err := w.filtered("arrive", hook, p); err != nil {
			return err
		}
	}
	return w.secured("arrive", "in", from, own, o)
}

// sent judges the packet of a tunnel at the hooks where it leaves.
func (w *walk) sent(from, to netip.Addr, link string, o outer) error {
	p := ruleset.Packet{Src: from, Dst: to, Out: link, Proto: o.proto, Port: o.port,
		SrcType: ownAddress, DstType: otherAddress, MarkKnown: true}
	if err := w.secured("underlay", "out", from, to, o); err != nil {
		return err
	}
	for _, hook := range []ruleset.Hook{ruleset.Output, ruleset.Postrouting, ruleset.Egress} {
		if err := w.filtered("underlay", hook, p); err != nil {
			return err
		}
		if err := w.rerouted(hook, &p, o); err != nil {
			return err
		}
	}
	return w.onDevice(p.Out, true)
}

// rerouted asks the kernel again for the way of a tunnel's packet whose mark a rule at the hook output has changed, as
// the kernel does itself.
func (w *walk) rerouted(hook ruleset.Hook, p *ruleset.Packet, o outer) error {
	after := w.view.Rules[cidr.FamilyOf(p.Dst)].Judge(hook, *p).Packet
	if hook != ruleset.Output || !after.MarkKnown || after.Mark == p.Mark {
		return nil
	}
	p.Mark = after.Mark
	way, err := w.Route(Question{Src: p.Src, Dst: p.Dst, Mark: p.Mark, Protocol: protocolNumber(o.proto, p.Dst),
		Port: o.port})
	switch {
	case err != nil && refusal(err) == "":
		return err
	case err != nil:
		return w.end(refusal(err), "underlay", "look at ip rule, and at the rule that marks the packet: iptables-save -t "+
			"mangle; nft list ruleset", "a rule gives the tunnel's packet the mark %#x, with which the kernel has no way to "+
			"the host %s: %v", p.Mark, p.Dst, err)
	case way.Link != p.Out:
		w.doubt("underlay", fmt.Sprintf("a rule gives the tunnel's packet the mark %#x, with which it leaves by %s: %s",
			p.Mark, way.Link, cmp.Or(w.ruleOf(way), "another route")))
		p.Out = way.Link
	}
	return nil
}
