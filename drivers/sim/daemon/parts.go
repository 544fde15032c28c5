package daemon

import (
	"time"

	"github.com/flanneld/flannel/core/driver"
	"github.com/flanneld/flannel/core/lease"
	"github.com/flanneld/flannel/core/node"
	"github.com/flanneld/flannel/drivers/sim/store"
)

// Parts are the parts of a process. A test that watches a process closely, or
// plants a defect in it, wraps them.
type Parts struct {
	Node   Machine
	Lanes  [node.LaneCount]driver.Lane
	Client Requester
}

// Machine is the life of a node: a [node.Node], or a wrapper of one.
type Machine interface {
	Step(now time.Time, in node.Input)
	Ready() node.Effects
	Status() node.Status
	Peers() []node.Peer
	Differences() []node.Difference
	Tables() []node.Tables
	Pulse() node.Pulse
	Holding() (lease.Key, bool)
}

// Requester is the part of a [store.Client] that a process uses.
type Requester interface {
	View() lease.View
	Do(req node.Request, done func(node.Requested))
}

var (
	_ Machine   = (*node.Node)(nil)
	_ Requester = (*store.Client)(nil)
)

// Halted reports whether the process is halted.
func (d *Daemon) Halted() bool { return d.process != nil && d.process.halted }

// Stopping reports whether the process was asked to end and has not ended yet.
func (d *Daemon) Stopping() bool { return d.process != nil && d.process.stopping }
