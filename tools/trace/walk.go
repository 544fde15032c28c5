package trace

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/control"
	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/driver"
	"github.com/flanneld/flannel/core/node"
	"github.com/flanneld/flannel/core/probe"
	"github.com/flanneld/flannel/core/reconcile"
	"github.com/flanneld/flannel/internal/shellword"
	"github.com/flanneld/flannel/tools/ruleset"
)

// Known holds the facts that the daemon and its files add. All may be empty.
type Known struct {
	Networks []netip.Prefix // of flannel
	Peers    []node.Peer    // as the daemon serves them
	// Carried holds what the daemon's last look found. The devices that its own process carries have
	// peers there, which the kernel does not know. Nil: it is not known.
	Carried *dataplane.State
	// Unanswered says that no daemon has answered.
	Unanswered bool
}

// CarriedBy returns what a daemon's last look at its host found, or nil: it has not looked, or answers with
// the text of another version.
func CarriedBy(lanes []control.Tables) *dataplane.State {
	for _, lane := range lanes {
		if lane.Lane != node.HostLane.String() || lane.LastLook.IsZero() {
			continue
		}
		if state, err := dataplane.ParseDump(lane.Have); err == nil {
			return state
		}
	}
	return nil
}

// Walk traces a packet through a host.
func Walk(ctx context.Context, k Kernel, flow Flow, known Known) (*Result, error) {
	view, err := k.View(ctx, known.Networks)
	if err != nil {
		return nil, err
	}
	w := &walk{Kernel: k, view: view, known: known, Result: &Result{Flow: flow}, family: cidr.FamilyOf(flow.Dst)}
	for _, step := range []func() error{w.arrive, w.prerouting, w.forward, w.route, w.policies, w.filter, w.policy,
		w.device, w.carry} {
		err := step()
		if errors.Is(err, errOver) {
			return w.Result, nil
		}
		if err != nil {
			return nil, err
		}
	}
	return w.Result, nil
}

// errOver ends a walk: the packet has ended, or has left the host.
var errOver = errors.New("the walk is over")

// walk is a trace under way.
type walk struct {
	Kernel
	*Result
	view   *View
	known  Known
	family cidr.Family
	in     string // the device by which the packet came; empty: this host sends it
	out    Route
	link   driver.Link // of out
	// The mark of the packet, that it is not known, and that a rule keeps the packet from connection tracking.
	mark      uint32
	anyMark   bool
	untracked bool
}

func (w *walk) hop(step, format string, args ...any) {
	w.Hops = append(w.Hops, Hop{Step: step, Text: fmt.Sprintf(format, args...)})
}

func (w *walk) note(step, format string, args ...any) {
	w.hop(step, format, args...)
	w.Hops[len(w.Hops)-1].Note = true
}

// end ends the packet.
func (w *walk) end(reason, step, remedy, format string, args ...any) error {
	w.hop(step, format, args...)
	w.Reason, w.Remedy = reason, remedy
	return errOver
}

// arrived ends the walk of a packet that stays on the host.
func (w *walk) arrived(step, format string, args ...any) error {
	w.hop(step, format, args...)
	w.Arrived = true
	return errOver
}

// left ends the walk of a packet that has left for another host. The host is a node of
// flannel if next is valid.
func (w *walk) left(next netip.Addr, format string, args ...any) error {
	w.hop("leave", format, args...)
	w.Next = next
	w.Probe = w.complaint()
	return errOver
}

// complaint returns the fault that probes have found with the destination's node, or nil.
func (w *walk) complaint() *probe.Result {
	peer, _ := w.peerOf(w.Flow.Dst)
	for _, way := range peer.Ways {
		r := way.Probe
		if way.Subnet.Contains(w.Flow.Dst) && r != nil && r.Finding != probe.Unknown && r.Finding != probe.Well {
			return r
		}
	}
	return nil
}

// isNode reports whether an address is that of a node of flannel.
func (w *walk) isNode(a netip.Addr) bool {
	return a.IsValid() &&
		slices.ContainsFunc(w.known.Peers, func(p node.Peer) bool { return p.PublicIP == a || p.PublicIP6 == a })
}

// heals is the remedy for faults that a running daemon repairs by itself.
const heals = "flanneld puts this back within seconds; if it stays, flannelctl status and flannelctl diff say why"

// forward judges whether the host forwards a packet that came from elsewhere.
func (w *walk) forward() error {
	if w.in == "" {
		return nil
	}
	if way, err := w.Route(Question{Dst: w.Flow.Dst}); err == nil && way.Local {
		return nil // the host keeps it
	}
	link, ok := w.view.link(w.in)
	if ok && link.NoForwarding[w.family] {
		return w.end("no_forwarding", "forward", "sysctl -w "+shellword.Of(w.forwardingOf(w.in)+"=1"),
			"this host forwards no %s packet that comes in by %s", w.family, w.in)
	}
	if len(w.view.Rules[w.family]) > 0 {
		w.hop("forward", "the host forwards %s packets", w.family)
		return nil // the hook forward says more than the blocks that flanneld knows of
	}
	for _, b := range w.view.Firewall.Blocks {
		switch {
		case b.Family != w.family || w.overruled(b):
			continue
		case b.Doubtful:
			w.note("forward", "%s drops it, unless a rule before that accepts it", b.By)
			continue
		}
		return w.end("fw_drop", "forward", "flannelctl check names the command that accepts pods' packets there",
			"%s drops it", b.By)
	}
	w.hop("forward", "the host forwards %s packets, and no filter that flannel knows of drops them", w.family)
	return nil
}

// forwardingOf returns the setting that makes the host forward packets from a device, as sysctl spells it. IPv4 has one
// for each device, and a write of the host's own that changes nothing leaves those alone.
func (w *walk) forwardingOf(link string) string {
	forwards := func(l driver.Link) bool { return !l.Loopback && l.Name != link && !l.NoForwarding[w.family] }
	if w.family == cidr.V4 && slices.ContainsFunc(w.view.Host.Links, forwards) {
		return "net/ipv4/conf/" + link + "/forwarding"
	}
	return strings.ReplaceAll(dataplane.Forwarding(w.family).Path, "/", ".")
}

// overruled reports whether a chain of flannel accepts packets before a block drops them.
func (w *walk) overruled(b driver.ForwardBlock) bool {
	key := dataplane.ChainKey{Flavour: b.OverriddenBy, Family: b.Family, Hook: dataplane.Forward}
	c, ok := w.view.Chains.Chains[key]
	return ok && c.Jump == dataplane.Placed
}

// route asks the kernel for the way out.
func (w *walk) route() error {
	way, err := w.Route(Question{Src: w.Flow.Src, Dst: w.Flow.Dst, In: w.in, Mark: w.mark,
		Protocol: protocolNumber(w.Flow.Proto, w.Flow.Dst), Port: w.Flow.Port})
	reason := refusal(err)
	switch {
	case err != nil && reason == "":
		return err
	case errors.Is(err, ErrSource):
		return w.end(reason, "route", "set net.ipv4.conf."+w.in+".rp_filter to 2, or remove the other route to the source",
			"the reverse path filter drops it: %s is not the device by which the kernel would answer %s", w.in, w.Flow.Src)
	case errors.Is(err, ErrBlackhole) && w.in != "" && w.wayBack() != nil:
		return w.end(reason, "route", "look at ip rule and ip route show table all"+w.foreignRules(), "the kernel takes no "+
			"packet from %s that comes in by %s: it has no way back there: %v", w.Flow.Src, w.in, w.wayBack())
	case err != nil:
		return w.end(reason, "route", w.lostRemedy(), "the kernel has no way to %s: %v", w.Flow.Dst, err)
	case way.Local:
		if err := w.filtered("filter", ruleset.Input, w.inner("")); err != nil {
			return err
		}
		if err := w.pass("in"); err != nil {
			return err
		}
		return w.arrived("route", "%s is an address of this host", w.Flow.Dst)
	}
	if err := w.ownDown(w.Flow.Dst, "route"); err != nil {
		return err
	}
	w.out = way
	if way.Via.IsValid() {
		w.hop("route", "%s goes via %s, device %s", w.Flow.Dst, way.Via, way.Link)
	} else {
		w.hop("route", "%s is on the link of device %s", w.Flow.Dst, way.Link)
	}
	if rule := w.ruleOf(way); rule != "" {
		w.note("route", "%s chose that, before the table main", rule)
	}
	return nil
}

// wayBack returns why the kernel refuses packets to the source: it then takes none from there either.
func (w *walk) wayBack() error {
	if _, err := w.Route(Question{Dst: w.Flow.Src}); refusal(err) != "" {
		return err
	}
	return nil
}

// The kernel's own tables of routes.
const (
	tableDefault = 253
	tableMain    = 254
	tableLocal   = 255
)

// ruleOf names the rule and the table by which the kernel chose a way, empty for its own tables.
func (w *walk) ruleOf(way Route) string {
	if way.Table == 0 || way.Table == tableMain || way.Table == tableLocal {
		return ""
	}
	for _, rule := range w.view.Policies[w.family] {
		if rule.Table == way.Table {
			return fmt.Sprintf("ip rule %q with a route of table %d", rule.Text, way.Table)
		}
	}
	return fmt.Sprintf("a route of table %d", way.Table)
}

// foreignRoute returns another program's route that leads packets to a node's pods past flannel. It is no wider than
// flannel's networks: a wider one, such as the default route, takes the packet only because flannel's is missing.
func (w *walk) foreignRoute() (best dataplane.Route, ok bool) {
	best, ok = w.best(w.Flow.Dst)
	peer, known := w.peerOf(w.Flow.Dst)
	if !ok || !known || peer.State == node.PeerRefused || best.Link != w.out.Link || best.Protocol == dataplane.Protocol {
		return best, false
	}
	return best, slices.ContainsFunc(w.known.Networks, func(n netip.Prefix) bool { return cidr.Contains(n, best.Dst) })
}

// best returns the route to a pod with the longest prefix.
func (w *walk) best(pod netip.Addr) (best dataplane.Route, ok bool) {
	for key, r := range w.view.State.Routes.All {
		if key.Dst.Contains(pod) && (!ok || key.Dst.Bits() > best.Dst.Bits()) {
			best, ok = r, true
		}
	}
	return best, ok
}

// lostRemedy says what to do about a destination without a route.
func (w *walk) lostRemedy() string {
	for _, p := range w.known.Peers {
		if s := p.Subnet.Of(w.family); s.IsValid() && s.Contains(w.Flow.Dst) {
			if len(p.Problems) > 0 {
				return fmt.Sprintf("the peer with %s is not served: %s", s, p.Problems[0])
			}
			if r, ok := w.view.State.Routes.Get(dataplane.RouteKey{Dst: s}); ok && r.Kind == dataplane.Unicast {
				return fmt.Sprintf("flannel's route to %s stands, and another program's rule or route comes first: "+
					"ip rule; ip route show table all%s", s, w.foreignRules())
			}
			return heals
		}
	}
	if w.isOwn(w.Flow.Dst) {
		return "another program's rule or route comes before that of the device with this subnet: ip rule; ip route show " +
			"table all" + w.foreignRules()
	}
	return "no node that flanneld knows of has this address: flannelctl peers lists them"
}

// foreignRules lists the rules of ip rule that the kernel does not make itself.
func (w *walk) foreignRules() string {
	var foreign []string
	for _, r := range w.view.Policies[w.family] {
		if !slices.Contains([]uint32{tableLocal, tableMain, tableDefault}, r.Table) {
			foreign = append(foreign, strconv.Quote(r.Text))
		}
	}
	if len(foreign) == 0 {
		return ""
	}
	return ". ip rule has " + strings.Join(foreign[:min(len(foreign), 4)], ", ")
}

// refusal returns the reason of an error with which a kernel drops packets, or "".
func refusal(err error) string {
	switch {
	case errors.Is(err, ErrNoRoute):
		return "no_route"
	case errors.Is(err, ErrBlackhole):
		return "blackhole"
	case errors.Is(err, ErrSource):
		return "rp_filter"
	}
	return ""
}

// policy applies the policies of IPsec to a packet that leaves.
func (w *walk) policy() error {
	var first *dataplane.Policy
	for k, p := range w.view.State.Policies.All {
		selects := k.Dir == dataplane.PolicyOut && k.Src.Contains(w.Flow.Src) && k.Dst.Contains(w.Flow.Dst)
		if selects && (first == nil || p.Priority < first.Priority) {
			first = &p
		}
	}
	switch {
	case first == nil || first.Action == dataplane.Allow:
		return nil
	case first.Action == dataplane.Block && first.Priority != dataplane.PriorityBlock:
		return w.end("xfrm_blocked", "policy", foreignPolicy, "an IPsec policy of another program blocks it: %s", first)
	case first.Action == dataplane.Block:
		return w.end("xfrm_blocked", "policy", "flannelctl peers says whether the peer is served; "+heals,
			"an IPsec policy blocks it: no node is known that has %s", w.Flow.Dst)
	}
	w.hop("policy", "IPsec demands a tunnel from %s to %s", first.From, first.To)
	return w.underlay(first.To, first.From, ipsecHeaders, outer{proto: "esp"}, "ESP")
}

// device checks the device of the route.
func (w *walk) device() error {
	link, ok := w.view.link(w.out.Link)
	w.link = link
	size := link.MTU
	if w.out.MTU > 0 {
		size = min(size, w.out.MTU)
	}
	switch {
	case !ok:
		return w.end("link_down", "device", heals, "%s is gone", w.out.Link)
	case !link.Up:
		return w.end("link_down", "device", heals, "%s is down", link.Name)
	case w.Flow.Size > size:
		return w.end("too_big", "device", fmt.Sprintf("give pods an MTU of at most %d: "+
			"FLANNEL_MTU in the subnet file says so, and pods made before a change keep their own", size),
			"%d bytes do not fit into %s, which takes %d", w.Flow.Size, link.Name, size)
	}
	w.hop("device", "%s is up and takes %d bytes", link.Name, size)
	return nil
}

// next returns the address whose MAC the packet needs.
func (w *walk) next() netip.Addr {
	if w.out.Via.IsValid() {
		return w.out.Via
	}
	return w.Flow.Dst
}

// carry follows the packet through the device.
func (w *walk) carry() error {
	switch l := w.view.State.Links[w.out.Link].Params.(type) {
	case dataplane.VXLAN:
		return w.vxlan(l)
	case dataplane.IPIP:
		return w.underlay(w.next(), l.Local, ipipHeader, outer{proto: "ipencap"}, "IP in IP")
	case dataplane.WireGuard:
		switch {
		case l.Userspace && w.known.Carried == nil:
			return w.process(wireguardHeaders)
		case l.Userspace:
			return w.wireguard(w.known.Carried, w.session)
		}
		return w.wireguard(w.view.State, w.view.alive)
	case dataplane.TUN:
		return w.process(udpHeaders)
	}
	return w.resolve(w.out.Link, w.next())
}

// resolve finds the host or pod with an address on a link.
func (w *walk) resolve(link string, next netip.Addr) error {
	own := w.ownDevices(w.Flow.Dst)
	isLink := func(l driver.Link) bool { return l.Name == link }
	if w.isFlannels(w.Flow.Dst) && len(own) > 0 && !slices.ContainsFunc(own, isLink) {
		return w.end("no_route", "route", "look at ip rule and ip route show table all: a rule or route of another program "+
			"comes before that of "+own[0].Name, "%s leads %s out by %s, and the pod is on %s",
			cmp.Or(w.ruleOf(w.out), "a route"), w.Flow.Dst, link, own[0].Name)
	}
	if rule := w.ruleOf(w.out); rule != "" && w.astray(w.Flow.Dst, w.out) {
		remedy := fmt.Sprintf("look at ip rule and ip route show table %d: the program that made that rule, such as a VPN, "+
			"has to leave flannel's network out", w.out.Table)
		return w.end("no_route", "route", remedy, "%s leads %s past flannel, out by %s", rule, w.Flow.Dst, link)
	}
	if foreign, ok := w.foreignRoute(); ok && w.astray(w.Flow.Dst, w.out) {
		return w.end("no_route", "route", reconcile.DeleteCommand(foreign), "another program's %s leads it past flannel, "+
			"to %s by %s", foreign, next, link)
	}
	if w.astray(w.Flow.Dst, w.out) {
		return w.end("no_route", "route", w.lostRemedy(), "flannel has no route to %s: the packet would leave by %s to %s, "+
			"as any packet to the outside does", w.Flow.Dst, link, next)
	}
	n, err := w.Neighbour(link, next)
	if err != nil {
		return err
	}
	if n.Failed {
		return w.end("neigh_failed", "neighbour", fmt.Sprintf("is %s running, and on the segment of %s?", next, link),
			"no host on %s answers for %s", link, next)
	}
	to := "which the kernel will ask for"
	if n.Exists {
		to = "which is " + n.MAC.String()
	}
	pod := next == w.Flow.Dst && w.isFlannels(next) && w.isOwn(next)
	if pod && n.Fixed {
		w.doubt("neighbour", fixed(link, next, n))
	}
	if pod {
		return w.arrived("leave", "to the pod %s on %s, %s", next, link, to)
	}
	w.translate()
	if p, ok := w.peerOf(w.Flow.Dst); ok && isRouted(p) {
		w.note("route", "the cloud provider's router leads it to %s if its table has the route of subnet %s; that node "+
			"watches the route", addressOf(p), p.Subnet)
		return w.left(addressOf(p), "by %s to the router %s, %s", link, next, to)
	}
	peer := next
	if !w.isNode(next) {
		peer = netip.Addr{}
	}
	return w.left(peer, "by %s to %s, %s", link, next, to)
}

// translate finds the source of a packet that leaves flannel's networks.
func (w *walk) translate() {
	if w.in == "" || !w.isFlannels(w.Flow.Src) || w.isFlannels(w.Flow.Dst) {
		return
	}
	for k, c := range w.view.Chains.Chains {
		if k.Family == w.family && k.Hook == dataplane.Postrouting && c.Jump == dataplane.Placed {
			w.hop("source", "flannel's rules give it the address of %s (masquerade)", w.out.Link)
			return
		}
	}
	w.note("source", "no rule of flannel changes its source %s, so answers may not find it; see flanneld --ip-masq",
		w.Flow.Src)
}

func (w *walk) isFlannels(a netip.Addr) bool {
	return slices.ContainsFunc(w.known.Networks, func(n netip.Prefix) bool { return n.Contains(a) })
}
