package invariants

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/flanneld/flannel/core/backend"
	"github.com/flanneld/flannel/core/backend/all"
	"github.com/flanneld/flannel/core/backend/udp"
	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/config"
	"github.com/flanneld/flannel/drivers/sim/kernel"
	"github.com/flanneld/flannel/drivers/sim/store"
)

// crossing follows a change of the cluster's backend. Pods that reached each other
// when the config changed have to reach each other after every op of their nodes,
// until the scenario does something to one of them that may part them.
type crossing struct {
	joined map[direction]bool
	probes []crossingProbe  // under way
	ways   []config.Network // the configs since no pair was joined
}

// direction is a pair of nodes whose pods exchange a packet in one family. The first
// one begins.
type direction struct {
	from, to string
	family   cidr.Family
}

// crossingProbe is a packet of a pair.
type crossingProbe struct {
	direction
	*kernel.Probe
	begins bool // the pair is joined if the packet is delivered
	second bool // an earlier packet was lost, as one may be
}

const (
	// secondChance is how long a packet may take, and the time after which a lost one is sent again. If two
	// WireGuard devices begin their handshakes at the same moment, packets wait for the next try, which comes
	// after five seconds.
	secondChance = 6 * time.Second
	// mostWays is the number of backends that a node keeps beside each other.
	mostWays = 4
)

// cross follows a new config. A change of the backend alone begins a crossing. Any
// other change may part pods, and so may a change that makes a device anew.
func (i *Invariants) cross(now config.Network) {
	c := &i.crossing
	before := i.config
	if len(c.joined) == 0 {
		c.ways = []config.Network{before}
	}
	plain := before.V4 == now.V4 && before.V6 == now.V6
	if plain && sameObject(before.Backend, now.Backend) {
		return // such as another tool for the firewall
	}
	other := func(w config.Network) bool { return !sameObject(w.Backend, now.Backend) }
	if slices.ContainsFunc(c.ways, func(w config.Network) bool { return other(w) && exclude(w, now) }) || !plain {
		*c = crossing{}
		return
	}
	if !slices.ContainsFunc(c.ways, func(w config.Network) bool { return !other(w) }) {
		c.ways = append(c.ways, now)
	}
	if len(c.ways) > mostWays {
		*c = crossing{}
		return
	}
	i.join()
}

// sameObject reports whether two Backend objects have equal members.
func sameObject(a, b config.Backend) bool {
	var one, two map[string]any
	errs := [...]error{json.Unmarshal(a.Options, &one), json.Unmarshal(b.Options, &two)}
	return errs == [2]error{} && reflect.DeepEqual(one, two)
}

// exclude reports whether no host can have the ways of two configs at a time: they name
// one device, or two kinds of them listen at one UDP port.
func exclude(a, b config.Network) bool {
	one, err := all.New(a)
	two, err2 := all.New(b)
	if err != nil || err2 != nil {
		return false
	}
	spec, _ := all.Find(a.Backend.Type)
	spec2, _ := all.Find(b.Backend.Type)
	alone := func(s backend.Spec) bool { return s.Alone || s.IgnoresPeers }
	return alone(spec) || alone(spec2) || common(one.Extent().Links, two.Extent().Links) ||
		backend.Exclude(spec.Ports(a), spec2.Ports(b)) != 0
}

// common reports whether two lists have an element in common.
func common[T comparable](a, b []T) bool {
	return slices.ContainsFunc(a, func(x T) bool { return slices.Contains(b, x) })
}

// join sends a packet between any two pods whose hosts are in order.
func (i *Invariants) join() {
	for _, from := range i.order {
		for _, to := range i.order {
			for _, f := range cidr.Families {
				d := direction{from, to, f}
				if from != to && !i.crossing.joined[d] && i.nodes[from].inOrder() && i.nodes[to].inOrder() {
					i.send(crossingProbe{direction: d, begins: true})
				}
			}
		}
	}
}

// inOrder reports whether the node has a lease, its host held what was demanded of it, and no
// fault has touched it since.
func (n *Node) inOrder() bool {
	record := n.all.records[n.record]
	leased := n.holds && record != nil && !record.gone && !record.flawed
	return leased && n.follows.sound && !n.follows.added && !n.Twinned && len(n.all.parting(n.name)) == 0
}

// parting returns the lasting faults in force that may part a node's pods from others.
func (i *Invariants) parting(name string) []string {
	return i.faultsThat(func(words []string) bool {
		segment := strings.HasPrefix(words[0], "segment")
		return segment || slices.Contains(words, name) && !slices.Contains(quiet, words[min(1, len(words)-1)])
	})
}

// quiet lists the faults at a node that do not part its pods from others.
var quiet = []string{"cut", "denied", "clock", "tear", "full", "hints", "kill", "request", "token"}

// send sends a packet from pod to pod, if both nodes have one.
func (i *Invariants) send(p crossingProbe) {
	from, to := i.nodes[p.from].Pods(), i.nodes[p.to].Pods()
	if len(from) == 0 || len(to) == 0 || !from[0].Addr(p.family).IsValid() || !to[0].Addr(p.family).IsValid() {
		delete(i.crossing.joined, p.direction)
		return
	}
	p.Probe = from[0].Ping(to[0].Addr(p.family), kernel.PingOptions{Timeout: secondChance})
	i.crossing.probes = append(i.crossing.probes, p)
}

// checkCrossing is called after every event: it sends a packet between each pair
// whose hosts have changed, and judges the packets whose fate is known.
func (i *Invariants) checkCrossing() error {
	c := &i.crossing
	if len(c.joined) > 0 && i.inProcess() {
		for _, name := range i.order {
			if !i.nodes[name].live() {
				c.part(name)
			}
		}
	}
	for _, d := range c.affected(i.nodes) {
		i.send(crossingProbe{direction: d})
	}
	for _, n := range i.nodes {
		n.rewired = false
	}
	done := func(p crossingProbe) bool { return p.Done() }
	if !slices.ContainsFunc(c.probes, done) {
		return nil
	}
	probes := c.probes
	c.probes = slices.DeleteFunc(slices.Clone(probes), done)
	for _, p := range probes {
		if !p.Done() {
			continue
		}
		if err := i.judgeCrossing(p); err != nil {
			return err
		}
	}
	return nil
}

// affected returns the joined pairs with a node whose host has changed, in order.
func (c *crossing) affected(nodes map[string]*Node) []direction {
	var all []direction
	for d := range c.joined {
		if nodes[d.from].rewired || nodes[d.to].rewired {
			all = append(all, d)
		}
	}
	slices.SortFunc(all, func(a, b direction) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
	return all
}

// judgeCrossing judges a packet whose fate is known.
func (i *Invariants) judgeCrossing(p crossingProbe) error {
	c := &i.crossing
	switch {
	case p.begins && p.Delivered:
		if c.joined == nil {
			c.joined = map[direction]bool{}
		}
		c.joined[p.direction] = true
		return nil
	case p.Delivered || p.begins || !c.joined[p.direction]:
		return nil
	case !p.second && (p.family == cidr.V6 || strings.HasPrefix(string(p.Drop), "wg_")):
		i.about.World.After(secondChance, "packet of a crossing", func() {
			if c.joined[p.direction] {
				i.send(crossingProbe{direction: p.direction, second: true})
			}
		})
		return nil
	}
	return fmt.Errorf("while the backend changes, %s does not reach %s: %s; the packet went by: %s", p.from, p.to, p.Probe,
		walk(p.Probe))
}

// walk returns the steps of a packet in one line.
func walk(p *kernel.Probe) string {
	var steps []string
	for _, h := range p.Path {
		steps = append(steps, h.String())
	}
	return strings.Join(steps, ", ")
}

// inProcess reports whether packets may travel through a daemon's process.
func (i *Invariants) inProcess() bool {
	return slices.ContainsFunc(i.crossing.ways, func(w config.Network) bool { return w.Backend.Type == udp.Type })
}

// directed follows a directive that may part pods.
func (c *crossing) directed(words []string, i *Invariants) {
	switch words[0] {
	case "heal":
		*c = crossing{}
	case "store":
		if !slices.Contains(keepsRecords, words[1]) {
			*c = crossing{}
		}
	case "fault":
		for _, name := range i.order {
			if touches(words, name) && !slices.ContainsFunc(words, func(w string) bool { return slices.Contains(quiet, w) }) {
				c.part(name)
			}
		}
		if strings.HasPrefix(words[1], "segment") {
			*c = crossing{}
		}
	}
}

// keepsRecords are the operations on the store that leave all records as they are.
var keepsRecords = []string{"stop", "start", "config", "merge", "end-change", "firewall", "compact", "backup",
	"leaderless", "slow",
	"lossy", "reserve", "unreserve", "stale", "events"}

// part ends the judgement of a node's pairs.
func (c *crossing) part(name string) {
	maps.DeleteFunc(c.joined, func(d direction, _ bool) bool { return d.from == name || d.to == name })
}

// wrote follows a write to the store. Peers drop a node whose record is deleted or
// replaced.
func (c *crossing) wrote(w store.Write, i *Invariants) {
	for _, name := range i.order {
		n := i.nodes[name]
		about := w.Key == n.record || w.Key == n.last.String()
		if w.New != nil && w.New.Flaw == "" {
			about = about && w.Client != name || slices.ContainsFunc(n.addresses(), func(a netip.Addr) bool {
				return a == owner(w.New.Lease.Attrs) && w.Key != n.record
			})
		}
		if about {
			c.part(name)
		}
	}
}
