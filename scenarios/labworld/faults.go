package labworld

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/flanneld/flannel/core/lease"
	"github.com/flanneld/flannel/core/node"
	"github.com/flanneld/flannel/core/subnetfile"
	"github.com/flanneld/flannel/harness"
	"github.com/flanneld/flannel/scenarios/lang"
)

// Holds implements [LeaseHolder].
func (n *netnsNode) Holds() lease.Key { return subnetfile.Previous([]byte(n.SubnetFile())) }

// PartFrom implements [Partitioner].
func (n *netnsNode) PartFrom(other string, on bool) error {
	o, ok := n.world.nodes[other]
	if !ok {
		return fmt.Errorf("no node %q", other)
	}
	ctx, cancel := bounded(stepBound)
	defer cancel()
	return n.node.PartFrom(ctx, o.node, on)
}

// Block implements [Blocker].
func (n *netnsNode) Block(protocol string, port uint16, on bool) error {
	ctx, cancel := bounded(stepBound)
	defer cancel()
	return n.node.Block(ctx, protocol, port, on)
}

// SpoilChecksums implements [lang.ChecksumSpoiler].
func (n *netnsNode) SpoilChecksums(on bool) error {
	ctx, cancel := bounded(stepBound)
	defer cancel()
	return n.node.SpoilChecksums(ctx, on)
}

// Disturb implements [Disturber].
func (n *netnsNode) Disturb(d lang.Disturbance) error {
	ctx, cancel := bounded(stepBound)
	defer cancel()
	return n.node.Disturb(ctx, harness.Disturbance(d))
}

// DisturbSegment implements [SegmentDisturber].
func (w *World) DisturbSegment(i int, d lang.Disturbance) error {
	ctx, cancel := bounded(stepBound)
	defer cancel()
	return w.Lab.DisturbSegment(ctx, i, harness.Disturbance(d))
}

// nothingDone marks an error after which there is nothing to undo.
func nothingDone(err error) error {
	if errors.Is(err, harness.ErrNoProxy) {
		return fmt.Errorf("%w: %w", lang.ErrNothingDone, err)
	}
	return err
}

// Second implements [Process].
func (n *netnsNode) Second(on bool) error {
	if !on {
		return n.node.EndSecond()
	}
	ctx, cancel := bounded(stepBound)
	defer cancel()
	return n.node.StartSecond(ctx)
}

// KillAt implements [Process]. It counts the effects that the kernel reports.
func (n *netnsNode) KillAt(boundary int) error { return n.node.KillAtChange(boundary) }

// LoseKey implements [KeyOwner].
func (n *netnsNode) LoseKey() error { return os.Remove(n.node.KeyFile()) }

// HideTUN implements [lang.TUNHider].
func (n *netnsNode) HideTUN(on bool) error {
	n.node.NoTUN = on
	return nil
}

// FullDisk implements [FileEditor].
func (n *netnsNode) FullDisk(f node.File, on bool) error {
	if on {
		return n.node.FillDisk(n.file(f))
	}
	return n.node.FreeDisk(n.file(f))
}

// Meet implements [StoreClient].
func (n *netnsNode) Meet(f lang.Fate, count int) error {
	known := map[lang.Fate]harness.Fate{lang.FateLost: harness.FateLost, lang.FateUnanswered: harness.FateUnanswered,
		lang.FateLate: harness.FateLate}
	return n.world.Lab.Store.Meet(n.node, slices.Repeat([]harness.Fate{known[f]}, count)...)
}

// ForgetToken implements [StoreClient].
func (n *netnsNode) ForgetToken() error {
	ctx, cancel := bounded(stepBound)
	defer cancel()
	return n.world.Lab.Store.ForgetToken(ctx, n.node)
}

// Deny implements [StoreClient].
func (n *netnsNode) Deny(on bool) error {
	ctx, cancel := bounded(stepBound)
	defer cancel()
	return n.world.Lab.Store.Deny(ctx, n.node, on)
}

// LoseData implements [FaultyStore].
func (s *netnsStore) LoseData() error { return s.do(s.Store.Wipe) }

// Leaderless implements [FaultyStore].
func (s *netnsStore) Leaderless(on bool) (err error) {
	ctx, cancel := bounded(stepBound)
	defer cancel()
	switch {
	case on == s.leaderless:
		return nil
	case on && s.stopped:
		return errStopped
	case !on:
		s.stopped, s.leaderless = false, false
		return s.ElectLeader(ctx)
	}
	s.last, err = s.Records()
	if err != nil {
		return err
	}
	s.stopped, s.leaderless = true, true
	return s.LoseLeader(ctx)
}

// Slow implements [FaultyStore].
func (s *netnsStore) Slow(chance float64, by time.Duration) error {
	return nothingDone(s.Disturb(func(c *harness.Chances) { c.Slow, c.SlowBy = chance, by }))
}

// Lossy implements [FaultyStore].
func (s *netnsStore) Lossy(requests, answers float64) error {
	return nothingDone(s.Disturb(func(c *harness.Chances) { c.Request, c.Answer = requests, answers }))
}

// Repeat implements [lang.Rival].
func (n *netnsNode) Repeat(every time.Duration, do func()) (stop func()) {
	end, ended := make(chan struct{}), make(chan struct{})
	tick := time.NewTicker(every)
	go func() {
		defer close(ended)
		defer tick.Stop()
		for {
			select {
			case <-end:
				return
			case <-tick.C:
				do()
			}
		}
	}()
	return func() { close(end); <-ended }
}
