package simworld

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/lease"
	"github.com/flanneld/flannel/core/node"
	"github.com/flanneld/flannel/core/subnetfile"
	"github.com/flanneld/flannel/drivers/sim/kernel"
	"github.com/flanneld/flannel/drivers/sim/store"
	"github.com/flanneld/flannel/scenarios/lang"
)

// Carrier implements [lang.Uplink].
func (n *simNode) Carrier(on bool) error { return n.Host.Carrier("eth0", on) }

// File implements [lang.FileEditor].
func (n *simNode) File(f node.File) ([]byte, error) {
	data, _ := n.daemon.File(f)
	return data, nil
}

// SetFile implements [lang.FileEditor].
func (n *simNode) SetFile(f node.File, data []byte) error {
	n.daemon.SetFile(f, data)
	return nil
}

// LoseKey implements [lang.KeyOwner].
func (n *simNode) LoseKey() error {
	n.daemon.LoseSecret(dataplane.WireGuardKey)
	return nil
}

// BreakCommands implements [lang.CommandRunner].
func (n *simNode) BreakCommands(on bool) { n.daemon.BreakCommands(on) }

// SlowCommands implements [lang.CommandRunner].
func (n *simNode) SlowCommands(by time.Duration) { n.daemon.SlowCommands(by) }

// NoteReboot implements [lang.Rebooter].
func (n *simNode) NoteReboot() { n.daemon.NoteReboot() }

// TranslatePort implements [lang.PortTranslator].
func (n *simNode) TranslatePort(inner, outer uint16) error {
	n.Host.TranslatePort(inner, outer)
	return nil
}

// refusals are the errors of the simulated kernel.
var refusals = map[lang.Refusal]error{
	"ENOBUFS": kernel.ErrNoBuffers, "EBUSY": kernel.ErrBusy, "EEXIST": kernel.ErrExists, "ENOENT": kernel.ErrNotFound,
}

// RefuseChanges implements [lang.KernelRefuser].
func (n *simNode) RefuseChanges(with lang.Refusal, probability float64) {
	n.RefuseOps(refusals[with], probability)
}

// RefuseNextChanges implements [lang.KernelRefuser].
func (n *simNode) RefuseNextChanges(with lang.Refusal, count int) {
	n.RefuseNextOps(refusals[with], count)
}

// Suspend implements [lang.Sleeper].
func (n *simNode) Suspend(length time.Duration) { n.daemon.Suspend(length) }

// SetClock implements [lang.Sleeper].
func (n *simNode) SetClock(offset time.Duration) { n.daemon.SetClock(offset) }

// TearWrite implements [lang.WriteTearer].
func (n *simNode) TearWrite(f node.File, on bool) { n.daemon.TearWrite(f, on) }

// PartFrom implements [lang.Partitioner].
func (n *simNode) PartFrom(other string, on bool) error {
	o, ok := n.world.nodes[other]
	if !ok {
		return fmt.Errorf("no node %q", other)
	}
	if w := n.Wire("eth0"); w != nil {
		w.Deny(o.Host, on)
	}
	return nil
}

// Block implements [lang.Blocker].
func (n *simNode) Block(protocol string, port uint16, on bool) error {
	known := map[string]kernel.Protocol{"icmp": kernel.ICMP, "tcp": kernel.TCP, "udp": kernel.UDP}
	return n.Host.Block(known[protocol], port, on)
}

// SpoilChecksums implements [lang.ChecksumSpoiler].
func (n *simNode) SpoilChecksums(on bool) error { return n.Host.SpoilChecksums(on) }

// Disturb implements [lang.Disturber].
func (n *simNode) Disturb(d lang.Disturbance) error {
	w, err := n.wire()
	if err == nil {
		w.Loss, w.MTU = d.Loss, d.MTU
	}
	return err
}

// Delay implements [lang.Delayer].
func (n *simNode) Delay(d lang.Delay) error {
	w, err := n.wire()
	if err == nil {
		delay(w, d)
	}
	return err
}

// wire returns the wire of the uplink.
func (n *simNode) wire() (*kernel.Wire, error) {
	w := n.Wire("eth0")
	if w == nil {
		return nil, fmt.Errorf("%s has no uplink", n.Name())
	}
	return w, nil
}

// DisturbSegment implements [lang.SegmentDisturber].
func (w *World) DisturbSegment(i int, d lang.Disturbance) error {
	wires, err := w.wires(i)
	for _, wire := range wires {
		wire.Loss, wire.MTU = d.Loss, d.MTU
	}
	return err
}

// DelaySegment implements [lang.SegmentDelayer].
func (w *World) DelaySegment(i int, d lang.Delay) error {
	wires, err := w.wires(i)
	for _, wire := range wires {
		delay(wire, d)
	}
	return err
}

// wires returns the wires of a segment.
func (w *World) wires(segment int) ([]*kernel.Wire, error) {
	if segment < 0 || segment >= len(w.segments) {
		return nil, fmt.Errorf("no segment%d; there are segment0 to segment%d", segment, len(w.segments)-1)
	}
	return w.segments[segment].Wires(), nil
}

// delay replaces the former delay of a wire. The latency adds to the wire's own.
func delay(w *kernel.Wire, d lang.Delay) {
	w.Reorder = d.Reorder
	w.Duplicate = d.Duplicate
	w.Jitter = d.Jitter
	w.Latency = kernel.UnderlayLatency + d.Latency
}

// Holds implements [lang.LeaseHolder].
func (n *simNode) Holds() lease.Key {
	if key := n.daemon.Status().Subnet; key.IsValid() {
		return key
	}
	return subnetfile.Previous([]byte(n.SubnetFile()))
}

// Second implements [lang.Process]. When the second daemon ends, the node's own
// daemon starts again, since its files may have changed.
func (n *simNode) Second(on bool) error {
	if !on {
		if n.second != nil {
			n.second.Kill()
			if n.daemon.Running() {
				n.daemon.Kill()
				n.daemon.Start()
			}
		}
		return nil
	}
	n.GoByOneName()
	if n.second == nil {
		n.second = n.daemon.Second()
	}
	n.second.Start()
	return nil
}

// KillAt implements [lang.Process].
func (n *simNode) KillAt(boundary int) error {
	n.daemon.KillAtBoundary(boundary)
	return nil
}

// errDiskFull is the error of a write to a full disk.
var errDiskFull = errors.New("no space left on device")

// FullDisk implements [lang.FileEditor].
func (n *simNode) FullDisk(f node.File, on bool) error {
	n.daemon.FailWrites(f, nil)
	if on {
		n.daemon.FailWrites(f, errDiskFull)
	}
	return nil
}

// client returns the running daemon's connection to the store.
func (n *simNode) client() (*store.Client, error) {
	if c := n.daemon.Client(); c != nil {
		return c, nil
	}
	return nil, lang.ErrNoDaemon
}

// Meet implements [lang.StoreClient].
func (n *simNode) Meet(f lang.Fate, count int) error {
	c, err := n.client()
	if err != nil {
		return err
	}
	known := map[lang.Fate]store.Fate{lang.FateLost: store.FateLoseRequest,
		lang.FateUnanswered: store.FateLoseAnswer, lang.FateLate: store.FateLate}
	c.Next(slices.Repeat([]store.Fate{known[f]}, count)...)
	return nil
}

// ForgetToken implements [lang.StoreClient].
func (n *simNode) ForgetToken() error {
	c, err := n.client()
	if err == nil {
		c.ExpireToken()
	}
	return err
}

// Deny implements [lang.StoreClient].
func (n *simNode) Deny(on bool) error {
	for _, w := range *n.world.worlds {
		w.storage.Deny(n.Name(), on)
	}
	return nil
}

// each does something to the etcd that holds the store.
func (s simStore) each(do func(*store.Store)) {
	for _, one := range s.etcd {
		do(one)
	}
}

// disturb changes the random faults of the etcd.
func (s simStore) disturb(change func(*store.Faults)) {
	s.each(func(one *store.Store) {
		f := one.Faults()
		change(&f)
		one.SetFaults(f)
	})
}

// errShared refuses what the simulator cannot do to an etcd with several networks.
var errShared = errors.New("the simulator does this only with one network")

// Backup implements [lang.Restorer].
func (s simStore) Backup() error {
	if len(s.etcd) > 1 {
		return errShared
	}
	return s.Store.Backup()
}

// Restore implements [lang.Restorer].
func (s simStore) Restore(further int) error { return s.Store.Restore(int64(further)) }

// LoseData implements [lang.FaultyStore].
func (s simStore) LoseData() error {
	if len(s.etcd) > 1 {
		return errShared
	}
	s.Store.LoseData()
	return nil
}

// LoseLeader implements [lang.TimedElection].
func (s simStore) LoseLeader(length time.Duration) {
	s.each(func(one *store.Store) { one.LoseLeader(length) })
}

// Leaderless implements [lang.FaultyStore].
func (s simStore) Leaderless(on bool) error {
	if on {
		s.LoseLeader(forever)
	} else {
		s.each((*store.Store).ElectLeader)
	}
	return nil
}

// Slow implements [lang.FaultyStore].
func (s simStore) Slow(chance float64, by time.Duration) error {
	s.disturb(func(f *store.Faults) { f.Slow, f.SlowBy = chance, by })
	return nil
}

// Lossy implements [lang.FaultyStore].
func (s simStore) Lossy(requests, answers float64) error {
	s.disturb(func(f *store.Faults) { f.LoseRequest, f.LoseAnswer = requests, answers })
	return nil
}

// StaleReads implements [lang.FaultyStreams].
func (s simStore) StaleReads(probability float64) {
	s.disturb(func(f *store.Faults) { f.StaleList = probability })
}

// DisturbEvents implements [lang.FaultyStreams].
func (s simStore) DisturbEvents(e lang.EventFaults) {
	s.disturb(func(f *store.Faults) {
		f.WatchDelay = e.Delay
		f.WatchLose = e.Lose
		f.WatchDuplicate = e.Duplicate
		f.WatchReorder, f.WatchBreak = e.Reorder, e.Break
	})
}

// CalmStreams implements [lang.FaultyStreams].
func (s simStore) CalmStreams() {
	s.each(func(one *store.Store) { one.SetFaults(store.Faults{}) })
}

// Repeat implements [lang.Rival].
func (n *simNode) Repeat(every time.Duration, do func()) (stop func()) {
	stopped := false
	n.watched.SetRival(true)
	var next func()
	next = func() {
		if stopped {
			return
		}
		do()
		n.World().After(every, n.Name()+": rival", next)
	}
	n.World().After(every, n.Name()+": rival", next)
	return func() {
		stopped = true
		n.watched.SetRival(false)
	}
}
