package scenarios

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/flanneld/flannel/core/lease"
	"github.com/flanneld/flannel/core/node"
	"github.com/flanneld/flannel/core/subnetfile"
	"github.com/flanneld/flannel/drivers/sim"
)

// Carrier implements [Node].
func (n *simNode) Carrier(on bool) error { return n.Host.Carrier("eth0", on) }

// File implements [Node].
func (n *simNode) File(f node.File) ([]byte, error) {
	data, _ := n.daemon.File(f)
	return data, nil
}

// SetFile implements [Node].
func (n *simNode) SetFile(f node.File, data []byte) error {
	n.daemon.SetFile(f, data)
	return nil
}

func (n *simNode) refuseLooks(probability float64) { n.RefuseLooks(probability) }
func (n *simNode) loseHints(probability float64)   { n.LoseHints(probability) }

// PartFrom implements [Faults].
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

// Disturb implements [Faults].
func (n *simNode) Disturb(d disturbance) error {
	w := n.Wire("eth0")
	if w == nil {
		return fmt.Errorf("%s has no uplink", n.Name())
	}
	d.on(w)
	return nil
}

// DisturbSegment implements [World].
func (w *SimWorld) DisturbSegment(i int, d disturbance) error {
	if i < 0 || i >= len(w.segments) {
		return fmt.Errorf("no segment%d; there are segment0 to segment%d", i, len(w.segments)-1)
	}
	for _, wire := range w.segments[i].Wires() {
		d.on(wire)
	}
	return nil
}

// on does it to a wire, in place of what was before; latency comes on top of
// the wire's own.
func (d disturbance) on(w *sim.Wire) {
	w.Loss, w.Reorder, w.Duplicate = d.loss, d.reorder, d.duplicate
	w.Jitter, w.MTU = d.jitter, d.mtu
	w.Latency = sim.UnderlayLatency + d.latency
}

// Holds implements [Faults].
func (n *simNode) Holds() lease.Key {
	if key := n.daemon.Status().Subnet; key.IsValid() {
		return key
	}
	return subnetfile.Previous([]byte(n.SubnetFile()))
}

// Second implements [Faults]. When the other one ends the node's own daemon
// starts anew, since it cannot know what became of its files.
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
	n.twinned = true
	if n.second == nil {
		n.second = n.daemon.Second()
	}
	n.second.Start()
	return nil
}

// KillAt implements [Faults].
func (n *simNode) KillAt(boundary int) error {
	n.daemon.KillAtBoundary(boundary)
	return nil
}

// errDiskFull is what a write comes to on a full disk.
var errDiskFull = errors.New("no space left on device")

// FullDisk implements [Faults].
func (n *simNode) FullDisk(f node.File, on bool) error {
	n.daemon.FailWrites(f, nil)
	if on {
		n.daemon.FailWrites(f, errDiskFull)
	}
	return nil
}

// client is the running daemon's connection to the store.
func (n *simNode) client() (*sim.StoreClient, error) {
	if c := n.daemon.Client(); c != nil {
		return c, nil
	}
	return nil, errNoDaemon
}

// Meet implements [Faults].
func (n *simNode) Meet(f fate, count int) error {
	c, err := n.client()
	if err != nil {
		return err
	}
	known := map[fate]sim.StoreFate{fateLost: sim.FateLoseRequest, fateUnanswered: sim.FateLoseAnswer, fateLate: sim.FateLate}
	c.Next(slices.Repeat([]sim.StoreFate{known[f]}, count)...)
	return nil
}

// ForgetToken implements [Faults].
func (n *simNode) ForgetToken() error {
	c, err := n.client()
	if err == nil {
		c.ExpireToken()
	}
	return err
}

// Deny implements [Faults].
func (n *simNode) Deny(on bool) error {
	n.world.storage.Deny(n.Name(), on)
	return nil
}

// LoseData implements [storeFaults].
func (s simStore) LoseData() error { s.Store.LoseData(); return nil }

// Leaderless implements [storeFaults].
func (s simStore) Leaderless(on bool) error {
	if on {
		s.LoseLeader(forever)
	} else {
		s.ElectLeader()
	}
	return nil
}

// Slow implements [storeFaults].
func (s simStore) Slow(chance float64, by time.Duration) error {
	f := s.Faults()
	f.Slow, f.SlowBy = chance, by
	s.SetFaults(f)
	return nil
}

// Lossy implements [storeFaults].
func (s simStore) Lossy(requests, answers float64) error {
	f := s.Faults()
	f.LoseRequest, f.LoseAnswer = requests, answers
	s.SetFaults(f)
	return nil
}
