package search

import (
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strings"

	"github.com/cockroachdb/datadriven"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/node"
	"github.com/flanneld/flannel/scenarios/check/oracle"
	"github.com/flanneld/flannel/scenarios/lang"
	"github.com/flanneld/flannel/scenarios/simworld"
)

// harvest holds for each node what records of others must not change (rule T1, docs/security.md): its readiness, its
// MTU, its files, and its part of the kernel, in lines without random values. Under departed it holds the owners of
// records that are no nodes.
type harvest map[string][]string

const departed = ""

// reap reads the harvest of a world at rest.
func reap(session *lang.Session, world *simworld.World, nodes int) harvest {
	h := harvest{}
	for line := range strings.Lines(session.Run(&datadriven.TestData{Cmd: "leases"})) {
		owner := strings.Fields(line)[0]
		if _, err := netip.ParseAddr(owner); err == nil {
			h[departed] = append(h[departed], owner)
		}
	}
	for i := range nodes {
		name := fmt.Sprintf("n%d", i+1)
		n, err := world.Node(name)
		if err != nil || !n.Running() {
			continue
		}
		arg := datadriven.CmdArg{Key: name}
		lines := strings.Split(session.Run(&datadriven.TestData{Cmd: "state", CmdArgs: []datadriven.CmdArg{arg}}), "\n")
		status, err := n.Status()
		if err == nil {
			lines = append(lines, fmt.Sprintf("ready=%t %q mtu=%d stale=%t fenced=%t unhealthy=%q change=%t", status.Ready,
				status.Reasons, status.MTU, status.Stale, status.Fenced, status.Unhealthy, status.Change != nil))
		}
		for line := range strings.Lines(n.SubnetFile()) {
			if !strings.Contains(line, "SUBNET=") {
				lines = append(lines, "subnet file: "+strings.TrimSpace(line))
			}
		}
		h[name] = append(judged(withoutLost(n, lines)), saved(world, name)...)
	}
	return h
}

// withoutLost leaves out objects for peers whose records the datastore has lost: how long a node keeps them depends on
// when it was started last.
func withoutLost(n lang.Node, lines []string) []string {
	asked, ok := n.(lang.PeerObserver)
	if !ok {
		return lines
	}
	peers, err := asked.Peers()
	if err != nil {
		return lines
	}
	var lost []string
	for _, p := range peers {
		for _, f := range cidr.Families {
			if subnet := p.Subnet.Of(f); p.Lost && subnet.IsValid() {
				lost = append(lost, subnet.String(), " "+subnet.Addr().String()+" ")
			}
		}
	}
	return slices.DeleteFunc(lines, func(line string) bool { return mentions(line, lost) })
}

// judged leaves out what chance decides beside hostile records. Whether routes use next-hop objects depends on the
// number of records. Whether the kernel has its own route to an address, after a flush of routes, depends on whether
// the node has taken another subnet since: the kernel makes the route with the address. So with a provider's route
// that an operator has led elsewhere, to a subnet that a node had then. A node whose record another program has written
// may have the one MAC of that record in both families.
func judged(lines []string) []string {
	var rest []string
	for _, line := range lines {
		ofKernel := strings.HasPrefix(line, "route ") && strings.Contains(line+" ", " proto 2 ")
		ofOperator := strings.HasPrefix(line, "cloud-route ") && strings.HasSuffix(line, ` to "vpn"`)
		if !ofKernel && !ofOperator && !strings.HasPrefix(line, "nexthop ") {
			line = strings.ReplaceAll(line, ".v6.mac>", ".mac>")
			rest = append(rest, nextHopID.ReplaceAllString(line, ""))
		}
	}
	return rest
}

var nextHopID = regexp.MustCompile(` nhid \S+`)

// saved returns the marks of a node's state file, which say what the node takes for its own after a restart.
func saved(world *simworld.World, name string) []string {
	marks, err := node.SavedMarks(world.StateFile(name))
	if err != nil {
		return nil // a fault has torn it
	}
	slices.Sort(marks.Links)
	var lines []string
	for _, l := range marks.Links {
		lines = append(lines, mark+"device "+l)
	}
	for _, p := range marks.Ports {
		lines = append(lines, fmt.Sprintf(mark+"port %d", p.Number))
	}
	return lines
}

// harmed compares a harvest with the one of the same run without hostile records, and returns the first difference in a
// sentence, or "". A node may have routes to the subnets of hostile records. The runs end at different times, so the
// lease of a host that has gone may have expired in only one of them.
func (h harvest) harmed(calm harvest, forged []string) string {
	here, there := differ(h[departed], calm[departed])
	for _, owner := range slices.Concat(here, there) {
		forged = append(forged, "<"+owner+">", "<"+owner+".")
	}
	for _, name := range sortedNames(calm) {
		extra, missing := differ(h[name], calm[name])
		if !hasMarks(h[name]) || !hasMarks(calm[name]) {
			extra, missing = slices.DeleteFunc(extra, isMark), slices.DeleteFunc(missing, isMark)
		}
		extra = slices.DeleteFunc(extra, func(line string) bool { return mentions(line, forged) })
		missing = slices.DeleteFunc(missing, func(line string) bool { return mentions(line, forged) })
		if len(extra)+len(missing) > 0 {
			return fmt.Sprintf("invariant \"unharmed\": hostile records change %s: more %q, less %q", name,
				extra[:min(3, len(extra))], missing[:min(3, len(missing))])
		}
	}
	return ""
}

// mark begins a line about a state file.
const mark = "state file: "

func isMark(line string) bool      { return strings.HasPrefix(line, mark) }
func hasMarks(lines []string) bool { return slices.ContainsFunc(lines, isMark) }

// differ returns the lines that only one of two sets has.
func differ(a, b []string) (onlyA, onlyB []string) {
	for _, line := range a {
		if !slices.Contains(b, line) {
			onlyA = append(onlyA, line)
		}
	}
	for _, line := range b {
		if !slices.Contains(a, line) {
			onlyB = append(onlyB, line)
		}
	}
	return onlyA, onlyB
}

// mentions reports whether a line contains one of some words.
func mentions(line string, words []string) bool {
	return slices.ContainsFunc(words, func(w string) bool { return strings.Contains(line, w) })
}

// forgedWords returns the subnets, MAC addresses and keys of forged records.
func forgedWords(session *lang.Session) []string {
	var words []string
	for _, r := range session.Forgeries() {
		for _, f := range cidr.Families {
			if p := r.Key.Of(f); p.IsValid() {
				words = append(words, p.String(), p.Addr().String())
			}
		}
		words = append(words, oracle.DevicesIn(r)...)
	}
	return slices.DeleteFunc(words, func(w string) bool { return w == "" })
}

func sortedNames(h harvest) []string {
	var names []string
	for name := range h {
		if name != departed {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// without returns the plan without its hostile writes, and with all its waits.
func (p Plan) without() Plan {
	calm := p
	calm.Steps = slices.Clone(p.Steps)
	for i, s := range calm.Steps {
		if s.Hostile {
			calm.Steps[i] = Step{After: s.After, Line: "pass 0s"}
		}
	}
	return calm
}
