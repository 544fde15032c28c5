package scenarios

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
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
	other, err := s.world.Node(peer)
	if err != nil {
		return err
	}
	if name == peer {
		return errors.New("a node cannot be parted from itself")
	}
	if !oneWay {
		if err := s.switched(peer+" part "+name, on, func(on bool) error { return n.PartFrom(peer, on) }); err != nil {
			return err
		}
	}
	return s.switched(name+" part "+peer, on, func(on bool) error { return other.PartFrom(name, on) })
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

// fault n2 wire [loss=0.3] [reorder=0.2] [duplicate=0.2] [latency=50ms] [jitter=20ms] [mtu=1200]
// fault n2 wire heal
func faultWire(s *Session, name string, n Node, a *args, _ string) error {
	return s.disturb(name+" wire", a, n.Disturb)
}

// fault segment0 wire …: the same for all wires of a segment
func (s *Session) faultSegment(name string, a *args) error {
	i, err := strconv.Atoi(strings.TrimPrefix(name, "segment"))
	if err != nil {
		return fmt.Errorf("no %s: want segment0 and so on", name)
	}
	return s.disturb(name+" wire", a, func(d disturbance) error { return s.world.DisturbSegment(i, d) })
}

// disturb sets what becomes of packets, until the heal.
func (s *Session) disturb(what string, a *args, set func(disturbance) error) error {
	var d disturbance
	if err := d.read(a); err != nil {
		return err
	}
	if err := set(d); err != nil {
		return err // and nothing to undo
	}
	return s.lasting(what, d != disturbance{}, func() error { return nil }, func() error { return set(disturbance{}) })
}
