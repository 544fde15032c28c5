package search

import (
	"slices"
	"testing"
)

// TestHostileWritesAreDrawn checks that seeds draw each hostile write, and that all other steps of a seed are the
// same as without them.
func TestHostileWritesAreDrawn(t *testing.T) {
	drawn := map[string]int{}
	for seed := range uint64(400) {
		for _, store := range []string{"etcd", "kube"} {
			o := Options{Store: store, Change: true}
			calm := Draw(seed, o)
			o.Hostile = true
			hostile := Draw(seed, o)
			rest := hostile.Steps
			for _, s := range calm.Steps {
				at := slices.Index(rest, s)
				if at < 0 {
					t.Fatalf("seed %d: hostile writes change or move the step %q", seed, s.Line)
				}
				rest = rest[at+1:]
			}
			for _, s := range hostile.Steps {
				if s.Hostile {
					drawn[s.Fault]++
				}
			}
		}
	}
	for _, f := range hostileFaults() {
		if drawn[f.name] == 0 {
			t.Errorf("no seed draws %s", f.name)
		}
	}
}

// TestHarmed holds what counts as a difference between two runs: nothing about the record of a departed host that one
// of them alone still has, nor about forged subnets.
func TestHarmed(t *testing.T) {
	gone, other := "route <fd00:64::2.v6>/64 dev flannel-v6.1", "route <n2>/24 dev flannel.1"
	remembers := func(lines ...string) harvest { return harvest{departed: {"fd00:64::2"}, "n1": lines} }
	for name, c := range map[string]struct {
		run, calm harvest
		harmed    bool
	}{
		"departed in one run":     {remembers(gone), harvest{"n1": nil}, false},
		"departed in neither run": {remembers(), remembers(gone), true},
		"peer lost":               {harvest{"n1": nil}, harvest{"n1": {other}}, true},
		"forged":                  {harvest{"n1": {"route 10.5.200.0/24 dev flannel.1"}}, harvest{"n1": nil}, false},
	} {
		if got := c.run.harmed(c.calm, []string{"10.5.200.0/24"}); (got != "") != c.harmed {
			t.Errorf("%s: harmed returns %q", name, got)
		}
	}
}

// TestJudged holds which lines of a host are compared: a route of the kernel's own, which a flush may have taken, is
// none, nor is a next-hop object (seed 300449).
func TestJudged(t *testing.T) {
	got := judged([]string{
		"addr <n4.v6>/128 dev flannel-v6.1", "route <n4.v6>/128 dev flannel-v6.1 metric 256 proto 2",
		"nexthop 10.5.2.0 via 10.5.2.0 dev flannel.1 onlink", "route <n2>/24 nhid 10.5.2.0 via 10.5.2.0 dev flannel.1",
		"route <n3>/24 via 192.168.64.3 dev eth0 proto 20", `cloud-route <n3>/24 table "main" to "vpn"`,
		"neigh <n4.v6> lladdr <n4.v6.mac> dev flannel-v6.1",
	})
	want := []string{
		"addr <n4.v6>/128 dev flannel-v6.1", "route <n2>/24 via 10.5.2.0 dev flannel.1",
		"route <n3>/24 via 192.168.64.3 dev eth0 proto 20", "neigh <n4.v6> lladdr <n4.mac> dev flannel-v6.1",
	}
	if !slices.Equal(got, want) {
		t.Errorf("judged returns %q, want %q", got, want)
	}
}
