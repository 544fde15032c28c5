package lang

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// faultParted returns the fault "fault n2 cut|isolate [heal]": the node loses
// its connections to the store, or all of them.
func faultParted(set func(Partitioner, bool) error, kind string) breaking {
	return func(s *Session, name string, n Node, a *args, _ string) error {
		on := !a.flag("heal")
		p, err := afterArgs[Partitioner](s, n, a)
		if err != nil {
			return err
		}
		return setting(s, name+" "+kind, on, func(on bool) error { return set(p, on) })
	}
}

// faultPart performs "fault n2 part n3 [one-way] [heal]": packets from n2 do not
// reach n3 and, without one-way, packets from n3 do not reach n2.
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
	ours, err := able[Partitioner](s, n)
	if err != nil {
		return err
	}
	theirs, err := able[Partitioner](s, other)
	if err != nil {
		return err
	}
	if !oneWay {
		err := setting(s, peer+" part "+name, on, func(on bool) error { return ours.PartFrom(peer, on) })
		if err != nil {
			return err
		}
	}
	return setting(s, name+" part "+peer, on, func(on bool) error { return theirs.PartFrom(name, on) })
}

// wireFault describes a fault of a wire. Zero: none.
type wireFault struct {
	Disturbance
	Delay
}

func (f *wireFault) read(a *args) error {
	a.fraction("loss", &f.Loss)
	a.integer("mtu", &f.MTU)
	a.fraction("reorder", &f.Reorder)
	a.fraction("duplicate", &f.Duplicate)
	a.duration("latency", &f.Latency)
	a.duration("jitter", &f.Jitter)
	a.flag("heal")
	return a.done()
}

// faultWire performs
//
//	fault n2 wire [loss=0.3] [reorder=0.2] [duplicate=0.2] [latency=50ms] [jitter=20ms] [mtu=1200]
//	fault n2 wire heal
func faultWire(s *Session, name string, n Node, a *args, _ string) error {
	d, err := able[Disturber](s, n)
	if err != nil {
		return err
	}
	w := wire{disturb: d.Disturb}
	if delayer, ok := n.(Delayer); ok {
		w.delay = delayer.Delay
	}
	return s.disturb(name+" wire", a, w)
}

// faultSegment performs "fault segment0 wire …": faultWire for all wires of a
// segment.
func (s *Session) faultSegment(name string, a *args) error {
	i, err := strconv.Atoi(strings.TrimPrefix(name, "segment"))
	if err != nil {
		return fmt.Errorf("no %s: want segment0 and so on", name)
	}
	d, err := able[SegmentDisturber](s, s.World())
	if err != nil {
		return err
	}
	w := wire{disturb: func(d2 Disturbance) error { return d.DisturbSegment(i, d2) }}
	if delayer, ok := s.World().(SegmentDelayer); ok {
		w.delay = func(d2 Delay) error { return delayer.DelaySegment(i, d2) }
	}
	return s.disturb(name+" wire", a, w)
}

// wire is one, or all of a segment. Delay is nil in a world that cannot delay.
type wire struct {
	disturb func(Disturbance) error
	delay   func(Delay) error
}

func (w wire) set(f wireFault) error {
	err := w.disturb(f.Disturbance)
	if err == nil && w.delay != nil {
		err = w.delay(f.Delay)
	}
	return err
}

// disturb makes a wire disturb packets until the heal.
func (s *Session) disturb(what string, a *args, w wire) error {
	var f wireFault
	if err := f.read(a); err != nil {
		return err
	}
	if f.Delay != (Delay{}) && w.delay == nil {
		return lacks(s, "Delayer")
	}
	if err := w.set(f); err != nil {
		return err // and nothing to undo
	}
	return s.lasting(what, f != wireFault{}, func() error { return nil }, func() error { return w.set(wireFault{}) })
}
