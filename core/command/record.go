package command

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/driver"
)

// Host runs commands and keeps the record of them. A driver implements it.
type Host interface {
	// Run runs a text with the shell and returns the output, trimmed. It waits for
	// the end, and kills the command with its children at the time limit.
	Run(ctx context.Context, text string, about About) (output string, err error)
	// Keep saves a command under its key.
	Keep(dataplane.Command) error
	// Forget removes what Keep saved under a key.
	Forget(dataplane.CommandKey) error
}

// About holds the data of a command, and its time limit.
type About struct {
	Env   string
	Input string
	Limit time.Duration
}

// Record is the record of a host. One goroutine uses it at a time.
type Record struct {
	host  Host
	state *dataplane.State
	// left holds peers' commands that are no longer desired, and whose effect may remain:
	// their Undo failed. They are not part of state, so the node does not try again.
	left map[dataplane.CommandKey]dataplane.Command
}

// Open returns the record of what an earlier run has kept. Commands of the
// startup have to run again in each run, so they are stale, and with rebooted
// all others are too.
func Open(host Host, kept *dataplane.State, rebooted bool) *Record {
	r := &Record{host: host, state: dataplane.NewState(), left: map[dataplane.CommandKey]dataplane.Command{}}
	for _, c := range kept.Commands.All {
		if c.Outcome == dataplane.Left {
			if !rebooted {
				r.left[c.CommandKey] = c
			}
			continue
		}
		if certain(c) && (rebooted || c.Stage != dataplane.ForPeer) {
			c.Outcome = dataplane.Stale
		}
		r.state.AddCommand(c)
	}
	return r
}

// State returns the commands that have run, except those left behind. It never changes.
func (r *Record) State() *dataplane.State { return r.state }

// Apply performs an op. Its error names the command, and what it wrote.
func (r *Record) Apply(ctx context.Context, op dataplane.Op) error {
	want, is := op.Object.(dataplane.Command)
	if !is {
		return fmt.Errorf("%s: not a command: %w", op, driver.ErrUnsupported)
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("command %s: %w", want.CommandKey, err)
	}
	have, exists := r.state.Commands.Get(want.CommandKey)
	switch {
	case op.Verb == dataplane.Delete && !exists:
		return fmt.Errorf("command %s: %w", want.CommandKey, driver.ErrNotFound)
	case op.Verb == dataplane.Delete:
		have.Undo, have.Limit = want.Undo, want.Limit
		return r.remove(ctx, have)
	case exists && op.Verb == dataplane.Create:
		return fmt.Errorf("command %s: %w", want.CommandKey, driver.ErrExists)
	case exists && have.Outcome == dataplane.Done && have.SameRun(want) && have.Round == want.Round && have.On == want.On:
		want.Output = have.Output
		return r.keep(want)
	}
	if left, behind := r.left[want.CommandKey]; behind && !exists {
		left.Outcome = dataplane.Failed
		have, exists = left, true
	}
	return r.put(ctx, have, want, exists)
}

// put runs the text of a command, after the Undo of the former one if needed.
func (r *Record) put(ctx context.Context, have, want dataplane.Command, exists bool) error {
	half := have.Outcome == dataplane.Failed || have.Outcome == dataplane.Undone
	same := exists && have.SameRun(want)
	have.Outcome = outcomeOfFailure(have)
	left := false // other data than the wanted may be in effect
	if exists && (half || !same) {
		have.Limit = want.Limit
		if err := r.begin(have); err != nil {
			return err
		}
		_, err := r.undo(ctx, have) // the effect may be gone; only the text that follows has to succeed
		left = err != nil && !same
	}
	want.Outcome = dataplane.Failed
	if same {
		want.Outcome = have.Outcome
	}
	if err := r.begin(want); err != nil {
		return err
	}
	output, err := r.run(ctx, want.Text, want)
	if err != nil && left {
		// Neither has succeeded. The former data are the ones to remember, and this round is over.
		_, _ = r.undo(ctx, want)
		have.Round = want.Round
		return errors.Join(err, r.keep(have))
	}
	if err != nil {
		return err
	}
	want.Outcome, want.Output = dataplane.Done, output
	return r.keep(want)
}

// outcomeOfFailure returns the outcome of a command on record after another run of it,
// or its Undo, has failed.
func outcomeOfFailure(have dataplane.Command) dataplane.Outcome {
	if certain(have) {
		return dataplane.Undone
	}
	return dataplane.Failed
}

// remove runs Undo and forgets the command. An effect that certainly existed has to be undone,
// and an Undo that has not run to its end has to run again. Another failure is no reason to try again, but the
// command is left behind for the next one under its key to undo.
func (r *Record) remove(ctx context.Context, have dataplane.Command) error {
	must := certain(have)
	if must && have.Undo != "" {
		have.Outcome = dataplane.Undone // if its peer comes back, it has to run again
		if err := r.keep(have); err != nil {
			return err
		}
	}
	ran, err := r.undo(ctx, have)
	if err != nil && (must || ctx.Err() != nil || cutShort(err)) {
		return err
	}
	if ran {
		r.outdate(have.Stage)
	}
	if err != nil && have.Stage == dataplane.ForPeer {
		return r.leave(have)
	}
	r.drop(have.CommandKey)
	if err := r.host.Forget(have.CommandKey); err != nil {
		return fmt.Errorf("command %s: %w", have.CommandKey, err)
	}
	return nil
}

// leave keeps a command that is no longer desired, and whose effect may remain.
func (r *Record) leave(c dataplane.Command) error {
	c.Outcome, c.Output = dataplane.Left, ""
	if err := r.host.Keep(c); err != nil {
		return fmt.Errorf("command %s: %w", c.CommandKey, err)
	}
	r.drop(c.CommandKey)
	r.left[c.CommandKey] = c
	return nil
}

// drop removes a command from the state.
func (r *Record) drop(k dataplane.CommandKey) {
	next := r.state.Clone()
	next.Commands.Delete(k)
	r.state = next
}

// certain reports whether a command has succeeded, and nothing but a failed Undo
// may have changed its effect.
func certain(c dataplane.Command) bool {
	return c.Outcome == dataplane.Done || c.Outcome == dataplane.Undone
}

func (r *Record) undo(ctx context.Context, c dataplane.Command) (ran bool, err error) {
	_, err = r.run(ctx, c.Undo, c)
	return c.Undo != "", err
}

// begin records that a command is about to run, with the outcome that counts after a
// crash.
func (r *Record) begin(c dataplane.Command) error {
	if c.Text != "" {
		r.outdate(c.Stage)
	}
	c.Output = ""
	return r.keep(c)
}

// outdate makes the commands of all later stages stale. The record on disk needs
// no change: after a crash, the command begun in this stage runs again and outdates
// them again.
func (r *Record) outdate(stage dataplane.Stage) {
	next := r.state.Clone()
	for k, c := range r.state.Commands.All {
		if stage.Before(k.Stage) && c.Outcome == dataplane.Done {
			c.Outcome = dataplane.Stale
			next.AddCommand(c)
		}
	}
	r.state = next
}

func (r *Record) keep(c dataplane.Command) error {
	if err := r.host.Keep(c); err != nil {
		return fmt.Errorf("command %s: %w", c.CommandKey, err)
	}
	next := r.state.Clone()
	next.AddCommand(c)
	r.state = next
	delete(r.left, c.CommandKey)
	return nil
}

// run runs a text; nothing for "".
func (r *Record) run(ctx context.Context, text string, c dataplane.Command) (string, error) {
	if text == "" {
		return "", nil
	}
	output, err := r.host.Run(ctx, text, About{Env: c.Env, Input: c.Input, Limit: c.Limit})
	var end *ExitError
	if errors.As(err, &end) {
		return "", fmt.Errorf("command %s: %w", c.CommandKey, end.with(output))
	}
	if err != nil {
		return "", fmt.Errorf("command %s: %w", c.CommandKey, err)
	}
	return output, nil
}
