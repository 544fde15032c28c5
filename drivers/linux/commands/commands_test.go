package commands

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/flanneld/flannel/core/command"
	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/driver"
)

func peer(text, input string) dataplane.Command {
	return dataplane.Command{
		CommandKey: dataplane.CommandKey{Stage: dataplane.ForPeer, Subnet: netip.MustParsePrefix("10.5.3.0/24")},
		Text:       text, Undo: "false", Env: "SUBNET=10.5.3.0/24 PUBLIC_IP=192.168.64.4", Input: input, Limit: time.Minute,
	}
}

func open(t testing.TB, path string) *Driver {
	t.Helper()
	d, err := New(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	return d
}

func apply(t testing.TB, d *Driver, v dataplane.Verb, c dataplane.Command) error {
	t.Helper()
	return d.Apply(t.Context(), []dataplane.Op{{Verb: v, Object: c}})[0]
}

// The next run of the daemon finds the commands of the last one, with their data,
// and a half-written line does no harm.
func TestRecordOutlivesTheProcess(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.commands")
	d := open(t, path)
	if err := apply(t, d, dataplane.Create, peer("cat", "two\nlines \x00\"'$(x)\n")); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = f.WriteString("forget peer 10.5.3.0")
	_ = f.Close()
	if got, want := open(t, path).record.State().Dump(), d.record.State().Dump(); got != want || got == "" {
		t.Errorf("read\n%swant\n%s", got, want)
	}
}

// A command left behind outlives the process, and is forgotten after a reboot, which has
// removed its effect.
func TestLeftCommandEndsWithTheBoot(t *testing.T) {
	for boot, want := range map[string][]string{
		bootID():       {"undone", "added"},
		"another-boot": {"added"},
	} {
		dir := t.TempDir()
		path, trail := filepath.Join(dir, "state.commands"), filepath.Join(dir, "trail")
		left := peer("echo added >>'"+trail+"'", "\n")
		left.Undo, left.Outcome = "echo undone >>'"+trail+"'", dataplane.Left
		other := left
		other.Subnet = netip.MustParsePrefix("10.5.4.0/24")
		text := fmt.Sprintf("boot %s\nkeep %s\nkeep %s\n", boot, left, other)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		left.Outcome = dataplane.Done
		first := open(t, path) // its first line rewrites the file in the present boot
		if err := apply(t, first, dataplane.Create, left); err != nil {
			t.Fatal(err)
		}
		if err := first.Close(); err != nil {
			t.Fatal(err)
		}
		other.Outcome = dataplane.Done
		if err := apply(t, open(t, path), dataplane.Create, other); err != nil {
			t.Fatal(err)
		}
		ran, err := os.ReadFile(trail)
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Fields(string(ran)); !slices.Equal(got, slices.Concat(want, want)) {
			t.Errorf("boot %s: %q ran, want %q twice", boot, got, want)
		}
	}
}

// One process at a time runs commands. The next one finds what the former has done.
func TestOneProcessRunsCommands(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.commands")
	first, second := open(t, path), open(t, path)
	if err := apply(t, first, dataplane.Create, peer("cat", "first")); err != nil {
		t.Fatal(err)
	}
	err := apply(t, second, dataplane.Create, peer("cat", "second"))
	const told = ".lock: another flanneld runs the commands"
	if !errors.Is(err, driver.ErrBusy) || !strings.Contains(err.Error(), path+told) {
		t.Errorf("beside another process: %v", err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	if err := apply(t, second, dataplane.Create, peer("cat", "second")); !errors.Is(err, driver.ErrExists) {
		t.Errorf("after the other process: %v, want that the command has run", err)
	}
	if got, want := second.record.State().Dump(), first.record.State().Dump(); got != want || got == "" {
		t.Errorf("the record is\n%swant\n%s", got, want)
	}
}

func TestFailuresAreNamed(t *testing.T) {
	for text, want := range map[string]string{
		"no-such-program x":          "a program was not found (exit status 127): ",
		"echo some; echo why; false": "exit status 1: some why",
		"kill -9 $$":                 "signal: killed",
	} {
		err := apply(t, open(t, ""), dataplane.Create, peer(text, "\n"))
		if err == nil || !strings.Contains(err.Error(), "command peer 10.5.3.0/24: "+want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

// At the time limit a command is killed with its children.
func TestTimeLimitKillsTheChildren(t *testing.T) {
	c := peer("sleep 600 & echo $!; wait", "\n")
	c.Limit = 300 * time.Millisecond
	began := time.Now()
	err := apply(t, open(t, ""), dataplane.Create, c)
	if err == nil || !strings.Contains(err.Error(), "killed after its time limit of 300ms: ") {
		t.Fatalf("%v", err)
	}
	pid := strings.TrimSpace(err.Error()[strings.LastIndex(err.Error(), ":")+1:])
	state, _ := os.ReadFile("/proc/" + pid + "/status")
	if strings.Contains(string(state), "State:\tS") || time.Since(began) > time.Minute {
		t.Errorf("process %s still runs:\n%s", pid, state)
	}
}

// large returns 1 MB of hostile data in which no two places look alike, without a space at either end.
func large() string {
	var b strings.Builder
	for i := 0; b.Len() < 1<<20; i++ {
		fmt.Fprintf(&b, "%d$(touch pwned)`x`'\"\\\x00\n", i)
	}
	return b.String()[:1<<20-1] + "."
}

// Data that is larger than a pipe holds blocks neither side.
func TestLargeDataPasses(t *testing.T) {
	d := open(t, "")
	data := large()
	if err := apply(t, d, dataplane.Create, peer("cat", data)); err != nil {
		t.Fatal(err)
	}
	for _, c := range d.record.State().Commands.All {
		if c.Output != data || c.Input != data {
			t.Errorf("%d bytes became %d, printed %d: not the same", len(data), len(c.Input), len(c.Output))
		}
	}
	if err := apply(t, d, dataplane.Replace, peer("true", strings.Repeat("y", 1<<20))); err != nil {
		t.Fatal(err)
	}
}

// FuzzDataIsOnlyData gives a command hostile data, which it reads and prints.
func FuzzDataIsOnlyData(f *testing.F) {
	for _, data := range []string{"", "$(touch pwned)", "`x`", "a\nb", "'; exit 1; '", "\"\\\x00\xff", "-n", "$SUBNET"} {
		f.Add(data)
	}
	f.Add(large())
	f.Fuzz(func(t *testing.T, data string) {
		path := filepath.Join(t.TempDir(), "commands")
		d := open(t, path)
		if err := apply(t, d, dataplane.Create, peer("cat", data+"\n")); err != nil {
			t.Fatalf("%q: %v", data, err)
		}
		for _, r := range []*Driver{d, open(t, path)} {
			for _, c := range r.record.State().Commands.All {
				if c.Output != strings.TrimSpace(data) || c.Input != data+"\n" {
					t.Errorf("%.99q became %.99q, printed %.99q", data, c.Input, c.Output)
				}
			}
		}
	})
}

// A command may keep a file for a later one, by a name without a folder: upstream's wireguard sample keeps its
// private key so. Daemons whose records are in different folders do not share such files.
func TestCommandsRunBesideTheRecord(t *testing.T) {
	for _, content := range []string{"first", "second"} {
		dir := t.TempDir()
		d := open(t, filepath.Join(dir, "lib", "state.commands"))
		if err := apply(t, d, dataplane.Create, peer("cat >kept", content)); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(filepath.Join(dir, "lib", "kept")); string(got) != content {
			t.Errorf("the folder of the record holds %q, want %q: %v", got, content, err)
		}
	}
}

// Commands still run after another program has removed the folder of the record, in one that is made again, or in the
// root directory if that fails.
func TestFolderIsRemoved(t *testing.T) {
	top, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(top, "lib")
	if err := os.Mkdir(dir, dirMode); err != nil {
		t.Fatal(err)
	}
	h := host{&file{path: filepath.Join(dir, "state.commands")}}
	where := func(want string) {
		t.Helper()
		got, err := h.Run(t.Context(), "pwd", command.About{Limit: time.Minute})
		if got != want || err != nil {
			t.Errorf("a command runs in %q, want %q: %v", got, want, err)
		}
	}
	where(dir)
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	where(dir)
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(dir, nil, fileMode); err != nil {
		t.Fatal(err)
	}
	where("/")
}

// A shell that cannot start in its folder is an error that names the folder.
func TestMissingFolderIsNamed(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "gone")
	_, err := run(t.Context(), dir, "true", command.About{Limit: time.Minute})
	if err == nil || !strings.Contains(err.Error(), "start the shell in folder "+dir+": ") {
		t.Error(err)
	}
}
