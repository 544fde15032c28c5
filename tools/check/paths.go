package check

import (
	"context"
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strings"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/node"
	"github.com/flanneld/flannel/core/probe"
	"github.com/flanneld/flannel/internal/shellword"
	"github.com/flanneld/flannel/tools/ruleset"
	"github.com/flanneld/flannel/tools/trace"
)

// Path is the way of a packet between a pod of this host and one of a peer, through this host.
type Path struct {
	Peer   netip.Addr // its public address
	Out    bool       // towards the peer
	Kind   string     // of the packets, such as "packets of pods"
	Result *trace.Result
}

// The kinds of packets that are traced.
const (
	ofPods   = "packets of pods"
	ofTCP    = "packets of TCP of pods"
	answers  = "answers of pods"
	ofProbes = "probes"
	outside  = "packets of pods to addresses outside flannel's network"
)

// mostTraced is the number of peers whose packets are traced, and mostPods that of pods of this host.
const (
	mostTraced = 8
	mostPods   = 4
)

// onceKernel looks at a host once for many packets.
type onceKernel struct {
	trace.Kernel
	view *trace.View
}

// View implements [trace.Kernel].
func (k *onceKernel) View(context.Context, []netip.Prefix) (*trace.View, error) { return k.view, nil }

// OnDevice implements [trace.DeviceHooks].
func (k *onceKernel) OnDevice(link string, out bool) (string, []string) {
	if hooks, has := k.Kernel.(trace.DeviceHooks); has {
		return hooks.OnDevice(link, out)
	}
	return "", nil
}

// podLister is a kernel that knows the addresses of pods which have sent packets of late.
type podLister interface {
	Neighbours(within netip.Prefix) []netip.Addr
}

// readPaths traces packets between this host's pods and those of its peers.
func (g *gatherer) readPaths(ctx context.Context) {
	if g.Kernel == nil || g.f.Network == nil || !g.f.SubnetFile.Subnet.IsValid() {
		return
	}
	known := trace.Known{Peers: g.f.Peers, Unanswered: g.f.Status == nil}
	for _, family := range g.f.families() {
		known.Networks = append(known.Networks, g.f.Network.Of(family).Network)
	}
	view, err := g.Kernel.View(ctx, known.Networks)
	g.note("the ways of packets", err)
	if err != nil {
		return
	}
	k := &onceKernel{g.Kernel, view}
	for _, family := range g.f.families() {
		own := g.f.SubnetFile.Subnet.Of(family)
		if !own.IsValid() {
			continue
		}
		pods := g.pods(own)
		g.traceOutside(ctx, k, known, pods[0])
		for i, p := range g.f.tracedPeers(family) {
			far := podOf(p.Subnet.Of(family))
			g.tracePath(ctx, k, known, Path{Peer: addressOf(p), Out: true}, trace.Flow{Src: pods[0], Dst: far})
			for _, pod := range pods[:max(1, len(pods)*(1-min(i, 1)))] { // all of them for the first peer
				g.tracePath(ctx, k, known, Path{Peer: addressOf(p)}, trace.Flow{Src: far, Dst: pod})
			}
			g.traceProbe(ctx, k, known, p, family)
		}
	}
}

// traceProbe traces a peer's probe to this host's own address in flannel's network, by which the peer judges the way
// here. It passes other rules than the packets of pods.
func (g *gatherer) traceProbe(ctx context.Context, k *onceKernel, known trace.Known, p node.Peer, family cidr.Family) {
	flow := trace.Flow{Src: p.Subnet.Of(family).Masked().Addr(), Dst: k.ownAddress(known.Networks, family)}
	own := g.f.SubnetFile.Subnet.Of(family).Addr()
	if flow.Dst != own {
		return // the backend has no device with an address
	}
	flow.Size, flow.Proto = pingSize, "icmp"
	r, err := trace.Walk(ctx, k, flow, known)
	g.note("the way of a probe", err)
	if err == nil && r.Reason == "fw_drop" && r.Hops[len(r.Hops)-1].Step == "filter" {
		g.f.Paths = append(g.f.Paths, Path{Peer: addressOf(p), Kind: ofProbes, Result: r})
	}
}

// traceOutside traces a connection of a pod to an address that no host has, if the host has a way there.
func (g *gatherer) traceOutside(ctx context.Context, k *onceKernel, known trace.Known, pod netip.Addr) {
	family := cidr.FamilyOf(pod)
	far := cidr.Pick(family, netip.AddrFrom4([4]byte{192, 0, 2, 1}), netip.MustParseAddr("2001:db8::1"))
	const https = 443
	r, err := trace.Walk(ctx, k, trace.Flow{Src: pod, Dst: far, Size: pingSize, Proto: "tcp", Port: https}, known)
	g.note("the way to the outside", err)
	if err == nil && r.Reason == "fw_drop" {
		g.f.Paths = append(g.f.Paths, Path{Kind: outside, Out: true, Result: r})
	}
}

const pingSize = 84

// tracePath traces one packet that begins a connection. If it passes, packets of TCP and answers may not.
func (g *gatherer) tracePath(ctx context.Context, k *onceKernel, known trace.Known, p Path, flow trace.Flow) {
	flow.Size = pingSize
	for _, kind := range []string{ofPods, ofTCP, answers} {
		p.Kind, flow.Proto = kind, "icmp"
		flow.Established = kind == answers
		if kind == ofTCP {
			flow.Proto = "tcp"
		}
		p.Result = nil
		g.traceKind(ctx, k, known, &p, flow)
		if p.Result != nil && (kind == ofPods || p.stuck()) { // what is not known of the others, the first says too
			g.f.Paths = append(g.f.Paths, p)
		}
		if p.Result == nil || p.stuck() {
			return
		}
	}
}

// traceKind traces one packet.
func (g *gatherer) traceKind(ctx context.Context, k *onceKernel, known trace.Known, p *Path, flow trace.Flow) {
	own := flow.Dst
	if p.Out {
		own = flow.Src
	}
	onBridge := func(l link) bool {
		return slices.ContainsFunc(l.Addrs, func(a linkAddr) bool { return !a.Prefix.IsSingleIP() && a.Prefix.Contains(own) })
	}
	var err error
	if slices.ContainsFunc(k.view.Host.Links, onBridge) {
		p.Result, err = trace.Walk(ctx, k, flow, known)
	} else {
		p.Result, err = g.withoutPods(ctx, k, known, *p, flow)
	}
	g.note("the way of a packet", err)
}

// withoutPods traces a packet on a host without pods, which has no bridge yet: the rules at the hook forward, then the
// way of the host's own packet, or that of the peer's packet as far as the bridge.
func (g *gatherer) withoutPods(ctx context.Context, k *onceKernel, known trace.Known, p Path, flow trace.Flow) (
	*trace.Result, error,
) {
	r := g.forwarded(k.view, p, flow)
	if r.Trouble() {
		return r, nil
	}
	if p.Out {
		flow.Src = k.ownAddress(known.Networks, cidr.FamilyOf(flow.Dst))
		if !flow.Src.IsValid() {
			return r, nil
		}
	}
	way, err := trace.Walk(ctx, k, flow, known)
	if err != nil || !p.Out && way.Trouble() && way.Hops[len(way.Hops)-1].Step == "route" {
		return r, err
	}
	return way, nil
}

// ownAddress returns an address of the host inside flannel's networks.
func (k *onceKernel) ownAddress(networks []netip.Prefix, family cidr.Family) netip.Addr {
	for _, l := range k.view.Host.Links {
		for _, a := range l.Addrs {
			addr := a.Prefix.Addr()
			inside := slices.ContainsFunc(networks, func(n netip.Prefix) bool { return n.Contains(addr) })
			if cidr.FamilyOf(addr) == family && inside {
				return addr
			}
		}
	}
	return netip.Addr{}
}

// forwarded judges a packet at the hook forward alone.
func (g *gatherer) forwarded(view *trace.View, p Path, flow trace.Flow) *trace.Result {
	packet := ruleset.Packet{Src: flow.Src, Dst: flow.Dst, Proto: flow.Proto, SrcType: "unicast", DstType: "unicast",
		MarkKnown: true, Established: flow.Established}
	packet.In, packet.Out = "cni0", g.f.deviceTo(flow.Dst)
	if !p.Out {
		packet.In, packet.Out = g.f.deviceTo(flow.Src), "cni0"
	}
	j := view.Rules[cidr.FamilyOf(flow.Dst)].Judge(ruleset.Forward, packet)
	r := &trace.Result{Flow: flow, Unsure: j.Doubts}
	if j.Drops != "" && j.Accepted == "" {
		r.Reason = "fw_drop"
		r.Hops = []trace.Hop{{Step: "filter", Text: j.Drops + " drops it"}}
		r.Remedy = "put a rule that accepts it before that one, or remove that one"
	}
	return r
}

// deviceTo returns the device by which packets reach a peer's pod.
func (f *Facts) deviceTo(pod netip.Addr) string {
	for _, p := range f.Peers {
		for _, w := range p.Ways {
			if w.Subnet.Contains(pod) {
				return w.Link
			}
		}
	}
	return ""
}

// pods returns addresses of pods of this host, at least one; if none has sent anything, the first that a pod gets.
func (g *gatherer) pods(subnet netip.Prefix) []netip.Addr {
	var pods []netip.Addr
	if k, can := g.Kernel.(podLister); can {
		pods = k.Neighbours(subnet)
	}
	if len(pods) == 0 {
		pods = []netip.Addr{podOf(subnet)}
	}
	return pods[:min(len(pods), mostPods)]
}

// podOf returns the first address of a subnet that a pod gets: the bridge has the one before.
func podOf(subnet netip.Prefix) netip.Addr { return subnet.Masked().Addr().Next().Next() }

// tracedPeers returns the peers whose packets are traced: first those that do not answer.
func (f *Facts) tracedPeers(family cidr.Family) []node.Peer {
	var silent, others []node.Peer
	for _, p := range f.Peers {
		fails := slices.ContainsFunc(p.Ways, func(w node.Way) bool {
			return w.Probe != nil && w.Probe.Finding != probe.Well && w.Probe.Finding != probe.Unknown
		})
		if p.State != node.PeerServed || p.Reserved || !p.Subnet.Of(family).IsValid() {
			continue
		}
		if fails {
			silent = append(silent, p)
		} else {
			others = append(others, p)
		}
	}
	all := append(silent, others...)
	return all[:min(len(all), mostTraced)]
}

// ended are the paths that end in one way.
type ended struct {
	Path
	peers []netip.Addr
}

// paths judges the ways of packets between pods through this host.
func (f *Facts) paths() []Finding {
	if len(f.Paths) == 0 {
		return nil
	}
	var ends []ended
	unsure, translated := map[string]bool{}, ""
	for _, p := range f.Paths {
		for _, what := range p.Result.Unsure {
			unsure[what] = true
		}
		if p.Result.Translated != "" {
			translated = p.Result.Translated
		}
		if !p.stuck() {
			continue
		}
		same := func(e ended) bool { return e.last().Text == p.last().Text && e.Out == p.Out && e.Kind == p.Kind }
		i := slices.IndexFunc(ends, same)
		if i < 0 {
			i = len(ends)
			ends = append(ends, ended{Path: p})
		}
		if !slices.Contains(ends[i].peers, p.Peer) {
			ends[i].peers = append(ends[i].peers, p.Peer)
		}
	}
	var found []Finding
	for _, e := range ends {
		found = append(found, f.pathFinding(e))
	}
	if translated != "" {
		found = append(found, Finding{Level: Warning, Topic: "masquerade", Remedy: "nft list ruleset; iptables-save -t nat",
			Text: translated + " changes the source of packets between pods, so that network policies and programs see " +
				"another address: keep flannel's network out of that rule"})
	}
	if len(found) > 0 {
		return found
	}
	text := "packets between pods pass all rules and routes of this host"
	if len(unsure) > 0 {
		text += fmt.Sprintf(", as far as known: %d rules or programs could not be judged, and flannelctl trace "+
			"names them", len(unsure))
	}
	return []Finding{{Level: OK, Topic: "path", Text: text}}
}

// stuck reports whether a packet ends on this host by its own fault. Whether the next host or a pod answers is the
// matter of probes.
func (p Path) stuck() bool { return p.Result.Trouble() && p.Result.Reason != "neigh_failed" }

// last returns the step at which the packet ends.
func (p Path) last() trace.Hop { return p.Result.Hops[len(p.Result.Hops)-1] }

// pathFinding describes packets that end on this host.
func (f *Facts) pathFinding(e ended) Finding {
	if e.Kind == ofProbes {
		return Finding{Level: Warning, Topic: "filter", Remedy: "iptables-save; nft list ruleset",
			Text: fmt.Sprintf("probes of %s end on this host: %s. Packets of pods do not pass that rule, so what those nodes "+
				"say of this one by their probes is about the rule", named(e.peers), e.last().Text)}
	}
	if e.Kind == outside {
		return Finding{Level: Warning, Topic: "firewall", Remedy: "iptables-save; nft list ruleset",
			Text: fmt.Sprintf("%s end on this host: %s. If pods have to reach these, accept packets from flannel's network "+
				"before that", outside, e.last().Text)}
	}
	direction := map[bool]string{true: "to", false: "from"}[e.Out]
	flow := e.Result.Flow
	finding := Finding{Level: Failure, Topic: "path",
		Text: fmt.Sprintf("%s %s those of %s end on this host: %s", e.Kind, direction, named(e.peers), e.last().Text)}
	if e.Result.Reason == "no_forwarding" { // the setting is read, so the command is the remedy
		finding.Remedy = e.Result.Remedy
		return finding
	}
	finding.Text += ". What to do: " + e.Result.Remedy
	finding.Remedy = fmt.Sprintf("flannelctl trace %s %s", flow.Src, flow.Dst)
	if e.Result.Reason != "fw_drop" {
		return finding
	}
	finding.Topic = "firewall"
	carrier := f.carrier(node.Way{Type: "tunnel"})
	if step := e.last().Step; (step == "arrive" || step == "underlay") && carrier != "" {
		finding.Topic = "port"
		moves := map[bool]string{true: "leaves", false: "arrives"}[e.Out]
		finding.Text = fmt.Sprintf("no packet %s by %s %s %s: %s", moves, carrier, direction, named(e.peers), e.last().Text)
	}
	if command := f.acceptBefore(e); command != "" {
		finding.Remedy = command
	}
	return finding
}

// dropping matches the chain that drops a packet, as a step of a trace names it.
var dropping = regexp.MustCompile(`chain (\S+) \((?:nftables, table (\S+) ([^\s)]+)|(ip6?tables)(-\S+), table (\S+))\)`)

// acceptBefore returns the commands that accept the packets in the chain that drops them; empty: it is not known how.
func (f *Facts) acceptBefore(e ended) string {
	chain := dropping.FindStringSubmatch(e.last().Text)
	if chain == nil || chain[2] != "" && !(shellword.Plain(chain[1]) && shellword.Plain(chain[3])) {
		return "" // nft reads such a name as more than a name
	}
	flow := e.Result.Flow
	family := cidr.FamilyOf(flow.Dst)
	step := e.last().Step
	if step == "arrive" || step == "underlay" {
		if f.Processes["firewalld"] {
			return f.acceptInZone()
		}
		var commands []string
		for _, m := range f.carrierMatches() {
			commands = append(commands, f.acceptIn(chain, family, m.iptables, m.nft))
		}
		return strings.Join(commands, "; ")
	}
	if !slices.Contains([]string{"filter", "prerouting"}, step) {
		return ""
	}
	network := f.Network.Of(family).Network.String()
	if step == "prerouting" { // the rule may protect one pod: what comes from other nodes' pods passes
		return f.acceptIn(chain, family, "-s "+network+" -d "+network, nftSide(family, "saddr", network)+" "+
			nftSide(family, "daddr", network))
	}
	return f.acceptIn(chain, family, "-s "+network, nftSide(family, "saddr", network)) + "; " +
		f.acceptIn(chain, family, "-d "+network, nftSide(family, "daddr", network))
}

func nftSide(family cidr.Family, side, network string) string {
	return cidr.Pick(family, "ip ", "ip6 ") + side + " " + network
}

// acceptIn returns the command that accepts packets at the beginning of a chain.
func (f *Facts) acceptIn(chain []string, family cidr.Family, iptables, nft string) string {
	if chain[2] != "" {
		return fmt.Sprintf("nft insert rule %s %s %s %s accept", chain[2], chain[3], chain[1], nft)
	}
	program := chain[4] + chain[5]
	usual := map[string]string{"-nft": "nf_tables", "-legacy": "legacy"}[chain[5]]
	if strings.Contains(f.Firewall.Tools[family].IPTables.About, usual) {
		program = chain[4]
	}
	if chain[6] != "filter" {
		program += " -t " + chain[6]
	}
	return fmt.Sprintf("%s -I %s %s -j ACCEPT", program, shellword.Of(chain[1]), iptables)
}

// explained reports whether the rules or routes of this host stop the packets from or to a peer, as a finding says.
func (f *Facts) explained(p node.Peer) bool {
	return slices.ContainsFunc(f.Paths, func(path Path) bool {
		return path.Peer == addressOf(p) && path.stuck() && path.Kind != ofProbes
	})
}
