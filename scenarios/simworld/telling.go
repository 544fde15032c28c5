package simworld

import (
	"fmt"
	"io"
	"net/netip"
	"strings"
	"time"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/drivers/sim/kernel"
	"github.com/flanneld/flannel/internal/page"
	"github.com/flanneld/flannel/scenarios/lang"
)

// simWitness hears all notes of a simulated world. As soon as a moment is over, it
// looks at the nodes that its notes concern.
type simWitness struct {
	*lang.Witness
	world *World

	at      time.Duration   // the moment that the last note belongs to
	looked  time.Duration   // the last moment that was looked at
	touched map[string]bool // nodes noted since; true: their host may have changed
	store   bool            // the store's records changed since
	after   bool            // the scenario is over; the last packets show which pods reach each other
}

// grain is the shortest time between two looks: a plan of many ops takes
// microseconds for each.
const grain = 500 * time.Microsecond

// Tell implements [lang.Teller].
func (w *World) Tell(r *lang.Witness) lang.Telling {
	s := &simWitness{Witness: r, world: w, touched: map[string]bool{}}
	w.World.OnNote(s.noted)
	w.network.OnProbe(s.probed)
	return s
}

// Now implements [lang.Telling].
func (s *simWitness) Now() time.Duration { return s.world.Elapsed() }

// Identity implements [lang.Telling].
func (s *simWitness) Identity() (seed, trace string, err error) {
	w := s.world.World
	return fmt.Sprint(w.Seed()), fmt.Sprintf("%016x", w.TraceHash()), w.Err()
}

// noted hears a note. The first note of a moment comes before anything happens in
// it, while the world is still as the last moment left it.
func (s *simWitness) noted(label, detail string) {
	if now := s.world.Elapsed(); now != s.at {
		if s.at-s.looked >= grain {
			s.CatchUp()
		}
		s.at = now
	}
	who, what, _ := strings.Cut(label, ": ")
	if _, ok := s.world.nodes[who]; ok {
		s.notedNode(who, what, detail)
		return
	}
	switch {
	case who == "store" && (what == "put" || what == "delete"):
		s.store = true
		s.Event(s.at, who, what, detail)
	case who == "store" && what != "":
		s.Event(s.at, who, what, detail)
	case strings.HasPrefix(who, "segment") && what != "":
		s.Event(s.at, who, what, detail)
	}
}

func (s *simWitness) notedNode(who, what, detail string) {
	verb, rest, _ := strings.Cut(what, " ")
	switch verb {
	case "daemon":
		s.touch(who, false)
		s.Event(s.at, who, rest, detail)
	case "fault", "command":
		s.touch(who, true)
		s.Event(s.at, who, verb, detail)
	case "turn":
		s.touch(who, false)
	case "plan", "add", "replace", "del", "pod":
		s.touch(who, true)
	}
}

func (s *simWitness) touch(who string, host bool) { s.touched[who] = s.touched[who] || host }

// CatchUp implements [lang.Telling]: it records the state after the last moment.
func (s *simWitness) CatchUp() {
	s.looked = s.at
	if len(s.touched) == 0 && !s.store || s.after {
		return
	}
	records, err := s.world.Store().Records()
	if err != nil {
		return
	}
	if s.store {
		s.TellLeases(s.at, records)
	}
	for _, name := range s.world.top.NodeNames() {
		host, touched := s.touched[name]
		if touched {
			s.TellState(s.at, name)
		}
		if host || s.store {
			s.TellShortage(s.at, name, records)
		}
	}
	s.store = false
	clear(s.touched)
}

// probed records the fate of a packet between pods.
func (s *simWitness) probed(p *kernel.Probe) {
	from, _, isPod := strings.Cut(p.From(), ".")
	to := s.podWith(p.Dst)
	if !isPod || to == "" {
		return
	}
	probe := page.Probe{
		From: from, To: to, OK: p.Delivered, Drop: string(p.Drop), Where: p.Where, Detail: p.Detail, After: s.after,
	}
	if n := s.world.nodes[from]; p.Delivered && n.pod != nil && p.SourceSeen != n.pod.Addr(cidr.FamilyOf(p.Dst)) {
		probe.Source = p.SourceSeen.String()
	}
	var path []page.Hop
	for _, h := range p.Path {
		path = append(path, page.Hop{After: h.After.Microseconds(), Where: h.Where, What: h.What, Detail: h.Detail})
	}
	s.Probe(p.Sent().Sub(s.world.began), probe, path)
}

// podWith names the node whose pod has an address.
func (s *simWitness) podWith(ip netip.Addr) string {
	for _, name := range s.world.top.NodeNames() {
		if pod := s.world.nodes[name].pod; pod != nil && pod.Addr(cidr.FamilyOf(ip)) == ip {
			return name
		}
	}
	return ""
}

// mostAfter is the largest number of nodes among which End tries all pairs.
const mostAfter = 24

// End implements [lang.Telling]: it sends packets between all pods to see which reach each
// other. A world that stopped at a broken invariant sends no more packets.
func (s *simWitness) End() {
	s.world.World.OnNote(nil)
	s.after = true
	names := s.world.top.NodeNames()
	if len(names) > mostAfter || s.world.World.Err() != nil {
		return
	}
	for _, name := range names {
		if n := s.world.nodes[name]; n.SubnetFile() != "" {
			_ = n.SyncPods() // a node without a pod sends nothing
		}
	}
	var probes []*kernel.Probe
	for _, f := range s.world.top.Families {
		for _, from := range names {
			for _, to := range names {
				a, b, err := lang.Pair(s.world.pod, from+".pod", to+".pod", f)
				if from == to || err != nil {
					continue
				}
				probes = append(probes, a.Ping(b.Addr(f), kernel.PingOptions{}))
			}
		}
	}
	s.world.World.RunUntil(func() bool {
		for len(probes) > 0 && probes[0].Done() {
			probes = probes[1:]
		}
		return len(probes) == 0
	}, 10*time.Second)
}

// Capture implements [lang.PacketCapturer].
func (w *World) Capture(create func(name string) (io.Writer, error)) error {
	for _, name := range w.top.NodeNames() {
		out, err := create(name)
		if err != nil {
			return fmt.Errorf("capture of %s: %w", name, err)
		}
		if err := w.nodes[name].Wire("eth0").Capture(out); err != nil {
			return fmt.Errorf("capture of %s: %w", name, err)
		}
	}
	return nil
}
