package machine

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/flanneld/flannel/harness"
)

// TestMain runs the parts of machines, and the tests in namespaces of their own, with which mounts end.
func TestMain(m *testing.M) {
	RunChild(Child(os.Args[0]))
	if os.Getenv(victimEnv) != "" {
		harness.Reexec()
		victim()
	}
	harness.Main(m)
}

// options returns those of a machine in an empty folder, which must not be on an overlay.
func options(dir string, group *Group) Options {
	return Options{Name: "n1", Group: group, Disk: dir + "/disk", Root: dir + "/root", Log: dir + "/log",
		Kept: []string{"/var/lib/kept"}, Settings: map[string]string{"kernel/panic": "10"}, Forward: true}
}

// needMachine skips a test where there can be no machine. It returns a folder for one.
func needMachine(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "machine") // no overlay, as the disk must not be one
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	switch err := Missing(filepath.Join(dir, "check")); {
	case err != nil && os.Getenv("WORLD") == "vm":
		t.Fatal("a machine ", err) // the one of make test-vm has all of it
	case err != nil:
		t.Skip("a machine ", err)
	}
	return dir
}

// TestMachine boots a machine twice and turns it off: its programs are in its cgroups and
// namespaces, which end with it, and its disk stays. The kernel of make test-vm has cgroups of version 2 alone.
func TestMachine(t *testing.T) {
	dir := needMachine(t)
	if _, err := exec.LookPath("pgrep"); err != nil {
		t.Skip("pgrep is missing: as root: apt-get install procps")
	}
	group, err := NewGroup("flannel-machine-test")
	if err != nil {
		t.Fatal(err)
	}
	o := options(dir, group)
	for boot, want := range []string{"", "kept"} {
		m, err := Boot(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range []struct{ script, want string }{
			{"hostname", "n1"},
			{"cat /proc/1/comm", filepath.Base(SelfPath)},
			{"cat /proc/sys/kernel/panic /proc/sys/net/ipv4/ip_forward", "10\n1"},
			{"ls -A /tmp /run/former 2>/dev/null | grep -v :", ""},
			{"grep -v -e :/$ -e ^0:: -e :/init$ /proc/1/cgroup", ""}, // they are the root ones
			{"cat /var/lib/kept/file 2>/dev/null; echo kept > /var/lib/kept/file", want},
			{"cat /etc/boots 2>/dev/null; echo kept > /etc/boots", want},
		} {
			out, err := m.Run(t.Context(), "sh", "-c", c.script+"; true")
			if err != nil || strings.TrimSpace(out) != c.want {
				t.Errorf("boot %d: %s: %q, %v, want %q", boot, c.script, out, err, c.want)
			}
		}
		checkCgroups(t, m, group)
		if err := m.PowerOff(); err != nil {
			t.Fatal(err)
		}
	}
	if err := group.Close(); err != nil {
		t.Error(err)
	}
	for _, dir := range group.Dirs() {
		if _, err := os.Stat(dir); !os.IsNotExist(err) {
			t.Errorf("the cgroup %s is still there: %v", dir, err)
		}
	}
}

// checkCgroups checks that a daemon is in the machine's part of each hierarchy, and that the machine can limit what its
// programs use.
func checkCgroups(t *testing.T, m *Machine, group *Group) {
	t.Helper()
	if err := m.Daemon(t.Context(), "sleeper", "sleep", "1000"); err != nil {
		t.Fatal(err)
	}
	if _, err := m.Run(t.Context(), "sh", "-ec", `
		cd /sys/fs/cgroup
		[ -e cgroup.controllers ] || cd pids
		mkdir -p limited
		echo 7 > limited/pids.max
		pgrep -x sleep > limited/cgroup.procs`); err != nil {
		t.Error(err)
	}
	for _, h := range group.hierarchies {
		dir := filepath.Join(h.Path, group.name, "n1")
		if !h.v2() && !strings.Contains(h.Options, "pids") {
			continue
		}
		procs, err := os.ReadFile(filepath.Join(dir, "limited/cgroup.procs"))
		if err != nil || len(strings.Fields(string(procs))) != 1 {
			t.Errorf("%s has the processes %q, %v, want the sleeper", dir, procs, err)
		}
		if limit, err := os.ReadFile(filepath.Join(dir, "limited/pids.max")); err != nil || string(limit) != "7\n" {
			t.Errorf("%s has the limit %q, %v, want 7", dir, limit, err)
		}
	}
	if err := m.Kill(t.Context(), "sleeper"); err != nil {
		t.Error(err)
	}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		if _, err := m.Run(t.Context(), "sh", "-c", "! pgrep -x sleep"); err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("a killed daemon still runs")
		}
	}
}
