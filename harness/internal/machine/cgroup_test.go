package machine

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestHierarchies(t *testing.T) {
	for name, c := range map[string]struct {
		mounts string
		want   []hierarchy
	}{
		"version 1": {`24 22 0:20 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755
25 24 0:21 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu
26 24 0:22 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,xattr,release_agent=/lib/agent,name=systemd
27 24 0:23 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw`,
			[]hierarchy{{"/sys/fs/cgroup/cpu", "cpu"}, {"/sys/fs/cgroup/systemd", "name=systemd"}}},
		"version 1, two controllers in one": {
			`25 24 0:21 / /sys/fs/cgroup/cpu,cpuacct rw shared:9 - cgroup cgroup rw,cpu,cpuacct`,
			[]hierarchy{{"/sys/fs/cgroup/cpu,cpuacct", "cpu,cpuacct"}}},
		"version 2": {`30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate`,
			[]hierarchy{{Path: "/sys/fs/cgroup"}}},
	} {
		got, err := hierarchies(strings.NewReader(c.mounts))
		if err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%s: %+v, %v; want %+v", name, got, err, c.want)
		}
	}
	if _, err := hierarchies(strings.NewReader("")); err == nil {
		t.Error("a machine without cgroups passes")
	}
}

// TestCgroupInheritsCPUs checks that each level of a new cgroup of a cpuset has CPUs, without
// which it accepts no process.
func TestCgroupInheritsCPUs(t *testing.T) {
	top := t.TempDir()
	for _, file := range []string{"cpuset.cpus", "cpuset.mems"} {
		if err := os.WriteFile(filepath.Join(top, file), []byte("0-1"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	dir, err := hierarchy{Path: top, Options: "cpuset"}.makeCgroup("cluster/n1")
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range []string{dir, filepath.Dir(dir)} {
		cpus, err := os.ReadFile(filepath.Join(d, "cpuset.cpus"))
		if err != nil || string(cpus) != "0-1" {
			t.Errorf("%s has CPUs %q, %v", d, cpus, err)
		}
	}
}

func TestRemovedCgroupIsGone(t *testing.T) {
	top := filepath.Join(t.TempDir(), "cluster")
	if err := os.MkdirAll(filepath.Join(top, "n1/kubepods/pod1"), 0o755); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second time there is nothing to remove
		if err := removeCgroup(top); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := os.Stat(top); !os.IsNotExist(err) {
		t.Errorf("it still exists: %v", err)
	}
}
