package search

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// serverFaults returns the faults of flannel servers, in which S stands for a server and T for the next
// one. The search draws them only with [Options.Servers].
func serverFaults() []fault {
	return []fault{
		ofServer("server-stopped", at(0, "fault S stop")),
		ofServer("server-restarted", at(0, "fault S restart")),
		ofServer("servers-restarted-in-turn", at(0, "fault S stop"), at(3*time.Second, "fault T stop"),
			at(0, "fault S stop heal"), at(3*time.Second, "fault T stop heal")),
		ofServer("server-cut-off", at(0, "fault S cut")),
		ofServer("server-parted", at(0, "fault S part")),
		ofServer("server-parted-then-cut", at(0, "fault S part"), at(2*time.Second, "fault T cut"),
			at(8*time.Second, "fault S part heal"), at(8*time.Second, "fault T cut heal")),
		{name: "server-slow", weight: 1, draw: func(d *drawing) []Step {
			return d.atServer([]Step{at(0, "fault S slow by="+d.within(200*time.Millisecond, 3*time.Second, 10*time.Second))})
		}},
		{name: "server-answers-lost", weight: 1, draw: func(d *drawing) []Step {
			return d.atServer([]Step{at(0, "fault S lossy answers="+d.chance())})
		}},
		{name: "server-answers-lost-once", weight: 1, draw: func(d *drawing) []Step {
			return d.atServer(d.fillAll([]Step{at(0, "fault S lossy answers=1"), at(0, "store expire N"),
				at(time.Second, "fault S lossy answers=0")}))
		}},
	}
}

// ofServer is a fault of several directives about the same servers.
func ofServer(name string, steps ...Step) fault {
	return fault{name: name, weight: 2, draw: func(d *drawing) []Step { return d.atServer(steps) }}
}

// atServer replaces S and T with names of servers.
func (d *drawing) atServer(steps []Step) []Step {
	first := d.rng.IntN(d.top.servers)
	names := map[string]string{
		"S": fmt.Sprintf("server%d", first+1), "T": fmt.Sprintf("server%d", (first+1)%d.top.servers+1),
	}
	filled := slices.Clone(steps)
	for i, s := range filled {
		words := strings.Split(s.Line, " ")
		for j, w := range words {
			if name, ok := names[w]; ok {
				words[j] = name
			}
		}
		filled[i].Line = strings.Join(words, " ")
	}
	return filled
}

// serverStream is the stream of random numbers of what is drawn about servers: the rest of a seed's plan
// is the same as without them.
func serverStream(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 0x5e4e)) }

// withServers puts servers between the nodes and the datastore, and inserts faults of them after the steps
// in which the nodes start.
func (d *drawing) withServers(joined int) {
	rng := serverStream(d.plan.Seed)
	d.top.servers = pick(rng, 1, 2, 2, 2, 3)
	d.plan.Topology.Line += fmt.Sprintf(" servers=%d", d.top.servers)
	e := &drawing{rng: rng, top: d.top, plan: Plan{Seed: d.plan.Seed}}
	var all []fault
	for _, f := range serverFaults() {
		all = append(all, slices.Repeat([]fault{f}, f.weight)...)
	}
	for range 1 + rng.IntN(5) {
		f := pick(rng, all...)
		e.plan.Steps = nil
		for i, s := range f.draw(e) {
			after := int64(s.After)
			if i == 0 {
				after, s.Fault = e.pause(), f.name
			}
			s.Line += " may-fail"
			e.step(after, s)
		}
		place := joined + rng.IntN(len(d.plan.Steps)-joined+1)
		d.plan.Steps = slices.Insert(d.plan.Steps, place, e.plan.Steps...)
	}
}
