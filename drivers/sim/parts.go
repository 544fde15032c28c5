package sim

import (
	"strings"
	"time"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/driver"
	"github.com/flanneld/flannel/core/lease"
	"github.com/flanneld/flannel/core/node"
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
	_ Requester = (*StoreClient)(nil)
)

// StoreWrite is a change of one record below the subnets.
type StoreWrite struct {
	Client   string // whose it was; "" for an operator and for the end of a TTL
	Expired  bool   // by the end of a TTL
	Key      string // the last part of the store's key
	Old, New *StoreRecord
}

// StoreRecord is a record as it stands, or stood, in the store.
type StoreRecord struct {
	Value    string
	Lease    lease.Lease // meaningful if Flaw is empty
	Flaw     string      // why the value is no lease
	Expiring bool        // it has a TTL
}

// OnWrite hands every change of a record below the subnets, and of the config
// under the key "config", to fn after it was made; nil ends it. Whoever
// listens must not change the world.
func (s *Store) OnWrite(fn func(StoreWrite)) { s.written = fn }

// by lets fn act in the name of a client.
func (s *Store) by(client string, fn func()) {
	s.writer = client
	fn()
	s.writer = ""
}

// tell reports a change to who listens.
func (s *Store) tell(key string, old, now *storeRecord) {
	name, subnet := strings.CutPrefix(key, s.full("subnets/"))
	if key == s.configKey() {
		name = "config"
	} else if !subnet {
		return
	}
	if s.written != nil {
		s.written(StoreWrite{Client: s.writer, Expired: s.expiring, Key: name, Old: old.told(), New: now.told()})
	}
}

func (r *storeRecord) told() *StoreRecord {
	if r == nil {
		return nil
	}
	return &StoreRecord{Value: string(r.value), Lease: r.lease, Flaw: r.flaw, Expiring: r.ttl != nil}
}

// Overwrite is Do for a Renew or an Update that puts the record as upstream
// does: whoever has the key (interop E5), and a reservation with a TTL (interop
// E4). It is there for defects to be planted with.
func (c *StoreClient) Overwrite(req node.Request, done func(node.Requested)) {
	x := c.exchange(req, done)
	x.act = func() (g lease.Grant, err error) {
		if err := c.refused(); err != nil {
			return g, err
		}
		t := c.store.grant(req.TTL)
		c.store.by(c.name, func() {
			g.Lease = c.store.put(c.store.subnetKey(req.Grant.Key), lease.EncodeAttrs(req.Attrs), t).lease
		})
		g.TTL, g.Expires = t.length, x.began.Add(t.length)
		return g, nil
	}
	x.decide()
}

// Route is what the main table holds under a key; of several, the first.
func (h *Host) Route(k dataplane.RouteKey) (dataplane.Route, bool) {
	for _, r := range h.stack.fibs[cidr.FamilyOf(k.Dst.Addr())].at(k.Dst) {
		if v := r.value(); v.RouteKey == k {
			return v, true
		}
	}
	return dataplane.Route{}, false
}

// Halted reports whether the process stands still.
func (d *Daemon) Halted() bool { return d.process != nil && d.process.halted }

// Stopping reports whether the process was asked to end and has not yet.
func (d *Daemon) Stopping() bool { return d.process != nil && d.process.stopping }
