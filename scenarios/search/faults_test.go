package search

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/flanneld/flannel/core/backend/cloud"
	"github.com/flanneld/flannel/core/backend/extension"
	"github.com/flanneld/flannel/core/backend/ipsec"
)

// TestEveryFaultCanHappen checks that each fault takes effect in a healthy world. A
// search would not notice a directive with a mistake.
func TestEveryFaultCanHappen(t *testing.T) {
	for _, f := range slices.Concat(faults(), extras(), serverFaults(), hostileFaults()) {
		t.Run(f.name, func(t *testing.T) {
			happened := 0
			for seed := range uint64(4) {
				if testing.Short() && happened > 0 {
					break
				}
				d := &drawing{rng: rand.New(rand.NewPCG(seed, 1)), plan: Plan{Seed: seed}}
				if !d.place(f) {
					t.Fatal("no topology has room for it")
				}
				if strings.HasPrefix(f.name, "server") {
					d.top.servers = 2
					d.plan.Topology.Line += " servers=2"
				}
				p := d.plan
				p.Steps = []Step{{Line: "start all"}, {Line: "settle"}}
				p.Steps = append(p.Steps, f.draw(d)...)
				r := Run(p)
				switch {
				case r.Failed == "":
					happened++
				case !strings.Contains(r.Failed, "no record holds <n"): // a forged record stands for what another backend has
					t.Errorf("seed %d: %s step %d: %s\n%s", seed, p.Topology.Line, r.At, r.Failed, describe(p))
				}
			}
			if happened == 0 {
				t.Error("it has happened in no seed")
			}
		})
	}
}

// place draws a topology that has room for a fault. Some seeds draw only rare backends.
func (d *drawing) place(f fault) bool {
	first := d.plan.Seed
	for try := range 100 {
		d.plan = Plan{Seed: first + uint64(try/8)}
		o := Options{Nodes: 3, Firewall: "iptables", Store: []string{"etcd", "kube"}[try%2], Change: true}
		o.Backend = []string{"", "", extension.Type, ipsec.Type, cloud.AWS}[try%5]
		d.topology(o)
		if f.fits == nil || f.fits(d.top) {
			return true
		}
	}
	return false
}

func describe(p Plan) string {
	var b strings.Builder
	for i, s := range p.all() {
		fmt.Fprintf(&b, "%3d %8s %s\n", i, s.After, s.Line)
	}
	return b.String()
}

// TestNamesOfFaultsAreUnique checks that no two faults have one name, since the report
// of coverage counts faults by their names.
func TestNamesOfFaultsAreUnique(t *testing.T) {
	seen := map[string]bool{}
	for _, f := range slices.Concat(faults(), extras(), hostileFaults()) {
		if seen[f.name] || f.name == "" {
			t.Errorf("fault %q: a name twice, or none", f.name)
		}
		seen[f.name] = true
	}
	for _, f := range faults() {
		if f.weight < 1 {
			t.Errorf("fault %q: no weight", f.name)
		}
	}
}

// TestExtrasAreDrawn checks that seeds draw each extra fault, and that few seeds draw one.
func TestExtrasAreDrawn(t *testing.T) {
	const plans = 3000
	drawn, seeds := map[string]int{}, 0
	for seed := range uint64(plans) {
		for _, s := range Draw(seed, Options{Change: true}).Steps {
			if slices.ContainsFunc(extras(), func(f fault) bool { return f.name == s.Fault }) {
				drawn[s.Fault]++
				seeds++
			}
		}
	}
	if len(drawn) != len(extras()) || seeds > plans/6 {
		t.Errorf("%d seeds of %d draw %v", seeds, plans, drawn)
	}
}

// TestNoAddressesChangeWhereSubnetsAreScarce checks that plans with few subnets change no
// addresses. A host that changes its address while it remembers no subnet leaves its
// record behind. Without spare subnets no node could take one until the TTL ends, which
// is no failure of the nodes (seed 200010410).
func TestNoAddressesChangeWhereSubnetsAreScarce(t *testing.T) {
	scarce := 0
	for seed := range uint64(2000) {
		p := Draw(seed, Options{})
		long := strings.Contains(p.Topology.Line, "ttl=1h") || strings.Contains(p.Topology.Line, "ttl=24h")
		if !long || !strings.Contains(p.Topology.Line, "subnetlen=") {
			continue
		}
		scarce++
		if text := describe(p); strings.Contains(text, "uplink address=") {
			t.Fatalf("seed %d:\n%s", seed, text)
		}
	}
	if scarce == 0 {
		t.Error("no seed draws such a cluster")
	}
}
