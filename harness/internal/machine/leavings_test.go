package machine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/flanneld/flannel/harness/internal/sysctl"
	"github.com/flanneld/flannel/harness/vm"
)

// victimEnv makes this program boot a machine, report its traces and wait to be killed.
const victimEnv = "FLANNEL_MACHINE_VICTIM"

// traces are what a machine may leave behind.
type traces struct {
	Spaces []string // namespaces, as /proc shows them
	Files  []string // cgroups, and the folder of virtual machines
}

// victim boots a machine with a program in it and waits to be killed.
func victim() {
	found, err := leaveTraces(context.Background())
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(found)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	select {}
}

func leaveTraces(ctx context.Context) (traces, error) {
	group, err := NewGroup("flannel-machine-victim")
	if err != nil {
		return traces{}, err
	}
	scratch, err := vm.NewScratch()
	if err != nil {
		return traces{}, err
	}
	m, err := Boot(ctx, options("/dev/shm", group))
	if err != nil {
		return traces{}, err
	}
	if err := m.Daemon(ctx, "sleeper", "setsid", "sleep", "1000"); err != nil {
		return traces{}, err
	}
	found := traces{Files: append(group.Dirs(), scratch.Dir)}
	for _, process := range []int{os.Getpid(), m.PID()} {
		for _, kind := range []string{"mnt", "net"} { // the mounts end with their namespace
			space, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/%s", process, kind))
			if err != nil {
				return traces{}, err
			}
			found.Spaces = append(found.Spaces, space)
		}
	}
	return found, nil
}

// left returns the traces that still exist: processes in the namespaces, and files.
func (f traces) left() []string {
	var left []string
	spaces, _ := filepath.Glob("/proc/[0-9]*/ns/*") // the pattern is correct
	for _, path := range spaces {
		if space, err := os.Readlink(path); err == nil && slices.Contains(f.Spaces, space) {
			left = append(left, path+" "+space)
		}
	}
	for _, path := range f.Files {
		if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
			left = append(left, path)
		}
	}
	return left
}

// TestKilledMachineLeavesNothing kills a program that runs a machine. Nothing of the machine may be left: no process,
// with which its namespaces and their mounts end, no cgroup, and no file.
func TestKilledMachineLeavesNothing(t *testing.T) {
	needMachine(t)
	mounts := ownMounts(t)
	cmd := exec.Command("/proc/self/exe")
	// The victim begins as any program does, before it enters namespaces.
	cmd.Env = append(slices.DeleteFunc(os.Environ(),
		func(s string) bool { return strings.HasPrefix(s, "FLANNEL_LAB_STAGE=") }),
		victimEnv+"=1", "TMPDIR="+t.TempDir())
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var found traces
	err = json.NewDecoder(out).Decode(&found)
	// The victim's program, the machine's first process, the sleeper and the reaper are in these namespaces.
	if before := found.left(); err == nil && len(before) < len(found.Files)+4 {
		t.Errorf("the machine has only the traces %q", before)
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait() // it was killed
	if err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		left := found.left()
		if len(left) == 0 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("half a minute later there are: %q", left)
		}
	}
	if now := ownMounts(t); now != mounts {
		t.Errorf("the mounts are now\n%s\nwant\n%s", now, mounts)
	}
}

// ownMounts returns the mounts that this process sees.
func ownMounts(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestMachineChangesNoSettingOutside sets in a machine what kubelet and flannel set, and compares all of the settings
// outside.
func TestMachineChangesNoSettingOutside(t *testing.T) {
	dir := needMachine(t)
	before, err := sysctl.Read()
	if err != nil {
		t.Fatal(err)
	}
	group, err := NewGroup("flannel-machine-settings")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = group.Close() })
	o := options(dir, group)
	o.Settings = map[string]string{"kernel/panic": "10", "kernel/panic_on_oops": "1",
		"kernel/keys/root_maxkeys": "1000000", "kernel/keys/root_maxbytes": "25000000",
		"vm/overcommit_memory": "1", "vm/panic_on_oom": "0"}
	m, err := Boot(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	script := []string{"cd /proc/sys", "ip link add flannel.1 type bridge"}
	for name, value := range o.Settings {
		script = append(script, fmt.Sprintf("echo %s > %s", value, name))
	}
	for _, setting := range []string{"net/ipv4/ip_forward 0", "net/ipv6/conf/all/forwarding 0",
		"net/ipv4/conf/all/rp_filter 2", "net/ipv6/conf/default/accept_ra 0", "net/ipv6/conf/flannel.1/accept_ra 0",
		"net/ipv6/conf/flannel.1/disable_ipv6 1"} {
		name, value, _ := strings.Cut(setting, " ")
		script = append(script, fmt.Sprintf("[ ! -e %s ] || echo %s > %s", name, value, name))
	}
	if _, err := m.Run(t.Context(), "sh", "-ec", strings.Join(script, "\n")); err != nil {
		t.Error(err)
	}
	check := func(when string) {
		t.Helper()
		after, err := sysctl.Read()
		if err != nil {
			t.Fatal(err)
		}
		for _, change := range sysctl.Changes(before, after) {
			t.Errorf("%s: %s", when, change)
		}
	}
	check("while the machine runs")
	if err := m.PowerOff(); err != nil {
		t.Fatal(err)
	}
	check("when it has ended")
}
