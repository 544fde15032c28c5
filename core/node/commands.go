package node

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/flanneld/flannel/core/backend"
	"github.com/flanneld/flannel/core/backend/all"
	"github.com/flanneld/flannel/core/command"
	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/reconcile"
)

// The pauses before a failed command of a peer runs again.
const (
	commandFirst = time.Second
	commandMost  = 5 * time.Minute
)

// commandBatch is the largest number of commands in a plan. A plan is not
// interrupted, so changes that arrive meanwhile wait.
const commandBatch = 32

// commandsState holds the operator's commands that have run.
type commandsState struct {
	looked   bool // have is known
	have     *dataplane.State
	running  []dataplane.Op   // the last plan, until a look has shown its effect
	aim      *dataplane.State // of the last comparison
	failures map[dataplane.CommandKey]commandFailure
	rounds   map[dataplane.CommandKey]commandRound // of commands that run again from time to time
}

// commandRound says since when a command has been in its present round.
type commandRound struct {
	number uint64
	since  time.Time
}

// commandFailure records why a command for a peer failed.
type commandFailure struct {
	op       dataplane.Op
	err      error
	attempts int       // in the present round
	at       time.Time // of the next attempt
}

// repeatedBy reports whether an op repeats the failed one, in the same round or in another
// one. The failure has changed the outcome on record.
func (f commandFailure) repeatedBy(op dataplane.Op) bool {
	was, now := f.op.Object.(dataplane.Command), op.Object.(dataplane.Command)
	was.Outcome, was.Output = now.Outcome, now.Output
	was.Round = now.Round
	return was == now && (f.op.Verb == dataplane.Delete) == (op.Verb == dataplane.Delete)
}

// inRound returns a failure as it counts for an op that repeats it: the pauses begin anew
// with each round.
func (f commandFailure) inRound(op dataplane.Op) commandFailure {
	if f.op.Object.(dataplane.Command).Round != op.Object.(dataplane.Command).Round {
		f.attempts, f.at = 0, time.Time{}
	}
	return f
}

func newCommandsState() commandsState {
	return commandsState{
		have:     dataplane.NewState(),
		failures: map[dataplane.CommandKey]commandFailure{},
		rounds:   map[dataplane.CommandKey]commandRound{},
	}
}

// startup returns the command that ran before the lease; the zero value if none did.
func (s *commandsState) startup() dataplane.Command {
	c, _ := s.have.Commands.Get(dataplane.CommandKey{Stage: dataplane.PreStartup})
	return c
}

// commandsPart is the lane of the operator's commands. A failed command of a peer
// is that peer's problem. A failed command of the startup keeps the node from
// being ready, and holds up the commands of later stages.
type commandsPart struct{ n *Node }

func (p commandsPart) lane() *lane { return p.n.lanes[CommandsLane] }

// pace asks for no look without a reason: only this process changes the record.
func (p commandsPart) pace() pace { return pace{hintGap: hintGap, most: p.n.opts.Resync} }

// needed reports whether the backend of the config in force has commands.
func (p commandsPart) needed() bool {
	if !p.n.network.known {
		return false
	}
	spec, _ := all.Find(p.n.transition.Set().Type())
	return slices.Contains(spec.Lanes, CommandsLane.String())
}

// watches returns false if no commands are desired and none are left to undo.
func (p commandsPart) watches() bool { return p.needed() || !p.lane().clean }

func (p commandsPart) follow() bool {
	n := p.n
	if !n.network.known {
		return false
	}
	if aim := n.host.want.state; aim != n.commands.aim {
		n.commands.aim = aim
		p.lane().retarget(n.now)
	}
	return true
}

// wanted returns the desired commands: before the first rendering, only those that
// run before the node has a lease.
func (p commandsPart) wanted() *dataplane.State {
	if aim := p.n.host.want.state; aim != nil {
		return aim
	}
	if b, ok := p.n.transition.Set().PresentBackend().(backend.Commander); ok {
		return b.Prepare()
	}
	return dataplane.NewState()
}

func (commandsPart) look() Look { return Look{} }

func (p commandsPart) take(looked Looked) {
	s := &p.n.commands
	s.have, s.running = looked.Seen.State, nil
	s.looked = true
}

func (p commandsPart) tables() (want, have *dataplane.State) { return nil, p.n.commands.have }

func (p commandsPart) compare() ([]dataplane.Op, bool) {
	n, s := p.n, &p.n.commands
	p.lane().moved() // a command that is due repairs nothing
	if !n.removal.begun() && len(n.toHandOver()) > 0 {
		return nil, false
	}
	opts := reconcile.CommandOptions{Prune: n.renderedLast()}
	if b, ok := n.transition.Set().PresentBackend().(backend.Commander); ok {
		text := b.Undo()
		opts.Undo = &text
	}
	plan := reconcile.Commands(p.again(p.wanted()), s.have, opts).Ops
	due := make([]dataplane.Op, 0, len(plan))
	failures := s.failures
	s.failures = map[dataplane.CommandKey]commandFailure{}
	for _, op := range plan {
		key := op.Object.(dataplane.Command).CommandKey
		was, failed := failures[key]
		failed = failed && was.repeatedBy(op)
		if failed {
			was = was.inRound(op)
			s.failures[key] = was
		}
		switch {
		case failed && n.now.Before(was.at):
			p.lane().lookBy(was.at, causeRetry)
		case len(due) < commandBatch:
			due = append(due, op)
		}
	}
	if l := p.lane(); len(due) > 0 && len(l.failures) == 0 {
		l.restart() // each plan is a step forward
	}
	s.running = due
	return due, true
}

// again returns the desired commands, with another round for those that are due
// to run again.
func (p commandsPart) again(want *dataplane.State) *dataplane.State {
	n, s := p.n, &p.n.commands
	next := want
	for k, c := range want.Commands.All {
		was, exists := s.have.Commands.Get(k)
		if c.Every == 0 || !exists {
			continue
		}
		if next == want {
			next = want.Clone()
		}
		if now, known := s.rounds[k]; !known || now.number != was.Round {
			s.rounds[k] = commandRound{was.Round, n.now}
		}
		c.Round = was.Round
		at := s.rounds[k].since.Add(c.Every)
		if n.now.Before(at) {
			p.lane().lookBy(at, causeResync)
		} else {
			c.Round++
		}
		next.AddCommand(c)
	}
	return next
}

// commandsHold returns whether a peer's command for our subnet is running or has to be
// undone: it could change the routes to our pods. An undo that has failed holds up nothing.
func (n *Node) commandsHold(own netip.Prefix) bool {
	s := &n.commands
	ours := func(c dataplane.Command) bool {
		return c.Stage == dataplane.ForPeer && own.IsValid() && c.Subnet.Overlaps(own)
	}
	for _, op := range s.running {
		if ours(op.Object.(dataplane.Command)) {
			return true
		}
	}
	for k, c := range s.have.Commands.All {
		if _, failed := s.failures[k]; ours(c) && !failed {
			return true
		}
	}
	return false
}

// retries counts the commands that are due again, too: they have run, so the node is ready.
func (p commandsPart) retries(plan []dataplane.Op) bool {
	for _, op := range plan {
		if !p.failedBefore(op) && !p.dueAgain(op) {
			return false
		}
	}
	return true
}

func (p commandsPart) failedBefore(op dataplane.Op) bool {
	_, failed := p.n.commands.failures[op.Object.(dataplane.Command).CommandKey]
	return failed
}

// dueAgain reports whether an op only begins another round of a command that has run.
func (p commandsPart) dueAgain(op dataplane.Op) bool {
	c := op.Object.(dataplane.Command)
	was, exists := p.n.commands.have.Commands.Get(c.CommandKey)
	was.Round = c.Round
	return exists && op.Verb != dataplane.Delete && was.InForce(c)
}

// routine implements [quieter]: a line for each round would flood the log.
func (p commandsPart) routine(op dataplane.Op) bool { return !p.failedBefore(op) && p.dueAgain(op) }

func (p commandsPart) failed(op dataplane.Op, err error) error {
	c := op.Object.(dataplane.Command)
	if c.Stage != dataplane.ForPeer {
		return err
	}
	n := p.n
	was, before := n.commands.failures[c.CommandKey]
	was.op, was.err = op, err
	was.at = n.now.Add(n.backoff(was.attempts, commandFirst, commandMost))
	was.attempts++
	n.commands.failures[c.CommandKey] = was
	if !before {
		text, output := command.Split(err)
		n.log.AddEvent(Event{
			Kind: "command-failed", Text: fmt.Sprintf("%s: %s; it runs again later", nameCommand(op), text),
			Level: Warning, Output: output,
		})
	}
	return nil
}

// nameCommand describes the purpose of an op, without texts and data.
func nameCommand(op dataplane.Op) string {
	c := op.Object.(dataplane.Command)
	verb := "run"
	if op.Verb == dataplane.Delete {
		verb = "undo"
	}
	return fmt.Sprintf("%s command %s", verb, c.CommandKey)
}

func (p commandsPart) describe(plan []dataplane.Op) string {
	if len(plan) == 1 {
		return nameCommand(plan[0])
	}
	return fmt.Sprintf("%s and %d more", nameCommand(plan[0]), len(plan)-1)
}

func (p commandsPart) settled() string {
	s := &p.n.commands
	gone := func(k dataplane.CommandKey, _ commandRound) bool { return !s.have.Commands.Has(k) }
	maps.DeleteFunc(s.rounds, gone)
	if failed := len(s.failures); failed > 0 {
		return fmt.Sprintf("commands on record: %d; %d failed and run again later", s.have.Commands.Len(), failed)
	}
	return fmt.Sprintf("all commands have run: %d", s.have.Commands.Len())
}

// limit is the longest time of a plan: each op may run a text and an undo.
func (p commandsPart) limit(plan []dataplane.Op) time.Duration {
	limit := time.Second
	for _, op := range plan {
		limit += 2 * op.Object.(dataplane.Command).Limit
	}
	return limit
}

// stop undoes the startup: this runs the operator's command for a shutdown.
func (p commandsPart) stop() []dataplane.Op {
	c := p.n.commands.startup()
	if c.Undo == "" || !p.needed() {
		return nil
	}
	return []dataplane.Op{{Verb: dataplane.Delete, Object: c}}
}

func (p commandsPart) reasons() []string {
	if !p.needed() {
		return nil
	}
	if names := p.n.toHandOver(); len(names) > 0 {
		return []string{fmt.Sprintf("commands: they wait until the node has removed its own %s", strings.Join(names, ", "))}
	}
	texts := p.lane().troubles("their record", "not all have run")
	if len(texts) == 0 && p.n.commands.aim != p.n.host.want.state {
		return []string{"commands: a plan is under way that does not follow the newest leases"}
	}
	return texts
}

// commandProblems describes the failed commands of peers, for the status.
func (n *Node) commandProblems() []string {
	var texts []string
	for _, k := range slices.SortedFunc(maps.Keys(n.commands.failures), dataplane.CommandKey.Compare) {
		f := n.commands.failures[k]
		text, _ := command.Split(f.err)
		texts = append(texts, fmt.Sprintf("%s: %s", nameCommand(f.op), text))
	}
	return texts
}

// commandOutputs returns what the failed commands wrote, for root.
func (n *Node) commandOutputs() []string {
	var texts []string
	add := func(name string, err error) {
		_, output := command.Split(err)
		if output != "" {
			texts = append(texts, name+": "+output)
		}
	}
	for _, failure := range n.lanes[CommandsLane].failures {
		add("startup", failure)
	}
	for _, k := range slices.SortedFunc(maps.Keys(n.commands.failures), dataplane.CommandKey.Compare) {
		f := n.commands.failures[k]
		add(nameCommand(f.op), f.err)
	}
	return texts
}
