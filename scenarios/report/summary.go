package report

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/flanneld/flannel/internal/page"
)

// Finish ends the recording of a scenario. Failure is an error that no step printed, or
// empty.
func Finish(r *page.Recorder, at time.Duration, about page.About, failure string) page.Recording {
	rec := r.Finish(at, about)
	for i := range rec.Steps {
		rec.Steps[i].Fault = isFault(rec.Steps[i].Text)
	}
	rec.OK = failure == "" && !slices.ContainsFunc(rec.Steps, func(s page.Step) bool { return s.Failed })
	summarize(&rec, failure)
	return rec
}

// summarize writes the summary, and chooses the moment to show first.
func summarize(rec *page.Recording, failure string) {
	if rec.OK {
		rec.Summary = right(rec)
		return
	}
	if i := slices.IndexFunc(rec.Steps, func(s page.Step) bool { return s.Failed }); i >= 0 {
		rec.Focus = rec.Steps[i].To
		say(rec, "%s", wrongStep(i, len(rec.Steps), rec.Steps[i]))
	}
	if failure != "" {
		say(rec, "%s", wrongBeside(rec, strings.TrimRight(failure, ".\n")))
	}
	rec.Packet = lost(rec)
	if rec.Packet >= 0 {
		p := rec.Probes[rec.Packet]
		say(rec, "%s", lostSentence(rec, p))
		rec.FocusOn = p.From
	}
	if s, worst := shortSentence(rec); s != "" {
		say(rec, "%s", s)
		rec.FocusOn = worst // the page shows what is wrong there
	}
	if s := lastFault(rec); s != "" {
		say(rec, "%s", s)
	}
}

func say(rec *page.Recording, format string, args ...any) {
	rec.Summary = append(rec.Summary, fmt.Sprintf(format, args...))
}

// wrongBeside describes a failure that showed in the last step although each step
// answered as expected.
func wrongBeside(rec *page.Recording, failure string) string {
	n := len(rec.Steps)
	if n == 0 || slices.ContainsFunc(rec.Steps, func(s page.Step) bool { return s.Failed }) {
		return upper(failure) + "."
	}
	rec.Steps[n-1].Failed = true
	failure = strings.TrimPrefix(strings.TrimPrefix(failure, rec.Steps[n-1].Text+": "), "error: ")
	return fmt.Sprintf("Step %d, `%s`, went wrong at %s: %s.", n, rec.Steps[n-1].Text, page.Span(rec.Length), failure)
}

// wrongStep names the answer that a step should have given.
func wrongStep(i, of int, s page.Step) string {
	head := fmt.Sprintf("Step %d of %d, `%s`, went wrong at %s: ", i+1, of, s.Text, page.Span(s.To))
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

// lost returns the last packet that was lost before the moment in question, or else
// the first one that was lost after the end; -1 if all arrived.
func lost(rec *page.Recording) int {
	last := -1
	for i, p := range rec.Probes {
		if !p.OK && (!p.After && p.At <= rec.Focus && !repaired(rec, p) || p.After && last < 0) {
			last = i
		}
	}
	return last
}

// repaired reports whether a later packet arrived. A loss that was repaired since does
// not explain the failure.
func repaired(rec *page.Recording, lost page.Probe) bool {
	return slices.ContainsFunc(rec.Probes, func(p page.Probe) bool {
		return p.OK && p.From == lost.From && p.To == lost.To && p.At > lost.Last && p.At <= rec.Focus
	})
}

func lostSentence(rec *page.Recording, p page.Probe) string {
	s := fmt.Sprintf("a packet from the pod on %s to the pod on %s", p.From, p.To)
	if arrived(rec, p) {
		s = "the answer to " + s + ", which had arrived,"
	}
	if p.After {
		s = "right after, " + s
	}
	s = upper(s) + " was lost"
	if p.Where != "" {
		s += " at " + place(p.Where)
	}
	if why, ok := page.Reasons()[p.Drop]; ok {
		return s + fmt.Sprintf(": %s (`%s`).", why, strings.TrimSpace(p.Drop+" "+p.Detail))
	}
	if p.Drop != "" {
		return s + ": " + p.Drop + "."
	}
	return s + "."
}

// arrived reports whether the packet arrived, and only the answer was lost.
func arrived(rec *page.Recording, p page.Probe) bool {
	return p.Path >= 0 && slices.ContainsFunc(rec.Paths[p.Path], func(h page.Hop) bool { return h.What == "arrive" })
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

// shortSentence names the nodes that differed from what the leases demand, and the one
// that differed most.
func shortSentence(rec *page.Recording) (sentence, node string) {
	var out []string
	worst, most := "", 0
	for _, n := range rec.Nodes {
		short, ok := before(n.Short, rec.Focus, func(s page.Shortage) int64 { return s.At })
		if !ok || short.Total == 0 {
			continue
		}
		out = append(out, n.Name)
		if short.Total <= most {
			continue
		}
		worst, most = fmt.Sprintf("%s was %s short of what the leases demand, the first: `%s`",
			n.Name, count(short.Total, "change"), rec.Texts[short.Ops[0]]), short.Total
		state, _ := before(n.State, rec.Focus, func(s page.StateChange) int64 { return s.At })
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
func lastFault(rec *page.Recording) string {
	for _, s := range slices.Backward(rec.Steps) {
		if s.From > rec.Focus || !s.Fault {
			continue
		}
		when := page.Span(rec.Focus-s.To) + " earlier"
		if rec.Focus == s.To {
			when = "at the same moment"
		}
		return fmt.Sprintf("The last thing done to the world before was `%s`, %s.", s.Text, when)
	}
	return "Nothing had been broken on purpose before."
}

// isFault reports whether a directive does something that does not happen in a
// healthy world.
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

// right returns the summary of a run in which all went well.
func right(rec *page.Recording) []string {
	t := rec.Topology
	out := []string{fmt.Sprintf("All went right: %s with %s on %s did what the scenario demands "+
		"in each of its %s, within %s.",
		count(len(t.Nodes), "node"), t.Backend, count(len(t.Segments), "segment"), count(len(rec.Steps), "step"),
		page.Span(rec.Length))}
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

func upper(s string) string {
	if s == "" {
		return s
	}
	return strings.ToUpper(s[:1]) + s[1:]
}
