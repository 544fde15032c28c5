package report

import (
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/flanneld/flannel/core/lease"
	"github.com/flanneld/flannel/core/node"
	"github.com/flanneld/flannel/core/probe"
	"github.com/flanneld/flannel/internal/page"
	"github.com/flanneld/flannel/tools/mesh"
	"github.com/flanneld/flannel/tools/trace"
)

// troubled reports whether a peer is not served, or does not answer all probes.
func troubled(p node.Peer) bool {
	return p.State != node.PeerServed || slices.ContainsFunc(p.Ways, func(w node.Way) bool {
		return w.Probe != nil && w.Probe.Finding != probe.Unknown && w.Probe.Finding != probe.Well
	})
}

// drops names the reasons of a page for packets without an answer.
var drops = map[mesh.Passage]string{
	mesh.Lost: "unreachable", mesh.Silent: "silent", mesh.Arrives: "answer_lost",
}

// packets tells the fates of the daemons' probes, for each pair of nodes in the family with
// more trouble.
func (b *builder) packets() {
	names := map[lease.Key]host{}
	for _, h := range b.hosts {
		names[h.key] = h
	}
	for _, l := range worst(b.mesh.Links) {
		from, to := names[l.From], names[l.To]
		p := page.Probe{From: from.name, To: to.name, OK: l.Passage == mesh.Passes}
		if !p.OK {
			p.Drop, p.Detail = drops[l.Passage], l.Probe.Text()
		} else if l.Probe.Finding != probe.Well {
			p.Note = l.Probe.Text()
		}
		b.r.Probe(b.at(l.Probe.Since), p, b.way(l, from, to))
	}
}

// worst returns, of the links whose fate is known, that with most trouble for each pair of
// nodes.
func worst(all []mesh.Link) []mesh.Link {
	var links []mesh.Link
	for _, l := range all {
		if l.Passage == mesh.Unknown {
			continue
		}
		last := len(links) - 1
		switch {
		case last < 0 || links[last].From != l.From || links[last].To != l.To:
			links = append(links, l)
		case badness(l) > badness(links[last]):
			links[last] = l
		}
	}
	return links
}

// badness orders links by their trouble.
func badness(l mesh.Link) int {
	switch {
	case l.Passage != mesh.Passes:
		return 2
	case l.Probe.Finding != probe.Well:
		return 1
	}
	return 0
}

// way returns the way of the probes of a link, as far as it is known.
func (b *builder) way(l mesh.Link, from, to host) []page.Hop {
	hops := leaving(from, l.Subnet)
	if len(hops) == 0 {
		return nil
	}
	if last := hops[len(hops)-1]; last.What == "drop" {
		return hops
	}
	switch l.Passage {
	case mesh.Passes:
		return append(hops, page.Hop{Where: to.name, What: "arrive", Detail: rtt(l.Probe)})
	case mesh.Arrives:
		return append(hops, page.Hop{Where: to.name, What: "arrive"},
			page.Hop{Where: "router", What: "drop", Detail: "of the answer"})
	}
	return append(hops, page.Hop{Where: "router", What: "drop", Detail: "somewhere on the way"})
}

func rtt(r probe.Result) string {
	if r.RTT == 0 {
		return ""
	}
	return fmt.Sprintf("answered after %s", r.RTT.Round(time.Microsecond))
}

// leaving returns the steps of a packet to a subnet on the host that sends it: as its
// kernel tells, or else as its daemon programs the peer.
func leaving(from host, to netip.Prefix) []page.Hop {
	if from.daemon == nil {
		return nil
	}
	var hops []page.Hop
	for _, t := range from.daemon.Traces {
		if to.Contains(t.Flow.Dst) {
			return traced(from.name, t)
		}
	}
	for _, p := range from.daemon.Peers.Peers {
		for _, w := range p.Ways {
			if w.Subnet == to {
				hops = append(hops, page.Hop{Where: from.name, What: "route", Detail: programmed(w, p)})
			}
		}
	}
	return hops
}

// traced returns the hops of a trace.
func traced(where string, t *trace.Result) []page.Hop {
	var hops []page.Hop
	for i, h := range t.Hops {
		hop := page.Hop{Where: where, What: h.Step, Detail: h.Text}
		if hop.What == "arrive" {
			hop.What = "begin" // on a page, only the receiver has this step
		}
		if t.Trouble() && i == len(t.Hops)-1 {
			hop.What, hop.Detail = "drop", fmt.Sprintf("%s %s. %s", t.Reason, h.Text, t.Remedy)
		}
		hops = append(hops, hop)
	}
	return hops
}

// programmed describes the way to a peer that its daemon desires.
func programmed(w node.Way, p node.Peer) string {
	text := w.Subnet.String()
	if w.Via.IsValid() {
		text += " via " + w.Via.String()
	}
	if w.Link != "" {
		text += " dev " + w.Link
	}
	text += ", " + w.Type
	if w.Type == "tunnel" {
		text += " to " + peerAddress(p).String()
	}
	if w.Former != "" {
		text += ", the previous backend " + w.Former
	}
	return text + ", " + string(p.State)
}

// peerAddress returns the address that a peer publishes, IPv4 if there is one.
func peerAddress(p node.Peer) netip.Addr {
	if p.PublicIP.IsValid() {
		return p.PublicIP
	}
	return p.PublicIP6
}
