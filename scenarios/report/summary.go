package report

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// reasons say in plain words why a packet went no further.
func reasons() map[string]string {
	return map[string]string{
		"no_route":      "no route leads to its destination",
		"blackhole":     "a blackhole route swallowed it",
		"neigh_missing": "the tunnel device knows no neighbour for the next hop",
		"neigh_failed":  "no host on the segment answered for the next hop",
		"fdb_missing":   "the tunnel device does not know on which host that neighbour is",
		"fdb_conflict":  "it came from another host than the forwarding entry says",
		"vni_mismatch":  "no tunnel device with its network number is there",
		"too_big":       "it is larger than the link takes",
		"ttl":           "it went in a circle until its time to live was over",
		"wire_loss":     "the wire lost it",
		"wire_down":     "the wire is cut",
		"wire_mtu":      "the wire silently drops packets of its size",
		"partition":     "the network is partitioned",
		"mac_unknown":   "no link on the segment has the address it was sent to",
		"link_down":     "the link is down",
		"no_carrier":    "the cable is unplugged",
		"no_listener":   "no tunnel listens there",
		"not_mine":      "it reached a host that it is not for",
		"rp_filter":     "the host does not believe its source address",
		"bad_source":    "the tunnel's own address is not one of the host's",
		"loop":          "it would loop within the host",
		"reassembly":    "fragments of it are missing",
		"malformed":     "it is damaged",
		"timeout":       "no answer came in time",
		"unknown":       "the kernel does not tell why",
	}
}

// summarize finds the words, and the moment worth looking at.
func (rec *Recording) summarize(failure string) {
	rec.Focus, rec.Packet = rec.Length, -1
	if rec.OK {
		rec.Summary = rec.right()
		return
	}
	if i := slices.IndexFunc(rec.Steps, func(s Step) bool { return s.Failed }); i >= 0 {
		rec.Focus = rec.Steps[i].To
		rec.say("%s", wrongStep(i, len(rec.Steps), rec.Steps[i]))
	}
	if failure != "" {
		rec.say("%s", rec.wrongBeside(strings.TrimRight(failure, ".\n")))
	}
	rec.Packet = rec.lost()
	if rec.Packet >= 0 {
		p := rec.Probes[rec.Packet]
		rec.say("%s", rec.lostSentence(p))
		rec.FocusOn = p.From
	}
	if s, worst := rec.shortSentence(); s != "" {
		rec.say("%s", s)
		rec.FocusOn = worst // what is wrong there is to be seen
	}
	if s := rec.lastFault(); s != "" {
		rec.say("%s", s)
	}
}

func (rec *Recording) say(format string, args ...any) {
	rec.Summary = append(rec.Summary, fmt.Sprintf(format, args...))
}

// wrongBeside describes a failure although each step answered as wanted. It
// showed in the last step.
func (rec *Recording) wrongBeside(failure string) string {
	n := len(rec.Steps)
	if n == 0 || slices.ContainsFunc(rec.Steps, func(s Step) bool { return s.Failed }) {
		return upper(failure) + "."
	}
	rec.Steps[n-1].Failed = true
	failure = strings.TrimPrefix(strings.TrimPrefix(failure, rec.Steps[n-1].Text+": "), "error: ")
	return fmt.Sprintf("Step %d, `%s`, went wrong at %s: %s.", n, rec.Steps[n-1].Text, span(rec.Length), failure)
}

// wrongStep names the answer that a step should have given.
func wrongStep(i, of int, s Step) string {
	head := fmt.Sprintf("Step %d of %d, `%s`, went wrong at %s: ", i+1, of, s.Text, span(s.To))
	if len(s.Got) == 1 && strings.HasPrefix(s.Got[0], "error: ") {
		return head + strings.TrimRight(strings.TrimPrefix(s.Got[0], "error: "), ".") + "."
	}
	for n := range max(len(s.Want), len(s.Got)) {
		want, got := lineOf(s.Want, n), lineOf(s.Got, n)
		if want == got {
			continue
		}
		if n == 0 {
			return head + fmt.Sprintf("it should have answered %s, but answered %s.", want, got)
		}
		return head + fmt.Sprintf("line %d of its answer should have been %s, but was %s.", n+1, want, got)
	}
	return head + "it did not answer what it should have."
}

func lineOf(lines []string, n int) string {
	if n >= len(lines) {
		return "nothing more"
	}
	return "`" + lines[n] + "`"
}

// lost is the last packet that was lost before the moment in question, or else
// the first one after all was over; -1 if all arrived.
func (rec *Recording) lost() int {
	last := -1
	for i, p := range rec.Probes {
		if !p.OK && (!p.After && p.At <= rec.Focus && !rec.repaired(p) || p.After && last < 0) {
			last = i
		}
	}
	return last
}

// repaired reports whether a later packet arrived: what was repaired since is
// not what went wrong.
func (rec *Recording) repaired(lost Probe) bool {
	return slices.ContainsFunc(rec.Probes, func(p Probe) bool {
		return p.OK && p.From == lost.From && p.To == lost.To && p.At > lost.Last && p.At <= rec.Focus
	})
}

func (rec *Recording) lostSentence(p Probe) string {
	s := fmt.Sprintf("a packet from the pod on %s to the pod on %s", p.From, p.To)
	if rec.arrived(p) {
		s = "the answer to " + s + ", which had arrived,"
	}
	if p.After {
		s = "right after, " + s
	}
	s = upper(s) + " was lost"
	if p.Where != "" {
		s += " at " + place(p.Where)
	}
	if why, ok := reasons()[p.Drop]; ok {
		return s + fmt.Sprintf(": %s (`%s`).", why, strings.TrimSpace(p.Drop+" "+p.Detail))
	}
	if p.Drop != "" {
		return s + ": " + p.Drop + "."
	}
	return s + "."
}

// arrived reports whether the packet arrived, and only the answer was lost.
func (rec *Recording) arrived(p Probe) bool {
	return p.Path >= 0 && slices.ContainsFunc(rec.Paths[p.Path], func(h Hop) bool { return h.What == "arrive" })
}

// place says where a hop is: "n1.n1.pod" is the pod on n1.
func place(where string) string {
	if node, _, ok := strings.Cut(where, "."); ok {
		return "the pod on " + node
	}
	if number, ok := strings.CutPrefix(where, "segment"); ok {
		return "the wires of segment " + number
	}
	return where
}

// shortSentence names the nodes that were not what the leases demand, and the
// one that was most of all.
func (rec *Recording) shortSentence() (sentence, node string) {
	var out []string
	worst, most := "", 0
	for _, n := range rec.Nodes {
		short, ok := before(n.Short, rec.Focus, func(s Shortage) int64 { return s.At })
		if !ok || short.Total == 0 {
			continue
		}
		out = append(out, n.Name)
		if short.Total <= most {
			continue
		}
		worst, most = fmt.Sprintf("%s was %s short of what the leases demand, the first: `%s`",
			n.Name, count(short.Total, "change"), rec.Texts[short.Ops[0]]), short.Total
		state, _ := before(n.State, rec.Focus, func(s StateChange) int64 { return s.At })
		switch {
		case state.Life != "running":
			worst += "; its daemon was " + state.Life
		case state.Ready:
			worst += "; it took itself for ready"
		case len(state.Why) > 0:
			worst += "; it said of itself: " + rec.Texts[state.Why[len(state.Why)-1]]
		}
		node = n.Name
	}
	switch {
	case len(out) == 0:
		return "", ""
	case len(out) == 1:
		return worst + ".", node
	}
	return fmt.Sprintf("%d nodes were not what the leases demand (%s). %s.", len(out), listed(out, 5), upper(worst)), node
}

// lastFault returns the last fault before the moment.
func (rec *Recording) lastFault() string {
	for _, s := range slices.Backward(rec.Steps) {
		if s.From > rec.Focus || !s.Fault {
			continue
		}
		when := span(rec.Focus-s.To) + " earlier"
		if rec.Focus == s.To {
			when = "at the same moment"
		}
		return fmt.Sprintf("The last thing done to the world before was `%s`, %s.", s.Text, when)
	}
	return "Nothing had been broken on purpose before."
}

// isFault reports whether a directive does something to the world that a
// healthy one would not see.
func isFault(directive string) bool {
	verb, rest, _ := strings.Cut(directive, " ")
	switch verb {
	case "fault", "kill", "pause":
		return !strings.HasSuffix(rest, " heal")
	case "store":
		return rest != "start"
	case "restart":
		return strings.Contains(rest, "kill")
	}
	return false
}

// right is the summary of a run in which all went right.
func (rec *Recording) right() []string {
	t := rec.Topology
	out := []string{fmt.Sprintf("All went right: %s with %s on %s did what the scenario demands "+
		"in each of its %s, within %s.",
		count(len(t.Nodes), "node"), t.Backend, count(len(t.Segments), "segment"), count(len(rec.Steps), "step"),
		span(rec.Length))}
	var faults []string
	for _, s := range rec.Steps {
		if s.Fault {
			faults = append(faults, "`"+s.Text+"`")
		}
	}
	if len(faults) == 0 {
		out = append(out, "Nothing was broken on purpose.")
	} else {
		out = append(out, fmt.Sprintf("%s put in on purpose: %s.", were(len(faults), "fault"), listed(faults, 3)))
	}
	sent, lost := 0, 0
	for _, p := range rec.Probes {
		if p.After {
			continue
		}
		sent += p.Count
		if !p.OK {
			lost += p.Count
		}
	}
	switch {
	case sent > 0 && lost == 0:
		out = append(out, fmt.Sprintf("Of %s between pods none was lost.", count(sent, "packet")))
	case sent > 0:
		out = append(out, fmt.Sprintf("Of %s between pods %d were lost, as the scenario expects or allows.",
			count(sent, "packet"), lost))
	}
	ready := 0
	for _, n := range rec.Nodes {
		if len(n.State) > 0 && n.State[len(n.State)-1].Ready {
			ready++
		}
	}
	return append(out, fmt.Sprintf("At the end %d of %s were ready.", ready, count(len(rec.Nodes), "node")))
}

// before returns the last change no later than the moment.
func before[T any](changes []T, moment int64, at func(T) int64) (last T, ok bool) {
	for _, c := range changes {
		if at(c) <= moment {
			last, ok = c, true
		}
	}
	return last, ok
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

func were(n int, what string) string {
	if n == 1 {
		return "1 " + what + " was"
	}
	return count(n, what) + " were"
}

// listed joins names, the first few of them.
func listed(names []string, most int) string {
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
}

// span prints a time of microseconds as people read it.
func span(us int64) string {
	d := time.Duration(us) * time.Microsecond
	switch {
	case d < time.Millisecond:
		return d.String()
	case d < time.Second:
		return d.Round(100 * time.Microsecond).String()
	}
	return d.Round(10 * time.Millisecond).String()
}

func upper(s string) string {
	if s == "" {
		return s
	}
	return strings.ToUpper(s[:1]) + s[1:]
}
