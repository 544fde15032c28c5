package planted

import (
	"time"

	"github.com/flanneld/flannel/core/lease"
	"github.com/flanneld/flannel/core/node"
	"github.com/flanneld/flannel/drivers/sim/daemon"
)

// echoing writes its record again whenever another node has written its own.
func echoing(n daemon.Machine) daemon.Machine { return &answering{Machine: n} }

// answering is a node with a second reason to write.
type answering struct {
	daemon.Machine
	grant   lease.Grant
	seen    int64 // the newest revision of a record of another node
	due     bool
	busy    bool          // a request is under way
	waiting *node.Request // the node's own, until the other request ends
}

func (a *answering) Step(now time.Time, in node.Input) {
	if in.View != nil && in.View.Synced {
		for _, l := range in.View.Snapshot.Leases {
			if l.Key != a.grant.Key && l.ModRevision > a.seen {
				a.seen, a.due = l.ModRevision, true
			}
		}
	}
	if in.Requested != nil {
		a.busy = false
		if in.Requested.Err == nil {
			a.grant = in.Requested.Grant
		}
	}
	a.Machine.Step(now, in)
}

func (a *answering) Ready() node.Effects {
	r := a.Machine.Ready()
	switch {
	case r.Request != nil && a.busy:
		a.waiting, r.Request = r.Request, nil
	case a.waiting != nil && !a.busy:
		a.waiting, r.Request = nil, a.waiting
	case r.Request == nil && !a.busy && a.due && a.Pulse().Phase == node.PhaseReady:
		a.due = false
		r.Request = &node.Request{Verb: node.Update, Grant: a.grant, Attrs: a.grant.Attrs, TTL: a.grant.TTL}
	}
	a.busy = a.busy || r.Request != nil
	return r
}
