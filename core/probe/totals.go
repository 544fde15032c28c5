package probe

import (
	"fmt"
	"net/netip"
	"slices"
	"time"
)

// RTTBounds are the upper bounds of the classes in which round trip times are counted.
var RTTBounds = [...]time.Duration{
	100 * time.Microsecond, 250 * time.Microsecond, 500 * time.Microsecond,
	time.Millisecond, 2500 * time.Microsecond, 5 * time.Millisecond, 10 * time.Millisecond, 25 * time.Millisecond,
	50 * time.Millisecond, 100 * time.Millisecond, 250 * time.Millisecond, 500 * time.Millisecond, time.Second,
}

// mostFaults is the number of faults that a summary names.
const mostFaults = 10

// Summary describes all peers together. Counts are those since the process began.
type Summary struct {
	Interval time.Duration     `json:"Interval"` // in nanoseconds; 0: nothing is probed
	Sent     map[string]uint64 `json:"Sent"`     // packets by kind: echo, large, tcp
	Lost     map[string]uint64 `json:"Lost"`     // those of them without an answer
	RTT      Histogram         `json:"RTT"`      // of small echoes
	// By counts the targets by finding: well, unreachable, mtu, tcp, icmp; empty: not known yet.
	By      map[Finding]int `json:"By"`
	Faults  []string        `json:"Faults"`  // the first of the targets with one, for people
	Unable  string          `json:"Unable"`  // why the last probe could not be sent; empty: it was
	Listens bool            `json:"Listens"` // this host hears the probes of its peers
}

// Histogram counts round trip times.
type Histogram struct {
	// Counts has a class for each of RTTBounds, and one for longer times.
	Counts [len(RTTBounds) + 1]uint64 `json:"Counts"`
	Sum    time.Duration              `json:"Sum"`
}

// Add counts a time.
func (h *Histogram) Add(d time.Duration) {
	class, _ := slices.BinarySearch(RTTBounds[:], d)
	h.Counts[class]++
	h.Sum += d
}

// totals are the running counts of a prober.
type totals struct {
	sent, lost [kinds]uint64
	rtt        Histogram
	by         map[Finding]int
	bad        map[*peer]bool // the peers with a fault
	unable     string
	listens    bool
}

func newTotals() totals { return totals{by: map[Finding]int{}, bad: map[*peer]bool{}} }

// count counts the fate of a packet.
func (t *totals) count(kind Kind, a Answer) {
	if !a.OK && !a.TooBig && a.Unable == "" {
		t.lost[kind]++
	}
	if a.OK && kind == Echo {
		t.rtt.Add(a.RTT)
	}
}

// changed counts a peer under its new finding.
func (t *totals) changed(x *peer, before Finding) {
	t.by[before]--
	t.by[x.finding]++
	delete(t.bad, x)
	if x.finding != Well && x.finding != Unknown {
		t.bad[x] = true
	}
}

// Summary describes all peers together.
func (p *Prober) Summary() Summary {
	t := &p.totals
	s := Summary{
		Interval: p.interval, RTT: t.rtt, Unable: t.unable, Listens: t.listens,
		Sent: map[string]uint64{}, Lost: map[string]uint64{}, By: map[Finding]int{},
	}
	for k := range kinds {
		s.Sent[k.String()], s.Lost[k.String()] = t.sent[k], t.lost[k]
	}
	for finding, number := range t.by {
		if number > 0 {
			s.By[finding] = number
		}
	}
	bad := make([]*peer, 0, len(t.bad))
	for x := range t.bad {
		bad = append(bad, x)
	}
	slices.SortFunc(bad, func(a, b *peer) int { return a.target.Subnet.Compare(b.target.Subnet) })
	for _, x := range bad[:min(len(bad), mostFaults)] {
		s.Faults = append(s.Faults, fmt.Sprintf("%s %s", x.target.Subnet, x.result().Text()))
	}
	return s
}

// Count returns the number of targets with a finding.
func (p *Prober) Count(f Finding) int { return p.totals.by[f] }

// Silent describes the targets that have been unreachable since a time or longer.
type Silent struct {
	Peers  int
	First  netip.Prefix // the first of them in order
	Result Result       // of the first
}

// Silent returns the targets that have been unreachable since t or longer.
func (p *Prober) Silent(t time.Time) Silent {
	var s Silent
	var first *peer
	for x := range p.totals.bad {
		if x.finding != Unreachable || x.since.After(t) {
			continue
		}
		s.Peers++
		if first == nil || x.target.Subnet.Compare(first.target.Subnet) < 0 {
			first = x
		}
	}
	if first != nil {
		s.First, s.Result = first.target.Subnet, first.result()
	}
	return s
}

// Text describes the result in a few words for people, without times.
func (r Result) Text() string {
	switch r.Finding {
	case Unknown:
		return "not probed yet"
	case Unreachable:
		return r.silence()
	case SizeLost:
		if r.Passes == 0 { // the fault may have begun during the examination
			return fmt.Sprintf("answered a small packet and then none of any larger size up to %d bytes: packets are lost, "+
				"and not for their size alone", r.MTU)
		}
		return fmt.Sprintf("answers packets of at most %d bytes, pods may send %d: the MTU of the network between "+
			"the hosts is too small for it", r.Passes, r.MTU)
	case TCPLost:
		return fmt.Sprintf("answers ICMP at %s and not TCP: a packet filter, or a network card that computes wrong "+
			"checksums in tunnels", r.Address)
	case ICMPLost:
		return fmt.Sprintf("answers TCP at %s and not ICMP: a packet filter, or a setting such as "+
			"icmp_echo_ignore_all there", r.Address)
	}
	return "answers at " + r.Address.String()
}

// silence describes a peer that answers nothing.
func (r Result) silence() string {
	text := fmt.Sprintf("does not answer at %s", r.Address)
	if r.UplinkAnswers {
		text += ", and its uplink does: a firewall between the hosts may block the port or protocol of the backend, or " +
			"its route back is wrong"
	}
	if r.Heard.After(r.Since) {
		text += "; its own probes arrive here, so packets are lost on the way there"
	}
	return text
}
