package scenarios

import (
	"fmt"
	"slices"
	"time"

	"github.com/flanneld/flannel/core/lease"
	"github.com/flanneld/flannel/core/node"
	"github.com/flanneld/flannel/core/subnetfile"
	"github.com/flanneld/flannel/harness"
)

// Holds implements [Faults].
func (n *netnsNode) Holds() lease.Key { return subnetfile.Previous([]byte(n.SubnetFile())) }

// PartFrom implements [Faults].
func (n *netnsNode) PartFrom(other string, on bool) error {
	o, ok := n.world.nodes[other]
	if !ok {
		return fmt.Errorf("no node %q", other)
	}
	ctx, cancel := bounded(stepBound)
	defer cancel()
	return n.node.PartFrom(ctx, o.node, on)
}

// Disturb implements [Faults].
func (n *netnsNode) Disturb(d disturbance) error {
	how, err := d.ofKernel()
	if err != nil {
		return err
	}
	ctx, cancel := bounded(stepBound)
	defer cancel()
	return n.node.Disturb(ctx, how)
}

// DisturbSegment implements [World].
func (w *NetnsWorld) DisturbSegment(i int, d disturbance) error {
	how, err := d.ofKernel()
	if err != nil {
		return err
	}
	ctx, cancel := bounded(stepBound)
	defer cancel()
	return w.Lab.DisturbSegment(ctx, i, how)
}

// ofKernel is what a kernel can do: it drops packets but holds none back, for
// which it would want the queueing discipline netem.
func (d disturbance) ofKernel() (harness.Disturbance, error) {
	if d.reorder != 0 || d.duplicate != 0 || d.latency != 0 || d.jitter != 0 {
		return harness.Disturbance{}, fmt.Errorf("reorder, duplicate, latency, jitter: %w", errOnlySim)
	}
	return harness.Disturbance{Loss: d.loss, MTU: d.mtu}, nil
}

// Second implements [Faults].
func (n *netnsNode) Second(on bool) error {
	if !on {
		return n.node.EndSecond()
	}
	ctx, cancel := bounded(stepBound)
	defer cancel()
	return n.node.StartSecond(ctx)
}

// KillAt implements [Faults]. The effects are those that the kernel tells of.
func (n *netnsNode) KillAt(boundary int) error { return n.node.KillAtChange(boundary) }

// FullDisk implements [Faults].
func (n *netnsNode) FullDisk(f node.File, on bool) error {
	if on {
		return n.node.FillDisk(n.file(f))
	}
	return n.node.FreeDisk(n.file(f))
}

// Meet implements [Faults].
func (n *netnsNode) Meet(f fate, count int) error {
	known := map[fate]harness.Fate{fateLost: harness.FateLost, fateUnanswered: harness.FateUnanswered, fateLate: harness.FateLate}
	return n.world.Lab.Store.Meet(n.node, slices.Repeat([]harness.Fate{known[f]}, count)...)
}

// ForgetToken implements [Faults].
func (n *netnsNode) ForgetToken() error {
	ctx, cancel := bounded(stepBound)
	defer cancel()
	return n.world.Lab.Store.ForgetToken(ctx, n.node)
}

// Deny implements [Faults].
func (n *netnsNode) Deny(on bool) error {
	ctx, cancel := bounded(stepBound)
	defer cancel()
	return n.world.Lab.Store.Deny(ctx, n.node, on)
}

// LoseData implements [storeFaults].
func (s *netnsStore) LoseData() error { return s.do(s.Store.Wipe) }

// Leaderless implements [storeFaults].
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
	if s.last, err = s.Records(); err != nil {
		return err
	}
	s.stopped, s.leaderless = true, true
	return s.LoseLeader(ctx)
}

// Slow implements [storeFaults].
func (s *netnsStore) Slow(chance float64, by time.Duration) error {
	return s.Disturb(func(c *harness.Chances) { c.Slow, c.SlowBy = chance, by })
}

// Lossy implements [storeFaults].
func (s *netnsStore) Lossy(requests, answers float64) error {
	return s.Disturb(func(c *harness.Chances) { c.Request, c.Answer = requests, answers })
}
