package scenarios

import (
	"errors"
	"fmt"
	"time"

	"github.com/flanneld/flannel/drivers/sim"
)

// fault n2 cut|isolate [heal]: from the store, or from everybody
func faultParted(set func(Node, bool) error, kind string) breaking {
	return func(s *Session, name string, n Node, a *args, _ string) error {
		on := !a.flag("heal")
		if err := a.done(); err != nil {
			return err
		}
		return s.switched(name+" "+kind, on, func(on bool) error { return set(n, on) })
	}
}

// fault n2 part n3 [one-way] [heal]: packets from n2 do not reach n3, nor,
// unless it is one-way, those from n3 n2
func faultPart(s *Session, name string, n Node, a *args, _ string) error {
	oneWay, on := a.flag("one-way"), !a.flag("heal")
	peer := a.word("peer")
	if err := a.done(); err != nil {
		return err
	}
	from, err := simulated(n)
	if err != nil {
		return err
	}
	other, err := s.world.Node(peer)
	if err != nil {
		return err
	}
	to, err := simulated(other)
	if err != nil {
		return err
	}
	if from == to {
		return errors.New("a node cannot be parted from itself")
	}
	if !oneWay {
		if err := s.switched(peer+" part "+name, on, func(on bool) error { return to.denyAt(from, on) }); err != nil {
			return err
		}
	}
	return s.switched(name+" part "+peer, on, func(on bool) error { return from.denyAt(to, on) })
}

// disturbance is what a wire does to frames. Zero: nothing.
type disturbance struct {
	loss, reorder, duplicate float64
	latency, jitter          time.Duration
	mtu                      int
}

func (d *disturbance) read(a *args) error {
	a.fraction("loss", &d.loss)
	a.fraction("reorder", &d.reorder)
	a.fraction("duplicate", &d.duplicate)
	a.duration("latency", &d.latency)
	a.duration("jitter", &d.jitter)
	a.integer("mtu", &d.mtu)
	a.flag("heal")
	return a.done()
}

// on does it to a wire, in place of what was before; latency comes on top of
// the wire's own.
func (d disturbance) on(w *sim.Wire) {
	w.Loss, w.Reorder, w.Duplicate = d.loss, d.reorder, d.duplicate
	w.Jitter, w.MTU = d.jitter, d.mtu
	w.Latency = sim.UnderlayLatency + d.latency
}

// fault n2 wire [loss=0.3] [reorder=0.2] [duplicate=0.2] [latency=50ms] [jitter=20ms] [mtu=1200]
// fault n2 wire heal
func faultWire(s *Session, name string, n Node, a *args, _ string) error {
	sn, err := simulated(n)
	if err != nil {
		return err
	}
	w := sn.Wire("eth0")
	if w == nil {
		return fmt.Errorf("%s has no uplink", name)
	}
	return s.disturb(name+" wire", []*sim.Wire{w}, a)
}

// fault segment0 wire …: the same for all wires of a segment
func (s *Session) faultSegment(name string, a *args) error {
	w, ok := s.World().(*SimWorld)
	if !ok {
		return errOnlySim
	}
	for _, g := range w.segments {
		if g.Name() == name {
			return s.disturb(name+" wire", g.Wires(), a)
		}
	}
	return fmt.Errorf("no %s; there are segment0 to segment%d", name, len(w.segments)-1)
}

// disturb sets what wires do to frames, until the heal.
func (s *Session) disturb(what string, wires []*sim.Wire, a *args) error {
	var d disturbance
	if err := d.read(a); err != nil {
		return err
	}
	set := func(d disturbance) func() error {
		return func() error {
			for _, w := range wires {
				d.on(w)
			}
			return nil
		}
	}
	return s.lasting(what, d != disturbance{}, set(d), set(disturbance{}))
}
