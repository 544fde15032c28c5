package mesh

import (
	"fmt"
	"slices"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/lease"
	"github.com/flanneld/flannel/core/probe"
	"github.com/flanneld/flannel/tools/output"
	"github.com/flanneld/flannel/tools/peers"
)

// widest is the largest number of nodes that the text shows as a matrix.
const widest = 12

// Trouble reports whether packets are lost between nodes, or a daemon did not answer.
func (r Result) Trouble() bool { return len(r.Warnings)+len(r.Unasked) > 0 }

// Text writes the matrix, and a line for each fault.
func (r Result) Text(p *output.Page) {
	if len(r.Nodes) == 0 {
		p.Linef("no node is known")
	}
	if n := len(r.Nodes); n > widest {
		p.Linef("%d nodes: too many for a matrix; -o json has all", n)
	} else if n > 0 {
		r.matrix(p)
	}
	for _, text := range r.Warnings {
		p.Sentence(output.Bad(text))
	}
	for _, text := range r.Unasked {
		p.Sentence(output.Warn("not asked: " + text))
	}
}

// matrix writes a row for each node that sends, and a column for each that receives.
func (r Result) matrix(p *output.Page) {
	header := output.Row("FROM / TO")
	for _, n := range r.Nodes {
		header = append(header, output.Plain(n.Address.String()))
	}
	var rows [][]output.Cell
	for _, from := range r.Nodes {
		row := output.Row(from.Address.String())
		for _, to := range r.Nodes {
			row = append(row, r.cell(from, to))
		}
		rows = append(rows, row)
	}
	p.Table(header, rows...)
	if slices.ContainsFunc(r.Nodes, func(n Node) bool { return !n.Asked }) {
		p.Sentencef("? a node whose daemon was not asked: name it, such as flannelctl mesh 10.0.0.3")
	}
}

// cell describes the way from one node to another, in the worse family.
func (r Result) cell(from, to Node) output.Cell {
	if from.Subnet == to.Subnet {
		return output.Plain("·")
	}
	worst := Link{Passage: Unknown}
	for i, l := range r.between(from.Subnet, to.Subnet) {
		if i == 0 || worse(l, worst) {
			worst = l
		}
	}
	if worst.Passage != Passes {
		text := map[Passage]string{Unknown: "?", Silent: "no answer", Arrives: "answer lost", Lost: "lost"}[worst.Passage]
		if worst.Passage == Unknown {
			return output.Plain(text)
		}
		return output.Bad(text)
	}
	rtt := peers.Milliseconds(worst.Probe.RTT)
	switch worst.Probe.Finding {
	case probe.SizeLost:
		return output.Warn(fmt.Sprintf("%s, %d B", rtt, worst.Probe.Passes))
	case probe.TCPLost:
		return output.Warn(rtt + ", no TCP")
	case probe.ICMPLost:
		return output.Warn("no ICMP")
	}
	return output.Good(fmt.Sprintf("%s, %d B", rtt, worst.Probe.Passes))
}

// worse reports whether one link is worse than another.
func worse(a, b Link) bool {
	severity := func(l Link) int {
		s := map[Passage]int{Lost: 5, Silent: 4, Arrives: 3, Passes: 0, Unknown: 1}[l.Passage]
		if l.Passage == Passes && l.Probe.Finding != probe.Well {
			s = 2
		}
		return s
	}
	return severity(a) > severity(b)
}

// between returns the links from one node to another.
func (r Result) between(from, to lease.Key) []Link {
	var found []Link
	for _, l := range r.Links {
		if l.From == from && l.To == to {
			found = append(found, l)
		}
	}
	return found
}

// direction names a link by its ends and family.
type direction struct {
	from, to lease.Key
	family   cidr.Family
}

// warnings describes the links with faults, each pair of nodes once if packets are
// lost in both directions.
func (r Result) warnings() []string {
	names := map[lease.Key]string{}
	for _, n := range r.Nodes {
		names[n.Subnet] = n.Address.String()
	}
	passages := map[direction]Passage{}
	for _, l := range r.Links {
		passages[direction{l.From, l.To, cidr.FamilyOf(l.Subnet.Addr())}] = l.Passage
	}
	var texts []string
	for _, l := range r.Links {
		back := passages[direction{l.To, l.From, cidr.FamilyOf(l.Subnet.Addr())}]
		if text := l.warning(names[l.From], names[l.To], back); text != "" {
			texts = append(texts, text)
		}
	}
	return texts
}

// warning describes the fault of a link. It is empty if there is none, or if the warning
// about the other direction covers it.
func (l Link) warning(from, to string, back Passage) string {
	switch {
	case l.Passage == Lost && back == Arrives:
		return fmt.Sprintf("packets from %s to %s are lost; those from %s to %s arrive", from, to, to, from)
	case l.Passage == Lost && back == Lost:
		if l.From.Compare(l.To) > 0 {
			return ""
		}
		return fmt.Sprintf("packets between %s and %s are lost in both directions", from, to)
	case l.Passage == Lost:
		return fmt.Sprintf("packets from %s to %s are lost", from, to)
	case l.Passage == Silent, l.Passage == Passes && l.Probe.Finding != probe.Well:
		return fmt.Sprintf("from %s: %s %s", from, to, l.Probe.Text())
	}
	return ""
}
