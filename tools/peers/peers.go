// Package peers shows the peers of a node, and how it serves them.
package peers

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/control"
	"github.com/flanneld/flannel/core/node"
	"github.com/flanneld/flannel/core/probe"
	"github.com/flanneld/flannel/tools/output"
	"github.com/flanneld/flannel/tools/status"
)

// Result holds the peers of a node, or some of them.
type Result control.Peers

// ParseName reads the name of a peer: its subnet, its address, or that of one of its
// pods.
func ParseName(name string) (netip.Prefix, error) {
	if prefix, err := netip.ParsePrefix(name); err == nil {
		return prefix, nil
	}
	addr, err := netip.ParseAddr(name)
	if err != nil {
		return netip.Prefix{}, fmt.Errorf("peer %q: want a subnet, or the address of a node or a pod; "+
			"names of nodes are not known", name)
	}
	return netip.PrefixFrom(addr, addr.BitLen()), nil
}

// Matching returns the peers that a name selects; the zero prefix selects all.
func (r Result) Matching(prefix netip.Prefix) (Result, error) {
	if !prefix.IsValid() {
		return r, nil
	}
	r.Peers = slices.DeleteFunc(slices.Clone(r.Peers), func(p node.Peer) bool { return !selects(prefix, p) })
	if len(r.Peers) == 0 {
		return r, fmt.Errorf("no peer has %s as its address or in its subnet", prefix)
	}
	return r, nil
}

// selects reports whether a prefix covers an address of the peer, or lies in its subnet.
func selects(prefix netip.Prefix, p node.Peer) bool {
	for _, f := range cidr.Families {
		public := cidr.Pick(f, p.PublicIP, p.PublicIP6)
		if subnet := p.Subnet.Of(f); subnet.IsValid() && cidr.Contains(subnet, prefix) || prefix.Contains(public) {
			return true
		}
	}
	return false
}

// Trouble reports whether a peer is not served, or does not answer its probes.
func (r Result) Trouble() bool {
	return slices.ContainsFunc(r.Peers, func(p node.Peer) bool {
		return p.State != node.PeerServed || slices.ContainsFunc(p.Ways, func(w node.Way) bool { return fault(w) != "" })
	})
}

// fault describes what is wrong with the answers of a peer; empty: nothing is known to be.
func fault(w node.Way) string {
	if w.Probe == nil || w.Probe.Finding == probe.Unknown || w.Probe.Finding == probe.Well {
		return ""
	}
	return w.Probe.Text()
}

// probed reports whether any of the peers is probed.
func (r Result) probed() bool {
	return slices.ContainsFunc(r.Peers, func(p node.Peer) bool {
		return slices.ContainsFunc(p.Ways, func(w node.Way) bool { return w.Probe != nil })
	})
}

// sessions reports whether any of the peers is one of WireGuard.
func (r Result) sessions() bool {
	return slices.ContainsFunc(r.Peers, func(p node.Peer) bool {
		return slices.ContainsFunc(p.Ways, func(w node.Way) bool { return w.Session != "" })
	})
}

// Text writes a table with a line for each peer and family, and the counts.
func (r Result) Text(p *output.Page) {
	if len(r.Peers) == 0 {
		p.Linef("no peers")
		return
	}
	var rows [][]output.Cell
	for _, peer := range r.Peers {
		for i, way := range peer.Ways {
			rows = append(rows, r.row(peer, way, i == 0))
		}
	}
	header := output.Row("SUBNET", "ADDRESS", "BACKEND", "WAY", "HANDSHAKE", "RTT", "LOSS", "STATE")
	const (
		handshake = 4
		rtt       = 5
		state     = 7
	)
	leave := func(from, to int) {
		header = slices.Delete(header, from, to)
		for i := range rows {
			rows[i] = slices.Delete(rows[i], from, to)
		}
	}
	if !r.probed() {
		leave(rtt, state)
	}
	if !r.sessions() {
		leave(handshake, rtt)
	}
	p.Table(header, rows...)
	p.Linef("%s", r.counts())
}

// row returns the cells of a peer in one family. What concerns the whole peer stands
// in its first line only.
func (r Result) row(p node.Peer, w node.Way, first bool) []output.Cell {
	family := cidr.FamilyOf(w.Subnet.Addr())
	address := "-"
	if public := cidr.Pick(family, p.PublicIP, p.PublicIP6); public.IsValid() {
		address = public.String()
	}
	backend := p.Backend
	if backend == "" {
		backend = "-"
	}
	if !first {
		backend = ""
	}
	rtt, loss := answers(w)
	return []output.Cell{output.Plain(w.Subnet.String()), output.Plain(address), output.Plain(backend),
		output.Plain(wayText(w)), output.Plain(r.handshake(w)), output.Plain(rtt), output.Plain(loss), r.stateOf(p, w, first)}
}

// handshake returns how long ago the last handshake with a WireGuard peer was.
func (r Result) handshake(w node.Way) string {
	switch {
	case w.Session == "":
		return "-"
	case w.Handshake.IsZero():
		return "never"
	}
	return r.ago(w.Handshake) + " ago"
}

// ago returns the time from then until the answer.
func (r Result) ago(then time.Time) string {
	return status.Round(max(r.TakenAt.Sub(then), 0))
}

// answers returns the round trip time to a peer, and the share of echoes without an
// answer.
func answers(w node.Way) (rtt, loss string) {
	if w.Probe == nil || w.Probe.Sent == 0 {
		return "-", "-"
	}
	rtt = "-"
	if w.Probe.RTT > 0 {
		rtt = Milliseconds(w.Probe.RTT)
	}
	return rtt, fmt.Sprintf("%d%%", 100*w.Probe.Lost/w.Probe.Sent)
}

// Milliseconds returns a round trip time as ping prints it, such as "0.412 ms".
func Milliseconds(d time.Duration) string {
	return fmt.Sprintf("%.3g ms", float64(d)/float64(time.Millisecond))
}

// wayText describes a way, such as "tunnel flannel.1" or "direct eth0".
func wayText(w node.Way) string {
	parts := []string{w.Type}
	if w.Link != "" {
		parts[0] += " " + w.Link
	}
	if w.Former != "" {
		parts = append(parts, "former")
	}
	return strings.Join(parts, ", ")
}

// stateOf describes a peer's state with its problems, in its first line, and what is
// wrong with its answers in one family.
func (r Result) stateOf(p node.Peer, w node.Way, first bool) output.Cell {
	silence := fault(w)
	if silence != "" && !w.Probe.Since.IsZero() {
		silence += " (for " + r.ago(w.Probe.Since) + ")"
	}
	if !first {
		return output.Bad(silence)
	}
	texts := []string{string(p.State)}
	if p.Lost {
		texts = append(texts, "lost by the datastore")
	}
	text := strings.Join(texts, ", ")
	if len(p.Problems) > 0 {
		text += ": " + strings.Join(p.Problems, "; ")
	}
	if silence != "" {
		text += "; " + silence
	}
	switch {
	case p.State == node.PeerRefused || silence != "":
		return output.Bad(text)
	case p.State == node.PeerPending || p.Lost:
		return output.Warn(text)
	}
	return output.Good(text)
}

// counts returns the number of peers, and of those in each state.
func (r Result) counts() string {
	var parts []string
	for _, state := range []node.PeerState{node.PeerServed, node.PeerPending, node.PeerRefused} {
		number := 0
		for _, p := range r.Peers {
			if p.State == state {
				number++
			}
		}
		if number > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", number, state))
		}
	}
	return output.Number(len(r.Peers), "peer") + ": " + strings.Join(parts, ", ")
}
