package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/flanneld/flannel/core/command"
	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/driver"
	"github.com/flanneld/flannel/core/lease"
)

// fakeShell is a host on which commands run: each prints "printed TEXT" and
// succeeds, unless refuse says otherwise.
type fakeShell struct {
	kept   map[dataplane.CommandKey]dataplane.Command
	record *command.Record // of the present run of the daemon
	runs   []string        // text, environment and input
	refuse func(run string) error
	held   *LaneEffects // a plan that runs until release; nil: plans end at once
}

func (f *fakeShell) Run(_ context.Context, text string, about command.About) (string, error) {
	run := fmt.Sprintf("%s [%s] %q", text, about.Env, about.Input)
	f.runs = append(f.runs, run)
	if f.refuse != nil {
		err := f.refuse(run)
		var end *command.ExitError
		if errors.As(err, &end) {
			return end.Output, err
		}
		if err != nil {
			return "", err
		}
	}
	return "printed " + text, nil
}

func (f *fakeShell) Keep(c dataplane.Command) error      { f.kept[c.CommandKey] = c; return nil }
func (f *fakeShell) Forget(k dataplane.CommandKey) error { delete(f.kept, k); return nil }
func (f *fakeShell) ran() (runs []string)                { runs, f.runs = f.runs, nil; return runs }
func (f *fakeShell) failing(part string, err error) *fakeShell {
	f.refuse = func(run string) error {
		if strings.Contains(run, part) {
			return err
		}
		return nil
	}
	return f
}

// start begins a run of the daemon.
func (f *fakeShell) start() {
	if f.kept == nil {
		f.kept = map[dataplane.CommandKey]dataplane.Command{}
	}
	kept := dataplane.NewState()
	for _, c := range f.kept {
		kept.AddCommand(c)
	}
	f.record = command.Open(f, kept, false)
}

// hold lets the next plan run until release.
func (f *fakeShell) hold() { f.held = &LaneEffects{} }

// release ends the plan that hold has kept.
func (f *fakeShell) release() (in Input) {
	e := *f.held
	f.held = nil
	f.perform(e, &in.Lanes[CommandsLane])
	return in
}

// perform does what the node asks of the lane, and reports whether it asked for anything.
func (f *fakeShell) perform(e LaneEffects, in *LaneInput) bool {
	if f.held != nil && e.Plan != nil {
		*f.held = e
		return false
	}
	if e.Look != nil {
		in.Looked = &Looked{Seen: driver.Observation{State: f.record.State()}}
	}
	if e.Plan != nil {
		in.Applied = &Applied{}
		for _, op := range e.Plan {
			in.Applied.Errs = append(in.Applied.Errs, f.record.Apply(context.Background(), op))
		}
	}
	return e.Look != nil || e.Plan != nil
}

const commandsConfig = `{"Network":"10.5.0.0/16","Backend":{"Type":"extension","PreStartupCommand":"pre",` +
	`"PostStartupCommand":"post","SubnetAddCommand":"add","SubnetRemoveCommand":"remove","ShutdownCommand":"shutdown"}}`

// commandPeer puts the record of a peer with number n into the store.
func (w *world) commandPeer(n int, data string) {
	w.t.Helper()
	key, err := lease.ParseKey(fmt.Sprintf("10.5.%d.0-24", n))
	if err != nil {
		w.t.Fatal(err)
	}
	record := `{"PublicIP":"192.168.64.%d","BackendType":"extension","BackendData":%q}`
	attrs, err := lease.DecodeAttrs(fmt.Appendf(nil, record, n, data))
	if err != nil {
		w.t.Fatal(err)
	}
	w.put(lease.Lease{Key: key, Attrs: attrs})
}

// wantRuns compares the commands since the last call with the expected texts,
// which may be followed by a part of their environment or input.
func (w *world) wantRuns(want ...string) {
	w.t.Helper()
	runs := w.shell.ran()
	same := slices.EqualFunc(runs, want, func(run, want string) bool {
		for _, part := range strings.Fields(want) {
			if !strings.Contains(run, part) {
				return false
			}
		}
		return strings.HasPrefix(run, strings.Fields(want)[0]+" ")
	})
	if !same {
		w.t.Errorf("ran:\n%s\nwant:\n%s", strings.Join(runs, "\n"), strings.Join(want, "\n"))
	}
}

func TestCommandsOfALife(t *testing.T) {
	w := newWorld(t, commandsConfig)
	w.commandPeer(4, "four")
	w.tell()
	w.pass(700 * time.Millisecond)
	w.wantRuns("pre", "post NETWORK=10.5.0.0/16 PUBLIC_IP=192.168.64.3",
		"add SUBNET=10.5.4.0/24 PUBLIC_IP=192.168.64.4 four")
	w.wantReady()
	if got := string(w.n.lease.grant.Attrs.BackendData); got != `"printed pre"` {
		t.Errorf("published %s", got)
	}
	w.commandPeer(5, "five")
	w.tell()
	w.pass(700 * time.Millisecond)
	w.wantRuns("add SUBNET=10.5.5.0/24")
	w.commandPeer(4, "other")
	w.tell()
	w.pass(700 * time.Millisecond)
	w.wantRuns("remove four", "add other")
	w.n.Step(w.now, Input{Stop: true})
	var in Input
	w.shell.perform(w.n.Ready().Lanes[CommandsLane], &in.Lanes[CommandsLane])
	w.wantRuns("shutdown")
	w.start()
	w.tell()
	w.pass(700 * time.Millisecond)
	w.wantRuns("pre", "post", "add", "add")
}

// A peer that leaves while no daemon runs is removed by the next one. Without
// commands of the startup, nothing else runs again.
func TestCommandsOfAPeerGoneWhileDown(t *testing.T) {
	w := newWorld(t, strings.NewReplacer(`"PreStartupCommand":"pre",`, "", `"PostStartupCommand":"post",`, "").
		Replace(commandsConfig))
	w.commandPeer(4, "four")
	w.commandPeer(5, "five")
	w.tell()
	w.pass(700 * time.Millisecond)
	w.wantRuns("add SUBNET=10.5.4.0/24", "add SUBNET=10.5.5.0/24")
	w.remove(lease.Key{V4: netip.MustParsePrefix("10.5.4.0/24")})
	w.start()
	w.tell()
	w.pass(700 * time.Millisecond)
	w.wantRuns("remove SUBNET=10.5.4.0/24 four")
	w.wantReady()
}

// A failed command of a peer is that peer's problem, and runs again later.
func TestCommandOfAPeerFails(t *testing.T) {
	w := newWorld(t, commandsConfig)
	w.shell.failing("add [SUBNET=10.5.4.0/24", errors.New("exit status 2"))
	w.commandPeer(4, "four")
	w.commandPeer(5, "five")
	w.tell()
	w.pass(400 * time.Millisecond)
	w.wantRuns("pre", "post", "add SUBNET=10.5.4.0/24", "add SUBNET=10.5.5.0/24")
	w.wantReady()
	want := []string{"run command peer 10.5.4.0/24: command peer 10.5.4.0/24: exit status 2"}
	if got := w.n.Status().Problems; !slices.Equal(got, want) {
		t.Errorf("problems %q, want %q", got, want)
	}
	w.pass(time.Second)
	w.wantRuns("remove SUBNET=10.5.4.0/24", "add SUBNET=10.5.4.0/24")
	w.shell.refuse = nil
	w.pass(5 * time.Second)
	w.wantRuns("remove SUBNET=10.5.4.0/24", "add SUBNET=10.5.4.0/24")
	if got := w.n.Status().Problems; len(got) > 0 {
		t.Errorf("problems %q", got)
	}
	w.pass(time.Minute)
	w.wantRuns()
}

// A peer goes, the command that removes it fails, and the peer comes back: nothing
// tells what is left of its route, so that is undone and made again at once.
func TestPeerComesBackAfterItsUndoFailed(t *testing.T) {
	w := newWorld(t, commandsConfig)
	w.commandPeer(4, "four")
	w.tell()
	w.pass(400 * time.Millisecond)
	w.shell.failing("remove", errors.New("exit status 2"))
	w.shell.ran()
	gone, err := lease.ParseKey("10.5.4.0-24")
	if err != nil {
		t.Fatal(err)
	}
	w.remove(gone)
	w.tell()
	w.pass(400 * time.Millisecond)
	w.wantRuns("remove")
	w.commandPeer(4, "four")
	w.tell()
	w.pass(400 * time.Millisecond)
	w.wantRuns("remove", "add")
	w.pass(time.Minute)
	w.wantRuns()
	w.wantReady()
}

// A failed command of the startup keeps the node from being ready. It runs again.
func TestCommandOfTheStartupFails(t *testing.T) {
	for _, name := range []string{"pre", "post"} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, commandsConfig)
			w.shell.failing(name+" ", errors.New("exit status 1: no such device"))
			w.commandPeer(4, "four")
			w.tell()
			w.pass(700 * time.Millisecond)
			w.pass(700 * time.Millisecond)
			want := name + "-startup: exit status 1: no such device"
			if got := strings.Join(w.n.Pulse().Reasons, "; "); !strings.Contains(got, want) {
				t.Errorf("reasons: %s", got)
			}
			early := func(run string) bool { return strings.HasPrefix(run, "add") }
			if w.exit != nil || slices.ContainsFunc(w.shell.runs, early) {
				t.Errorf("exit %v, ran %q", w.exit, w.shell.runs)
			}
			w.shell.refuse = nil
			w.pass(time.Minute)
			w.wantReady()
		})
	}
}

// What a failed command wrote may name secrets. Only the log and the outputs of the status have it.
func TestOutputOfAFailedCommand(t *testing.T) {
	const secret = "token=s3cret"
	for _, name := range []string{"pre", "add"} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, commandsConfig)
			w.shell.failing(name+" ", &command.ExitError{Status: 1, Output: secret})
			w.commandPeer(4, "four")
			w.tell()
			w.pass(700 * time.Millisecond)
			s := w.n.Status()
			if len(s.Outputs) != 1 || !strings.Contains(s.Outputs[0], secret) {
				t.Errorf("outputs %q", s.Outputs)
			}
			s.Outputs = nil
			for _, shown := range []any{s, w.n.Pulse(), w.n.Peers(), w.n.Differences()} {
				text, err := json.Marshal(shown)
				if err != nil || strings.Contains(string(text), secret) {
					t.Errorf("%s, %v", text, err)
				}
			}
			logged := 0
			for _, e := range w.events {
				if strings.Contains(e.Text, secret) {
					t.Errorf("%s: %s", e.Kind, e.Text)
				}
				if e.Output == secret {
					logged++
				}
			}
			if logged == 0 {
				t.Error("the log does not say what the command wrote")
			}
		})
	}
}

// The commands of an extension are undone when the backend changes, and a
// departed peer's only once the datastore answers.
func TestCommandsAreUndoneForAnotherBackend(t *testing.T) {
	w := newWorld(t, commandsConfig)
	w.commandPeer(4, "four")
	w.tell()
	w.pass(700 * time.Millisecond)
	w.shell.ran()
	w.configure(`{"Network":"10.5.0.0/16","Backend":{"Type":"host-gw"}}`)
	w.tell()
	w.pass(700 * time.Millisecond)
	w.wantRuns("remove SUBNET=10.5.4.0/24", "shutdown")
	if len(w.shell.kept) > 0 {
		t.Errorf("left: %v", slices.Collect(maps.Keys(w.shell.kept)))
	}
	w.wantReady()
}

// With a period, the command of a peer runs again and again.
func TestCommandsRunAgain(t *testing.T) {
	w := newWorld(t, strings.Replace(commandsConfig, `"Type"`, `"ResyncPeriod":60,"Type"`, 1))
	w.commandPeer(4, "four")
	w.tell()
	w.pass(700 * time.Millisecond)
	w.wantRuns("pre", "post", "add")
	for range 3 {
		w.pass(time.Minute)
		w.pass(700 * time.Millisecond)
		w.wantRuns("add")
	}
	w.wantReady()
}

// Rounds leave no trace in the log and keep the node ready, except for a command that begins to
// fail, and one line when it works again. Rounds go on as ever while it fails.
func TestRoundsAreQuiet(t *testing.T) {
	w := newWorld(t, strings.Replace(commandsConfig, `"Type"`, `"ResyncPeriod":60,"Type"`, 1))
	w.commandPeer(4, "four")
	w.commandPeer(5, "five")
	w.tell()
	w.pass(700 * time.Millisecond)
	w.wantReady()
	lines := len(w.events)
	w.pass(10 * time.Minute)
	if got := w.events[lines:]; len(got) > 0 {
		t.Errorf("ten rounds logged %v", got)
	}
	w.shell.ran()
	w.shell.failing("add [SUBNET=10.5.4.0/24", errors.New("no"))
	w.pass(20 * time.Minute)
	w.wantReady()
	if got := w.events[lines:]; len(got) != 1 || got[0].Kind != "command-failed" {
		t.Errorf("twenty rounds of a command that fails logged %v", got)
	}
	if runs := len(w.shell.ran()); runs < 20*(1+4) {
		t.Errorf("%d runs", runs)
	}
	w.shell.refuse = nil
	w.pass(3 * time.Minute)
	if got := w.events[lines:]; len(got) != 2 || got[1].Text != "run command peer 10.5.4.0/24" {
		t.Errorf("after it works again, the log has %v", got)
	}
}

// A node whose commands run again is not ready while that plan delays the command of a new peer.
func TestNewPeerWaitsForARound(t *testing.T) {
	w := newWorld(t, strings.Replace(commandsConfig, `"Type"`, `"ResyncPeriod":60,"Type"`, 1))
	w.commandPeer(4, "four")
	w.tell()
	w.pass(700 * time.Millisecond)
	w.shell.hold()
	w.pass(time.Minute)
	w.wantReady()
	w.shell.ran()
	w.commandPeer(5, "five")
	w.tell()
	w.pass(time.Second)
	if s := w.status(); s.Ready || len(w.shell.ran()) > 0 {
		t.Errorf("ready %t while a round delays the command of a new peer", s.Ready)
	}
	w.run(w.shell.release())
	w.pass(time.Second)
	w.wantRuns("add SUBNET=10.5.4.0/24", "add SUBNET=10.5.5.0/24")
	w.wantReady()
}

// A node whose subnet file waits for the end of a peer's command is not ready, even if that
// command only runs again.
func TestWaitingSubnetFileIsNotReady(t *testing.T) {
	w := newWorld(t, commandsConfig)
	w.tell()
	w.pass(700 * time.Millisecond)
	w.wantReady()
	own := w.own().Key.V4
	again := dataplane.Command{CommandKey: dataplane.CommandKey{Stage: dataplane.ForPeer, Subnet: own}}
	w.n.commands.running = []dataplane.Op{{Verb: dataplane.Delete, Object: again}}
	w.n.files.text = subnetText{} // the file names another subnet
	want := []string{fmt.Sprintf("the subnet file waits for the end of a peer's command for subnet %s", w.own().Key)}
	if s := w.status(); !slices.Equal(s.Reasons, want) {
		t.Errorf("reasons %q, want %q", s.Reasons, want)
	}
}

// Several nodes may publish the same output of their commands.
func TestCommandsMayPrintTheSameEverywhere(t *testing.T) {
	w := newWorld(t, commandsConfig)
	w.commandPeer(4, "printed pre")
	w.tell()
	w.pass(time.Minute)
	w.wantReady()
	if w.count("lease-copied") > 0 {
		t.Error(w.log())
	}
}

// A node that takes the subnet of a former peer writes its subnet file once the peer's
// command is undone, or the undo has failed: it could change the routes to the first pods.
func TestSubnetFileWaitsForTheUndo(t *testing.T) {
	for name, fails := range map[string]bool{"undone": false, "failed": true} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, commandsConfig)
			w.commandPeer(4, "four")
			w.tell()
			w.pass(700 * time.Millisecond)
			w.shell.ran()
			if fails {
				w.shell.failing("remove", errors.New("it has gone"))
			}
			w.snap.Leases, w.files = nil, map[File]string{}
			w.start(func(o *Options) { o.Previous = lease.Key{V4: netip.MustParsePrefix("10.5.4.0/24")} })
			undone := false
			w.writeErr = func(f File) error {
				undone = undone || slices.ContainsFunc(w.shell.runs, func(run string) bool {
					return strings.HasPrefix(run, "remove ")
				})
				if f == SubnetFile && !undone {
					t.Error("the subnet file is written before the command is undone")
				}
				return nil
			}
			w.tell()
			w.pass(10 * time.Second)
			if got := w.files[SubnetFile]; !strings.Contains(got, "FLANNEL_SUBNET=10.5.4.1/24\n") {
				t.Errorf("subnet file %q\n%s", got, w.log())
			}
		})
	}
}
