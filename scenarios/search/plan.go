package search

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/cockroachdb/datadriven"
)

// Step is a directive and the time that passes before it.
type Step struct {
	After time.Duration
	Line  string // verb and arguments
	Input string
	Fault string // the name of the fault it is, "" for workload

	Hostile bool // it writes a hostile record, see hostileFaults
}

// Plan is everything that happens in a run. Equal plans with equal seeds give equal runs.
type Plan struct {
	Seed     uint64
	Topology Step
	Steps    []Step
	Nodes    int
	Outward  bool // the daemons masquerade

	compared bool // with the same plan without its hostile writes, see unharmed.go

	Networks []Step // of daemons with several networks: the steps that write their first configs again
}

// healed is the end of every plan: the faults end, the world comes to rest,
// and every pod reaches every pod, and the outside host under its node's name.
//
// A process whose first config is unusable exits, and only the heal starts it
// again. So the plan replaces such a config before the heal, by more than the time
// that a change may take to reach a node.
func (p Plan) healed() []Step {
	if p.Networks != nil {
		return p.healedNetworks()
	}
	var steps []Step
	heal := Step{Line: "heal"}
	if slices.ContainsFunc(p.Steps, func(s Step) bool { return strings.HasPrefix(s.Line, "store config") }) {
		steps = append(steps, Step{Line: "store merge may-fail", Input: "{}"})
		heal.After = 40 * time.Second
	}
	if p.probing() {
		// Nearly every drawn fault is over by now, and probes have to find a lasting one, too.
		steps = append(steps, p.apart()...)
	}
	if p.started() > 1 {
		steps = append(steps, Step{Line: "trace agree"})
	}
	settle := Step{Line: fmt.Sprintf("settle within=%s", liveness)}
	steps = append(steps, heal, settle)
	if p.changesBackend() {
		steps = append(steps, Step{Line: "store end-change"}, settle)
	}
	pods := p.started()
	if pods > 1 {
		steps = append(steps, p.pings(), Step{Line: "trace all"})
		if p.probing() {
			steps = append(steps, agree)
		}
	}
	if pods > 0 && p.Outward {
		steps = append(steps, Step{Line: "ping all outside"})
	}
	return append(steps, p.diff())
}

// changesBackend reports whether the nodes may keep previous backends at the end.
func (p Plan) changesBackend() bool {
	return slices.ContainsFunc(p.Steps, func(s Step) bool {
		return strings.HasPrefix(s.Line, "store merge") && strings.Contains(s.Input, `"Backend"`)
	})
}

// probing reports whether there are two nodes, whose daemons send probes.
func (p Plan) probing() bool {
	return p.started() > 1 && strings.Contains(p.Topology.Line, " probes=")
}

// apart is the end of the faults for daemons that send probes: no packet passes between the last node and the others,
// long enough for that node to say that it is not ready.
func (p Plan) apart() []Step {
	var steps []Step
	for i := 1; i < p.Nodes; i++ {
		steps = append(steps, Step{Line: fmt.Sprintf("fault n%d part n%d may-fail", p.Nodes, i)})
	}
	return append(steps, agree, Step{Line: "pass 2m30s"})
}

// agree is the step in which the probes' findings must agree with the fate of packets.
var agree = Step{Line: "probes agree"}

// pings is the step in which every pod must reach every pod. The ends of a WireGuard
// tunnel may need 20 s for that: an end that uses a session which the other has forgotten
// notices after 15 s of silence, and tries a handshake every 5 s.
func (p Plan) pings() Step {
	if usesWireGuard(p.Topology) || slices.ContainsFunc(p.Steps, usesWireGuard) {
		return Step{Line: "ping all within=30s"}
	}
	return Step{Line: "ping all"}
}

func usesWireGuard(s Step) bool { return strings.Contains(s.Line+s.Input, "wireguard") }

// started counts the nodes that are ever started, and so get a pod. A minimised
// plan may start none.
func (p Plan) started() int {
	names := map[string]bool{}
	for _, s := range p.Steps {
		switch args := strings.Fields(s.Line); args[0] {
		case "start", "restart":
			names[args[1]] = true
		}
	}
	if names["all"] {
		return p.Nodes
	}
	return len(names)
}

// liveness is how long a healed world may take to come to rest: requests back
// off to a minute, plans and looks to half a minute, disputes to five minutes.
const liveness = 10 * time.Minute

// all returns the steps of a run in order.
func (p Plan) all() []Step {
	steps := append([]Step{p.Topology}, p.Steps...)
	return append(steps, p.healed()...)
}

// reached is the output of "ping all" when all is well.
const reached = "all ok src=preserved\n"

// followed is the output of "trace all" when all is well.
const followed = "all arrive\n"

// diffAll begins the last step of a plan.
const diffAll = "diff all own within="

// diff is the last step of a plan. A command that hung when all was healed is killed after half
// a minute, and runs again later.
func (p Plan) diff() Step {
	runsCommands := func(s Step) bool { return strings.Contains(s.Line+s.Input, "extension") }
	if runsCommands(p.Topology) || slices.ContainsFunc(p.Steps, runsCommands) {
		return Step{Line: diffAll + "1m"}
	}
	return Step{Line: diffAll + "30s"}
}

// closed is the output of diffAll when all is well.
const closed = "no difference\n"

// hidden is the output of "ping all outside" when all is well.
const hidden = "all ok src=masqueraded\n"

// directive turns a step into what a session runs.
func (s Step) directive() (*datadriven.TestData, error) {
	cmd, args, err := datadriven.ParseLine(s.Line)
	if err != nil {
		return nil, fmt.Errorf("step %q: %w", s.Line, err)
	}
	return &datadriven.TestData{Cmd: cmd, CmdArgs: args, Input: s.Input}, nil
}

// Scenario prints the plan as a scenario file that passes when all is well.
func (p Plan) Scenario(title string) string {
	var b strings.Builder
	for _, line := range strings.Split(title, "\n") {
		fmt.Fprintf(&b, "# %s\n", line)
	}
	fmt.Fprintf(&b, "# seed=%d\n", p.Seed)
	for i, s := range p.all() {
		if i > 0 {
			b.WriteString("\n")
		}
		if s.After > 0 {
			fmt.Fprintf(&b, "pass %s\n----\nok\n\n", s.After)
		}
		b.WriteString(s.Line + "\n")
		if s.Input != "" {
			b.WriteString(s.Input + "\n")
		}
		fmt.Fprintf(&b, "----\n%s", s.wanted())
	}
	return b.String()
}

// wanted is the output of a step when all is well.
func (s Step) wanted() string {
	if strings.HasPrefix(s.Line, diffAll) {
		return closed
	}
	switch s.Line {
	case "ping all", "ping all within=30s":
		return reached
	case "trace all":
		return followed
	case "ping all outside":
		return hidden
	}
	return "ok\n"
}
