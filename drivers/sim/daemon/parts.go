package daemon

import (
	"time"

	"github.com/flanneld/flannel/core/driver"
	"github.com/flanneld/flannel/core/lease"
	"github.com/flanneld/flannel/core/node"
	"github.com/flanneld/flannel/drivers/sim/store"
)

// Parts are what a process is put together from. Whoever wants to watch one
// closely, or to plant a defect in it, puts something around them.
type Parts struct {
	Node   Machine
	Lanes  [node.LaneCount]driver.Lane
	Client Requester
}

// Machine is the life of a node: a [node.Node], or something around one.
type Machine interface {
	Step(now time.Time, in node.Input)
	Ready() node.Effects
	Status() node.Status
	Holding() (lease.Key, bool)
}

// Requester is the part of a [StoreClient] that a process works with.
type Requester interface {
	View() lease.View
	Do(req node.Request, done func(node.Requested))
}

var (
	_ Machine   = (*node.Node)(nil)
	_ Requester = (*store.Client)(nil)
)

// Halted reports whether the process stands still.
func (d *Daemon) Halted() bool { return d.process != nil && d.process.halted }

// Stopping reports whether the process was asked to end and has not yet.
func (d *Daemon) Stopping() bool { return d.process != nil && d.process.stopping }
