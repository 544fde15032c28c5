package command

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/driver"
)

// fakeHost is a host on which each text prints "did TEXT".
type fakeHost struct {
	kept     map[dataplane.CommandKey]dataplane.Command
	runs     []string        // text, environment and input
	failing  map[string]bool // texts that fail
	end      ExitError       // how they do
	diskFull bool
}

func newHost() *fakeHost {
	return &fakeHost{
		kept: map[dataplane.CommandKey]dataplane.Command{}, failing: map[string]bool{}, end: ExitError{Status: 1},
	}
}

func (h *fakeHost) Run(_ context.Context, text string, about About) (string, error) {
	h.runs = append(h.runs, strings.TrimSpace(text+" "+about.Env))
	if h.failing[text] {
		end := h.end
		return "why", &end
	}
	return "did " + text, nil
}

func (h *fakeHost) Keep(c dataplane.Command) error {
	if h.diskFull {
		return errors.New("no space left on device")
	}
	h.kept[c.CommandKey] = c
	return nil
}

func (h *fakeHost) Forget(k dataplane.CommandKey) error { delete(h.kept, k); return nil }

// open begins a run of the daemon with what the former one has kept.
func (h *fakeHost) open(rebooted bool) *Record {
	kept := dataplane.NewState()
	for _, c := range h.kept {
		kept.AddCommand(c)
	}
	h.runs = nil
	return Open(h, kept, rebooted)
}

// peer is the command for a peer with the given data.
func peer(data string) dataplane.Command {
	return dataplane.Command{
		CommandKey: dataplane.CommandKey{Stage: dataplane.ForPeer, Subnet: netip.MustParsePrefix("10.5.3.0/24")},
		Text:       "add", Undo: "del", Env: data, Limit: time.Second,
	}
}

// startup is the command of a stage of the startup.
func startup(stage dataplane.Stage) dataplane.Command {
	return dataplane.Command{CommandKey: dataplane.CommandKey{Stage: stage}, Text: string(stage)}
}

// put creates a command, or replaces the one under its key.
func put(r *Record, c dataplane.Command) error {
	verb := dataplane.Create
	if _, exists := r.State().Commands.Get(c.CommandKey); exists {
		verb = dataplane.Replace
	}
	return r.Apply(context.Background(), dataplane.Op{Verb: verb, Object: c})
}

func remove(r *Record, c dataplane.Command) error {
	return r.Apply(context.Background(), dataplane.Op{Verb: dataplane.Delete, Object: c})
}

// outcome returns the outcome of a command on record, or "none".
func outcome(r *Record, k dataplane.CommandKey) dataplane.Outcome {
	c, exists := r.State().Commands.Get(k)
	if !exists {
		return "none"
	}
	return c.Outcome
}

// with returns a command with a change.
func with(c dataplane.Command, change func(*dataplane.Command)) dataplane.Command {
	change(&c)
	return c
}

// TestRuns checks which texts run, and in which order, when a command is put in force
// or removed, for each outcome on record.
func TestRuns(t *testing.T) {
	undone := peer("A")
	for _, c := range []struct {
		name   string
		record dataplane.Outcome // of the command with the data A; "none": nothing is on record
		do     func(*Record) error
		runs   []string
		after  dataplane.Outcome
	}{
		{"first", "none", func(r *Record) error { return put(r, peer("A")) }, []string{"add A"}, dataplane.Done},
		{"other data", dataplane.Done, func(r *Record) error { return put(r, peer("B")) },
			[]string{"del A", "add B"}, dataplane.Done},
		{"failed", dataplane.Failed, func(r *Record) error { return put(r, peer("A")) },
			[]string{"del A", "add A"}, dataplane.Done},
		{"undone in part", dataplane.Undone, func(r *Record) error { return put(r, peer("A")) },
			[]string{"del A", "add A"}, dataplane.Done},
		{"stale", dataplane.Stale, func(r *Record) error { return put(r, peer("A")) }, []string{"add A"}, dataplane.Done},
		{"another limit", dataplane.Done, func(r *Record) error {
			return put(r, with(peer("A"), func(c *dataplane.Command) { c.Limit = time.Minute }))
		}, nil, dataplane.Done},
		{"another round", dataplane.Done, func(r *Record) error {
			return put(r, with(peer("A"), func(c *dataplane.Command) { c.Round++ }))
		}, []string{"add A"}, dataplane.Done},
		{"another interface", dataplane.Done, func(r *Record) error {
			return put(r, with(peer("A"), func(c *dataplane.Command) { c.On = "eth1" }))
		}, []string{"add A"}, dataplane.Done},
		{"removed", dataplane.Done, func(r *Record) error { return remove(r, undone) }, []string{"del A"}, "none"},
		{"removed after a failure", dataplane.Failed, func(r *Record) error { return remove(r, undone) },
			[]string{"del A"}, "none"},
		{"removed by a corrected text", dataplane.Done, func(r *Record) error {
			return remove(r, with(undone, func(c *dataplane.Command) { c.Undo = "better" }))
		}, []string{"better A"}, "none"},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := newHost()
			if c.record != "none" {
				_ = h.Keep(with(peer("A"), func(p *dataplane.Command) { p.Outcome = c.record }))
			}
			r := h.open(false)
			if err := c.do(r); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.runs, h.runs); diff != "" {
				t.Errorf("runs (-want +got):\n%s", diff)
			}
			if got := outcome(r, undone.CommandKey); got != c.after {
				t.Errorf("outcome %q, want %q", got, c.after)
			}
			if got := outcome(h.open(false), undone.CommandKey); got != c.after {
				t.Errorf("the next run finds the outcome %q, want %q", got, c.after)
			}
		})
	}
}

// A failure names the command and what it wrote, and leaves it failed. The next
// attempt undoes it first, whether or not that succeeds.
func TestFailure(t *testing.T) {
	h := newHost()
	h.failing["add"], h.failing["del"] = true, true
	r := h.open(false)
	err := put(r, peer("A"))
	if err == nil || err.Error() != "command peer 10.5.3.0/24: exit status 1: why" {
		t.Errorf("error %v", err)
	}
	if got := outcome(r, peer("").CommandKey); got != dataplane.Failed {
		t.Errorf("outcome %q", got)
	}
	h.failing["add"] = false
	if err := put(r, peer("A")); err != nil {
		t.Errorf("the second attempt: %v", err)
	}
	if want := []string{"add A", "del A", "add A"}; !slices.Equal(h.runs, want) {
		t.Errorf("runs %q, want %q", h.runs, want)
	}
}

// An undo that fails is an error if the effect was certainly there, and the command
// stays on record. After a failed command there may be nothing to undo.
func TestFailedUndo(t *testing.T) {
	for record, want := range map[dataplane.Outcome]dataplane.Outcome{
		dataplane.Done: dataplane.Undone, dataplane.Undone: dataplane.Undone,
		dataplane.Failed: "none", dataplane.Stale: "none",
	} {
		h := newHost()
		h.failing["del"] = true
		_ = h.Keep(with(peer("A"), func(c *dataplane.Command) { c.Outcome = record }))
		r := h.open(false)
		err := remove(r, peer("A"))
		if got := outcome(r, peer("").CommandKey); got != want || (err != nil) != (want != "none") {
			t.Errorf("%q: outcome %q, want %q; error %v", record, got, want, err)
		}
	}
}

// A command that has succeeded stays one to undo when a repetition of it fails.
func TestFailedRepetition(t *testing.T) {
	h := newHost()
	r := h.open(false)
	_ = put(r, peer("A"))
	h.failing["add"], h.failing["del"] = true, true
	if put(r, with(peer("A"), func(c *dataplane.Command) { c.Round++ })) == nil || remove(r, peer("A")) == nil {
		t.Error("no error")
	}
	if got := outcome(r, peer("").CommandKey); got != dataplane.Undone {
		t.Errorf("outcome %q", got)
	}
}

// If neither the undo of the former data nor the text with the new ones succeeds, the
// former data stay on record, whatever becomes of the new: their effect is there.
func TestFormerDataOutlastFailures(t *testing.T) {
	h := newHost()
	r := h.open(false)
	_ = put(r, peer("A"))
	h.failing["add"], h.failing["del"] = true, true
	for i, data := range []string{"B", "C"} {
		round := uint64(i + 1)
		if put(r, with(peer(data), func(c *dataplane.Command) { c.Round = round })) == nil {
			t.Errorf("%s: no error", data)
		}
		c, _ := r.State().Commands.Get(peer("").CommandKey)
		if c.Env != "A" || c.Outcome != dataplane.Undone || c.Round != round { // the next round is due as ever
			t.Errorf("%s: %s is on record", data, c)
		}
	}
	h.failing = map[string]bool{}
	r = h.open(false)
	if err := put(r, peer("D")); err != nil {
		t.Fatal(err)
	}
	if want := []string{"del A", "add D"}; !slices.Equal(h.runs, want) {
		t.Errorf("runs %q, want %q", h.runs, want)
	}
}

// A command that may be in effect, and whose Undo fails once it is no longer desired, is
// undone before the next command under its key, by another run of the daemon too. A reboot
// removes its effect.
func TestLeftEffectIsUndoneFirst(t *testing.T) {
	for _, c := range []struct {
		name     string
		record   dataplane.Outcome
		rebooted bool
		runs     []string
	}{
		{"failed", dataplane.Failed, false, []string{"del A", "add B"}},
		{"stale", dataplane.Stale, false, []string{"del A", "add B"}},
		{"rebooted", dataplane.Failed, true, []string{"add B"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := newHost()
			_ = h.Keep(with(peer("A"), func(p *dataplane.Command) { p.Outcome = c.record }))
			h.failing["del"] = true
			if err := remove(h.open(false), peer("A")); err != nil {
				t.Fatal(err)
			}
			h.failing["del"] = false
			r := h.open(c.rebooted)
			if got := outcome(r, peer("").CommandKey); got != "none" {
				t.Errorf("outcome %q of a command that is not desired", got)
			}
			if err := put(r, peer("B")); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.runs, h.runs); diff != "" {
				t.Errorf("runs (-want +got):\n%s", diff)
			}
			if err := remove(r, peer("B")); err != nil || len(h.kept) > 0 {
				t.Errorf("error %v, and the record keeps %v", err, h.kept)
			}
		})
	}
}

// The commands of the startup run again in each run of the daemon, and all commands
// after a reboot. A command that runs makes those of later stages stale.
func TestWhatIsStale(t *testing.T) {
	h := newHost()
	r := h.open(false)
	all := []dataplane.Command{startup(dataplane.PreStartup), startup(dataplane.PostStartup), peer("A")}
	outcomes := func(r *Record) (is []dataplane.Outcome) {
		for _, c := range all {
			is = append(is, outcome(r, c.CommandKey))
		}
		return is
	}
	for _, c := range all {
		if err := put(r, c); err != nil {
			t.Fatal(err)
		}
	}
	const done, stale = dataplane.Done, dataplane.Stale
	r = h.open(false)
	if got, want := outcomes(r), []dataplane.Outcome{stale, stale, done}; !slices.Equal(got, want) {
		t.Errorf("after a restart %q, want %q", got, want)
	}
	if got, want := outcomes(h.open(true)), []dataplane.Outcome{stale, stale, stale}; !slices.Equal(got, want) {
		t.Errorf("after a reboot %q, want %q", got, want)
	}
	_ = put(r, all[1])
	if got, want := outcomes(r), []dataplane.Outcome{stale, done, stale}; !slices.Equal(got, want) {
		t.Errorf("after a command of the startup %q, want %q", got, want)
	}
}

// A daemon that dies while a command runs finds it failed: the record is written
// before the run.
func TestDeathWhileACommandRuns(t *testing.T) {
	h := newHost()
	dying := &dyingHost{fakeHost: h}
	_ = put(Open(dying, dataplane.NewState(), false), peer("A"))
	if got := outcome(h.open(false), peer("").CommandKey); got != dataplane.Failed {
		t.Errorf("outcome %q", got)
	}
}

// dyingHost keeps nothing once a command has begun to run.
type dyingHost struct {
	*fakeHost
	dead bool
}

func (h *dyingHost) Run(ctx context.Context, text string, about About) (string, error) {
	h.dead = true
	return h.fakeHost.Run(ctx, text, about)
}

func (h *dyingHost) Keep(c dataplane.Command) error {
	if h.dead {
		return errors.New("dead")
	}
	return h.fakeHost.Keep(c)
}

// No command runs that could not be put on record.
func TestNoRunWithoutARecord(t *testing.T) {
	h := newHost()
	h.diskFull = true
	if err := put(h.open(false), peer("A")); err == nil || !strings.Contains(err.Error(), "no space left") {
		t.Errorf("error %v", err)
	}
	if len(h.runs) > 0 {
		t.Errorf("runs %q", h.runs)
	}
}

// The classes of errors are those of every lane.
func TestErrorClasses(t *testing.T) {
	create, drop := dataplane.Create, dataplane.Delete
	ended, end := context.WithCancel(context.Background())
	end()
	for _, c := range []struct {
		ctx  context.Context
		op   dataplane.Op
		want error
	}{
		{context.Background(), dataplane.Op{Verb: create, Object: peer("A")}, driver.ErrExists},
		{context.Background(), dataplane.Op{Verb: drop, Object: startup(dataplane.PreStartup)}, driver.ErrNotFound},
		{context.Background(), dataplane.Op{Verb: create, Object: dataplane.Addr{}}, driver.ErrUnsupported},
		{ended, dataplane.Op{Verb: dataplane.Replace, Object: peer("B")}, context.Canceled},
	} {
		h := newHost()
		_ = h.Keep(peer("A"))
		if err := h.open(false).Apply(c.ctx, c.op); !errors.Is(err, c.want) || len(h.runs) > 0 {
			t.Errorf("%s: %v, want %v; runs %q", c.op, err, c.want, h.runs)
		}
	}
}

func TestExitError(t *testing.T) {
	long := strings.Repeat("x", excerptSize)
	for want, e := range map[string]*ExitError{
		"exit status 2: No such device.":                     (&ExitError{Status: 2}).with("No\n such\tdevice.\n"),
		"a program was not found (exit status 127): x: none": (&ExitError{Status: 127}).with("x: none"),
		"a program cannot be executed (exit status 126)":     (&ExitError{Status: 126}).with(""),
		"signal: killed":          (&ExitError{Why: "signal: killed"}).with(""),
		"exit status 1: a?b":      (&ExitError{Status: 1}).with("a\xffb"),
		"exit status 1: …" + long: (&ExitError{Status: 1}).with("no" + long),
	} {
		if got := e.Error(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// FuzzExcerpt: whatever a command writes becomes one short printable line.
func FuzzExcerpt(f *testing.F) {
	f.Add("a\nb\x00\xff" + strings.Repeat("ü", excerptSize))
	f.Fuzz(func(t *testing.T, output string) {
		line := excerpt(output)
		if len(line) > excerptSize+len("…") || strings.ContainsAny(line, "\n\r\t\x00") {
			t.Errorf("%q becomes %q", output, line)
		}
	})
}

// TestUndoThatIsCutShort ends the Undo of a command that is due again in several ways. One that has not run to its end
// runs again.
func TestUndoThatIsCutShort(t *testing.T) {
	for name, c := range map[string]struct {
		end   ExitError
		again bool
	}{
		"it fails":             {ExitError{Status: 2}, false},
		"the time limit":       {ExitError{Why: "killed after its time limit of 1s"}, true},
		"a missing program":    {ExitError{Status: notFound}, true},
		"a program not to run": {ExitError{Status: notExecutable}, true},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHost()
			_ = h.Keep(with(peer("A"), func(p *dataplane.Command) { p.Outcome = dataplane.Stale }))
			h.failing["del"], h.end = true, c.end
			r := h.open(false)
			err := remove(r, peer("A"))
			if stays := outcome(r, peer("").CommandKey) != "none"; stays != c.again || (err != nil) != c.again {
				t.Errorf("runs again: %t (%v), want %t", stays, err, c.again)
			}
		})
	}
}
