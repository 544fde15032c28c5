package search

import (
	"fmt"
	"runtime"
	"strings"
	"time"

	"github.com/flanneld/flannel/drivers/sim/world"
	"github.com/flanneld/flannel/internal/page"
	"github.com/flanneld/flannel/scenarios/lang"
	"github.com/flanneld/flannel/scenarios/simworld"
)

// Result is the outcome of a run.
type Result struct {
	Plan    Plan
	Failed  string // what broke, in a sentence; "" if nothing did
	At      int    // the step at which it showed
	Trace   uint64 // hash of all that happened
	Actions uint64 // the same without the texts of logs
	Virtual time.Duration
	Faults  map[string]int // injected, by name
	Events  map[string]int // log events of all nodes, by kind
	Logs    string         // the tail of every daemon's log, of a failed run

	harvest harvest // of a run with hostile writes, or of the same run without
}

// Run replays a plan in the simulator and watches all invariants. The daemons and the tools
// have the planted defects.
func Run(p Plan, defects ...simworld.Defect) Result {
	p.compared = p.hostile()
	r, session := run(p, watch{}, defects)
	if r.Failed != "" || !p.compared {
		return r
	}
	calm, _ := run(p.without(), watch{}, defects)
	if calm.Failed == "" {
		r.Failed = r.harvest.harmed(calm.harvest, forgedWords(session))
	}
	return r
}

// Record replays a plan and returns the recording for a page.
func Record(p Plan, about page.About) page.Recording {
	r, session := run(p, watch{record: true}, nil)
	return session.Recording(about, r.Failed)
}

// watch says what follows a run, which changes nothing in it.
type watch struct {
	record bool
	line   func(w *world.World, line string) // of the trace
}

func run(p Plan, watch watch, defects []simworld.Defect) (Result, *lang.Session) {
	r := Result{Plan: p, Faults: map[string]int{}}
	var cluster *simworld.World
	session := lang.NewSession("sim", func(top lang.Topology) (lang.World, error) {
		var err error
		cluster, err = simworld.New(top, p.Seed, defects...)
		if err == nil {
			cluster.JudgeClaims()
			if watch.line != nil {
				cluster.World.Trace(func(line string) { watch.line(cluster.World, line) })
			}
		}
		return cluster, err
	})
	if watch.record {
		session.Record(nil)
	}
	for i, step := range p.all() {
		r.Failed = perform(session, cluster, step)
		if r.Failed != "" {
			r.At = i
			break
		}
		if step.Fault != "" {
			r.Faults[step.Fault]++
		}
	}
	if cluster != nil {
		if r.Failed == "" && p.compared {
			r.Failed = perform(session, cluster, Step{Line: "pass 1m"}) // the nodes save what they have ended
			r.harvest = reap(session, cluster, p.Nodes)
		}
		if err := session.Close(); err != nil && r.Failed == "" {
			r.Failed = err.Error()
		}
		r.Trace, r.Actions = cluster.World.TraceHash(), cluster.World.EventHash()
		r.Virtual, r.Events = cluster.Elapsed(), cluster.Events()
		if r.Failed != "" {
			r.Logs = cluster.Logs()
		}
	}
	return r, session
}

// perform performs one step and returns what is wrong afterwards. A panic is a failure of the seed, not the end of the
// search.
func perform(session *lang.Session, world *simworld.World, step Step) (bad string) {
	defer func() {
		if p := recover(); p != nil {
			bad = fmt.Sprintf("%s: panic: %v in %s", step.Line, p, panicked())
		}
	}()
	if step.After > 0 {
		bad = perform(session, world, Step{Line: "pass " + step.After.String()})
		if bad != "" {
			return bad
		}
	}
	d, err := step.directive()
	if err != nil {
		return err.Error()
	}
	out := session.Run(d)
	if world != nil && world.World.Err() != nil {
		return world.World.Err().Error()
	}
	if out != step.wanted() {
		return fmt.Sprintf("%s: %s", step.Line, strings.TrimSpace(out))
	}
	return ""
}

// panicked returns the function and line of a panic that is being recovered.
func panicked() string {
	pcs := make([]uintptr, 64)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(0, pcs)])
	for panicking := false; ; {
		frame, more := frames.Next()
		inRuntime := strings.HasPrefix(frame.Function, "runtime.")
		if panicking && !inRuntime || !more {
			return fmt.Sprintf("%s, line %d", frame.Function, frame.Line)
		}
		panicking = panicking || frame.Function == "runtime.gopanic"
	}
}
