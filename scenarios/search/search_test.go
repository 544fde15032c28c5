package search

import (
	"context"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"
)

// seeds is how many the bounded search runs, fewer with -short; the variable SEEDS asks for others.
func seeds(t *testing.T) uint64 {
	t.Helper()
	text, ok := os.LookupEnv("SEEDS")
	switch {
	case !ok && testing.Short():
		return 5
	case !ok:
		return 25
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("SEEDS=%s: %v", text, err)
	}
	return n
}

// fewer divides the seeds of the backends that came last, so that the test takes about as long as before.
const fewer = 5

func TestSeeds(t *testing.T) {
	few := map[string]bool{"wireguard": true, "ipip": true, "ipsec": true, "extension": true}
	for name, o := range map[string]Options{
		"any":        {},
		"vxlan":      {Backend: "vxlan", Family: "v4"},
		"host-gw":    {Backend: "host-gw", Family: "v4"},
		"dual":       {Backend: "vxlan", Family: "dual"},
		"firewalled": {Firewall: "iptables"},
		"udp":        {Backend: "udp"},
		"wireguard":  {Backend: "wireguard"},
		"ipip":       {Backend: "ipip"},
		"ipsec":      {Backend: "ipsec"},
		"extension":  {Backend: "extension"},
		"networks":   {Networks: true},
	} {
		t.Run(name, func(t *testing.T) {
			count := seeds(t)
			if few[name] {
				count = max(1, count/fewer)
			}
			h := &Hunt{First: 1, Count: count, Options: o}
			h.Run(context.Background())
			if r := h.Failure(); r != nil {
				t.Errorf("seed %d: %s", r.Plan.Seed, r.Failed)
			}
		})
	}
}

// TestBackendsOfTheSearch checks that the search refuses a backend that carries no packets, and names those
// that do.
func TestBackendsOfTheSearch(t *testing.T) {
	const others = "ali-vpc, aws-vpc, extension, gce, host-gw, ipip, ipsec, tencent-vpc, udp, vxlan, wireguard"
	for backend, want := range map[string]string{
		"": "", "udp": "", "ipsec": "", "gce": "", "extension": "",
		"alloc": "backend alloc makes no way between nodes, and the search judges a cluster by packets between pods: " +
			"name one of " + others,
		"quantum": `backend "quantum" is unknown: name one of ` + others,
	} {
		got := ""
		if err := (Options{Backend: backend}).Check(); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%s: %q, want %q", backend, got, want)
		}
	}
}

// TestNextHopsOfTheSearch checks that the option decides whether routes use next-hop objects, and that some seeds
// use them without it.
func TestNextHopsOfTheSearch(t *testing.T) {
	for _, networks := range []bool{false, true} {
		for choice, want := range map[string]func(drawn int) bool{
			"always": func(drawn int) bool { return drawn == 20 },
			"never":  func(drawn int) bool { return drawn == 0 },
			"":       func(drawn int) bool { return drawn > 0 && drawn < 20 },
		} {
			drawn := 0
			for seed := range uint64(20) {
				p := Draw(1+seed, Options{NextHops: choice, Networks: networks})
				if strings.Contains(p.Topology.Line, " nexthops=") {
					drawn++
				}
			}
			if !want(drawn) {
				t.Errorf("%q, several networks %t: %d of 20 seeds use next hops", choice, networks, drawn)
			}
		}
	}
	if err := (Options{NextHops: "sometimes"}).Check(); err == nil {
		t.Error("the search takes a choice that it does not know")
	}
}

// TestSeedDeterminesTheRun checks that a seed always gives the same run, and another seed
// another one.
func TestSeedDeterminesTheRun(t *testing.T) {
	first, again := Run(Draw(8231, Options{})), Run(Draw(8231, Options{}))
	other := Run(Draw(8232, Options{}))
	if first.Trace != again.Trace || first.Trace == other.Trace {
		t.Errorf("traces %x, %x and %x", first.Trace, again.Trace, other.Trace)
	}
}

// TestMinimise checks that only the steps that the failure needs are left of a
// failing plan.
func TestMinimise(t *testing.T) {
	p := Draw(8231, Options{Nodes: 6})
	p.Steps = append(p.Steps, Step{After: time.Minute, Line: "fault n2 cut"}, Step{Line: "store stop"})
	p.Steps = append(p.Steps, Draw(8232, Options{Nodes: 6}).Steps...)
	fails := func(p Plan) bool {
		cut := false
		for _, s := range p.Steps {
			cut = cut || s.Line == "fault n2 cut" && s.After >= 10*time.Second
			if cut && s.Line == "store stop" {
				return true
			}
		}
		return false
	}
	got := Minimise(p, fails, func(Plan) {})
	if len(got.Steps) != 2 || got.Nodes != 2 || got.Steps[0].After > 20*time.Second {
		t.Errorf("minimised to %d nodes and %v", got.Nodes, got.Steps)
	}
}

// TestMinimiseKeepsSegments checks that no node is removed if another one, which gets an address, would then be
// on a segment that the address does not belong to.
func TestMinimiseKeepsSegments(t *testing.T) {
	for line, want := range map[string]int{
		"fault n4 uplink address=192.168.64.113": 7, // of 7 nodes, the first four are on the first segment
		"fault n4 uplink vip=192.168.65.150":     4,
		"fault n4 uplink down":                   4,
	} {
		p := Plan{Nodes: 7, Topology: Step{Line: "topology nodes=7 segments=2"}, Steps: []Step{{Line: line}}}
		fails := func(p Plan) bool { return len(p.Steps) == 1 }
		if got := Minimise(p, fails, func(Plan) {}); got.Nodes != want {
			t.Errorf("%s: minimised to %d nodes, want %d", line, got.Nodes, want)
		}
	}
}

// TestScenarioText checks that a plan is written as a scenario that says what should
// happen.
func TestScenarioText(t *testing.T) {
	p := Plan{Seed: 7, Nodes: 2, Topology: Step{Line: "topology nodes=2"}, Steps: []Step{
		{Line: "start all"}, {After: time.Second, Line: "store put subnets/x may-fail", Input: "?"},
	}}
	want := `# n1 breaks
# seed=7
topology nodes=2
----
ok

start all
----
ok

pass 1s
----
ok

store put subnets/x may-fail
?
----
ok

trace agree
----
ok

heal
----
ok

settle within=10m0s
----
ok

ping all
----
all ok src=preserved

trace all
----
all arrive

diff all own within=30s
----
no difference
`
	if got := p.Scenario("n1 breaks"); got != want {
		t.Errorf("scenario:\n%s\nwant:\n%s", got, want)
	}
	if strings.Contains(Draw(1, Options{}).Scenario("x"), "\n\n\n") {
		t.Error("empty lines")
	}
}
