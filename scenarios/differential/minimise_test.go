package differential_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/flanneld/flannel/drivers/drivertest"
	"github.com/flanneld/flannel/drivers/sim/simtest"
	"github.com/flanneld/flannel/scenarios/differential"
)

// deaf is a host that misunderstands a flush of neighbours.
type deaf struct{ simtest.Host }

func (d deaf) Do(ctx context.Context, action drivertest.Action) error {
	if action.Verb == drivertest.FlushNeighs {
		action.Verb = drivertest.FlushFDB
	}
	return d.Host.Do(ctx, action)
}

// lame is a host that refuses a flush of neighbours.
type lame struct{ simtest.Host }

func (l lame) Do(ctx context.Context, action drivertest.Action) error {
	if action.Verb == drivertest.FlushNeighs {
		return errors.New("no")
	}
	return l.Host.Do(ctx, action)
}

// TestDefectIsFound checks that a run finds a planted defect, and that the run is reduced
// to the steps that show it.
func TestDefectIsFound(t *testing.T) {
	honest := func() (differential.World, error) { return simtest.NewHost(1), nil }
	limping := func() (differential.World, error) { return lame{simtest.NewHost(1)}, nil }
	const observed = `observe links=(eth0, eth1, flannel.1, flannel-v6.1, flannel.2, gone0) networks=(0.0.0.0/0, ::/0)
----

facts
----
`
	for name, c := range map[string]struct {
		real, sim func() (differential.World, error)
		what      string
		want      string
	}{
		"silent": {
			honest, func() (differential.World, error) { return deaf{simtest.NewHost(1)}, nil }, "observe",
			`host
add link eth0 type ethernet mtu 1500 mac 02:00:00:00:00:01 up
----

apply
add neigh 10.5.3.7 lladdr 02:00:00:00:00:03 dev eth0
----

host
flush-neighs eth0
----

` + observed,
		},
		"refused": {
			honest, limping, "outcome", `host
add link eth0 type ethernet mtu 1500 mac 02:00:00:00:00:01 up
flush-neighs eth0
----

` + observed,
		},
		"not refused": {
			limping, honest, "outcome", `host
add link eth0 type ethernet mtu 1500 mac 02:00:00:00:00:01 up
! flush-neighs eth0
----

` + observed,
		},
	} {
		t.Run(name, func(t *testing.T) {
			worlds := differential.Worlds{Real: c.real, Sim: c.sim}
			steps, m, err := worlds.Minimise(t.Context(), []differential.Step{
				"add link eth0 type ethernet mtu 1500 mac 02:00:00:00:00:01 up",
				"add link eth1 type ethernet mtu 1500 mac 02:00:00:00:00:02 up",
				"apply add addr 10.5.1.0/32 dev eth0\nadd neigh 10.5.3.7 lladdr 02:00:00:00:00:03 dev eth0\n" +
					"add addr 10.5.1.1/24 dev eth0",
				"mtu eth1 1400",
				"flush-neighs eth0",
				"down eth1",
			})
			if err != nil || m == nil || m.What != c.what {
				t.Fatalf("mismatch %+v, error %v", m, err)
			}
			if diff := cmp.Diff(c.want, differential.Case(steps, m)); diff != "" {
				t.Errorf("case (-want +got):\n%s", diff)
			}
		})
	}
}

// TestGenerate checks that equal bytes give equal runs, and that runs hold actions
// and ops of every kind.
func TestGenerate(t *testing.T) {
	kinds := map[string]bool{}
	for seed := range uint64(200) {
		run := draw(seed)
		if diff := cmp.Diff(run, draw(seed)); diff != "" {
			t.Fatalf("seed %d makes two runs:\n%s", seed, diff)
		}
		if len(run) > differential.MaxSteps {
			t.Errorf("seed %d: %d steps", seed, len(run))
		}
		for _, step := range run {
			ops, isOps := strings.CutPrefix(string(step), "apply ")
			for line := range strings.Lines(ops) {
				words := strings.Fields(line)
				kinds[words[0]] = true
				if isOps {
					kinds["apply "+words[0]+" "+words[1]] = true
				}
			}
		}
	}
	want := []string{"add", "append", "learn", "del", "up", "down", "carrier-on", "carrier-off", "mtu", "mac",
		"flush-addrs", "flush-routes", "flush-neighs", "flush-fdb", "add-blackhole"}
	for _, verb := range []string{"add", "replace", "del"} {
		for _, kind := range []string{"link", "addr", "route", "nexthop", "neigh", "fdb", "sysctl"} {
			want = append(want, "apply "+verb+" "+kind)
		}
	}
	for _, kind := range want {
		if !kinds[kind] {
			t.Errorf("no run has a step of kind %q", kind)
		}
	}
}
