package trace

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"github.com/flanneld/flannel/core/probe"
	"github.com/flanneld/flannel/tools/output"
)

// Flow is the packet to trace. It must not be fragmented.
type Flow struct {
	Src  netip.Addr `json:"Src"`
	Dst  netip.Addr `json:"Dst"`
	Size int        `json:"Size"` // of the IP packet, in bytes
	// Proto is "tcp", "udp" or "icmp", and Port the destination's, for the rules that ask for
	// them; empty and 0: not known.
	Proto string `json:"Proto"`
	Port  uint16 `json:"Port"`
	// Established says that the packet belongs to a connection that has begun; false: it begins one.
	Established bool `json:"-"`
}

// Command returns the command that traces the packet on another host.
func (f Flow) Command() []string {
	words := []string{"flannelctl", "trace", f.Src.String(), f.Dst.String(), "--size", strconv.Itoa(f.Size)}
	if f.Proto != "" && f.Proto != "icmp" {
		words = append(words, "--proto", f.Proto)
	}
	if f.Port != 0 {
		words = append(words, "--dport", strconv.Itoa(int(f.Port)))
	}
	return words
}

// Hop is one step of the packet on this host.
type Hop struct {
	Step string `json:"Step"` // see the package's description
	Text string `json:"Text"`
	Note bool   `json:"Note"` // something to look at, though the packet goes on
}

// Result is the way of a packet through this host.
type Result struct {
	Flow Flow  `json:"Flow"`
	Hops []Hop `json:"Hops"`
	// Reason says in one word why the packet ends here, as the simulator names it;
	// empty: it does not. The last hop says more.
	Reason string `json:"Reason"`
	Remedy string `json:"Remedy"` // what to do about that
	// Next is the node of flannel that has the packet next; zero: none, or not known.
	Next netip.Addr `json:"Next"`
	// Probe has the finding of this host's daemon if it speaks against the node that has the
	// packet next; null: it does not.
	Probe *probe.Result `json:"Probe"`
	// Pending says that this host's daemon, which carries the packet itself, has not served the
	// next node in full yet, so it may drop the packet.
	Pending bool `json:"Pending"`
	// Unsure names what may stop the packet and cannot be judged. The other steps hold as far as known.
	Unsure []string `json:"Unsure"`
	// Translated is the rule of another program that changes the source of a packet between two pods; empty: none does.
	Translated string `json:"Translated"`
	// Arrived says that the packet has reached a program or a pod of this host.
	Arrived bool `json:"Arrived"`
}

// Trouble reports whether the packet ends on this host without having arrived.
func (r *Result) Trouble() bool { return r.Reason != "" }

// Text writes a line for each hop, and how the way ends.
func (r *Result) Text(p *output.Page) {
	r.hops(p)
	r.end(p)
}

// hops writes a line for each hop.
func (r *Result) hops(p *output.Page) {
	rows := make([][]output.Cell, len(r.Hops))
	for i, h := range r.Hops {
		text := output.Plain(h.Text)
		switch {
		case r.Trouble() && i == len(r.Hops)-1:
			text = output.Bad(h.Text)
		case h.Note:
			text = output.Warn(h.Text)
		}
		rows[i] = []output.Cell{output.Plain(strconv.Itoa(i + 1)), output.Plain(h.Step), text}
	}
	p.Table(nil, rows...)
}

// end writes how the way ends.
func (r *Result) end(p *output.Page) {
	known := ""
	if len(r.Unsure) > 0 {
		known = ", as far as known: " + output.Number(len(r.Unsure), "step") + " could not be judged"
	}
	switch {
	case r.Trouble():
		p.Line(output.Bad("ends here: " + r.Reason))
		p.Sentence(output.Plain(r.Remedy))
	case r.Next.IsValid():
		p.Line(output.Good(fmt.Sprintf("goes on at %s%s; trace it there:", r.Next, known)))
		p.Line(output.Command(strings.Join(r.Flow.Command(), " ")))
		if r.Probe != nil {
			p.Sentence(output.Warn(fmt.Sprintf("but the probes of this host say: %s %s", r.Next, r.Probe.Text())))
		}
	case r.Arrived:
		p.Line(output.Good("arrives" + known))
	default:
		p.Line(output.Good("leaves this host" + known))
	}
}
