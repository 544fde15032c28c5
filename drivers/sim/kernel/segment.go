package kernel

import (
	"io"
	"net/netip"
	"slices"
	"time"

	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/drivers/sim/world"
)

// Segment is an Ethernet: a switch with cables to the attached links. It
// forwards a frame to the link with its address and never floods.
type Segment struct {
	world *world.World
	name  string
	gate  *link   // of a host's bridge: nothing passes while it is down
	wires []*Wire // in the order of attachment

	// The last owner of each address. Entries are checked before use.
	macs map[dataplane.MAC]*Wire
	ips  map[netip.Addr]*Wire
}

// Wire connects one link with a segment. Its fields may be changed at any time
// and count for frames sent from then on.
type Wire struct {
	Latency time.Duration
	Loss    float64 // probability that a frame is lost, for each direction
	MTU     int     // larger packets vanish silently; 0: no limit
	Down    bool    // the switch does not forward, which the link does not see
	Group   int     // links of different groups do not see each other

	Jitter    time.Duration // up to this much more latency, drawn for each frame
	Reorder   float64       // probability that a frame is held back for a while
	Duplicate float64       // probability that a frame comes twice

	deny    []*stack // the switch hands no packets of these to the link
	segment *Segment
	link    *link
	name    string // of the link, in the world
	arrives string // label of the event
	capture *pcapWriter
	onSend  []func(frame []byte)
}

// UnderlayLatency is the latency of one wire of an underlay.
const UnderlayLatency = 100 * time.Microsecond

func newSegment(w *world.World, name string, gate *link) *Segment {
	return &Segment{
		world: w, name: name, gate: gate,
		macs: map[dataplane.MAC]*Wire{}, ips: map[netip.Addr]*Wire{},
	}
}

// Name returns the name of the segment; its maker keeps it unique in the world.
func (g *Segment) Name() string { return g.name }

// Wires returns the attached wires, in order.
func (g *Segment) Wires() []*Wire { return g.wires }

// Partition lets the hosts talk only within their group; hosts in no group form
// the last one. Without groups all hosts talk with each other.
func (g *Segment) Partition(groups ...[]*Host) {
	for _, w := range g.wires {
		w.Group = len(groups)
		for i, hosts := range groups {
			if slices.ContainsFunc(hosts, func(h *Host) bool { return h.stack == w.link.stack }) {
				w.Group = i
			}
		}
	}
	g.world.Note(g.name+": partition", "")
}

// Capture writes all frames that pass the wire from now on, in both directions,
// to out in pcap format.
func (w *Wire) Capture(out io.Writer) error {
	c, err := newPcap(out)
	w.capture = c
	return err
}

// OnSend calls fn with each frame that the link sends from now on.
func (w *Wire) OnSend(fn func(frame []byte)) { w.onSend = append(w.onSend, fn) }

// Host returns the name of the host or pod of the wire's link.
func (w *Wire) Host() string { return w.link.stack.name }

// Link is the name of the link on its host.
func (w *Wire) Link() string { return w.link.name }

func (g *Segment) attach(l *link, latency time.Duration) *Wire {
	name := l.stack.name + "/" + l.name
	w := &Wire{segment: g, link: l, Latency: latency, name: name, arrives: "frame at " + name}
	l.wire = w
	g.wires = append(g.wires, w)
	return w
}

func (g *Segment) detach(w *Wire) {
	g.wires = slices.DeleteFunc(g.wires, func(o *Wire) bool { return o == w })
	w.link.wire = nil
}

// reach returns the reason why a frame cannot get from one wire to another, or
// "".
func (w *Wire) reach(to *Wire) Drop {
	gate := w.segment.gate
	switch {
	case gate != nil && !gate.up:
		return DropLinkDown
	case w.Down || to.Down:
		return DropWireDown
	case w.Group != to.Group:
		return DropPartition
	}
	return ""
}

// resolve asks for the owner of an address, as ARP and NDP do: a host answers
// for all its IPv4 addresses, and for the IPv6 ones of the link.
func (w *Wire) resolve(ip netip.Addr) (dataplane.MAC, Drop) {
	g, why := w.segment, DropNeighFailed
	if to := g.ips[ip]; to != nil && to != w && to.attached() && to.link.answers(ip) && w.reach(to) == "" {
		return to.link.mac, ""
	}
	for _, to := range g.wires {
		if to == w || !to.link.answers(ip) {
			continue
		}
		if drop := w.reach(to); drop != "" {
			why = drop
			continue
		}
		g.ips[ip] = to
		return to.link.mac, ""
	}
	return dataplane.MAC{}, why
}

// withMAC finds the wire of the link that has an address, or nil.
func (g *Segment) withMAC(mac dataplane.MAC, from *Wire) *Wire {
	if w := g.macs[mac]; w != nil && w != from && w.attached() && w.link.mac == mac {
		return w
	}
	for _, w := range g.wires {
		if w != from && w.link.mac == mac {
			g.macs[mac] = w
			return w
		}
	}
	return nil
}

func (w *Wire) attached() bool { return w.link.wire == w }

func (l *link) answers(ip netip.Addr) bool {
	if !l.up || !l.carrier || !l.stack.isLocal(ip) {
		return false
	}
	return ip.Is4() || l.has(ip)
}

// send carries a frame to the link it is addressed to.
func (w *Wire) send(frame []byte, p *Probe) {
	s, g := w.link.stack, w.segment
	w.record(frame)
	for _, fn := range w.onSend {
		fn(frame)
	}
	head, _, err := parseEther(frame)
	if err != nil {
		s.drop(p, DropMalformed, err.Error())
		return
	}
	to := g.withMAC(head.dst, w)
	if to == nil {
		s.drop(p, DropMACUnknown, head.dst.String()+" on "+g.name)
		return
	}
	if drop := w.reach(to); drop != "" {
		s.drop(p, drop, w.name+" > "+to.name)
		return
	}
	if to.denies(w, frame) {
		s.drop(p, DropPartition, w.name+" > "+to.name)
		return
	}
	delay, copies := w.Latency+to.Latency, 1
	for _, end := range []*Wire{w, to} {
		if end.MTU > 0 && len(frame) > end.MTU+etherLen {
			s.drop(p, DropWireMTU, end.name)
			return
		}
		if end.Loss > 0 && g.world.Rand(end.name+"/loss").Float64() < end.Loss {
			s.drop(p, DropWireLoss, end.name)
			return
		}
		d, c := end.disturb()
		delay, copies = delay+d, copies+c
	}
	g.world.Fold(frame)
	for ; copies > 0; copies-- {
		arrived := frame
		if copies > 1 {
			arrived = slices.Clone(frame)
		}
		g.world.After(delay, to.arrives, func() {
			to.record(arrived)
			to.link.receive(arrived, p)
		})
	}
}

func (w *Wire) record(frame []byte) {
	if w.capture == nil {
		return
	}
	if err := w.capture.write(w.segment.world.Now(), frame); err != nil {
		w.segment.world.Note(w.name+": capture ended", err.Error())
		w.capture = nil
	}
}
