package transition

import (
	"time"

	"github.com/flanneld/flannel/core/backend"
	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/lease"
)

// Facts are what a decision depends on, as of a moment.
type Facts struct {
	Now     time.Time
	Own     Own
	Records Records
	Host    Host
	Beside  bool // the host runs other networks, too
}

// Own holds the attributes of this node that peers may have read.
type Own struct {
	Held *lease.Attrs   // of the record that the node holds; nil: none
	Sent []*lease.Attrs // of writes whose outcome is not known
}

// Records are the records of the datastore. Equal members mean equal records and an equal rendering.
type Records struct {
	Snapshot *lease.Snapshot // nil: none yet
	Lost     []*lease.Lease  // records that the datastore lost by accident
	Want     *dataplane.State
	Source   Source
}

// Source answers what takes time to find out.
type Source interface {
	Peers() []*lease.Lease     // to serve, sorted by key
	Last() (lease.Attrs, bool) // of the node's record: the one that it holds, or that an earlier run has left
	Env() backend.Env          // for a rendering
	Self() backend.Self        // for which the host is programmed
	Undisputed() backend.Self  // the same without halves that another node may hold
}

// Host holds the results of the last looks.
type Host struct {
	Have        *dataplane.State // of the kernel; nil: not known
	Filter      *dataplane.State // of the packet filter; nil: not known
	FilterNotes []string         // why the filter lacks rules
	FilterFails bool             // the node has tried, and cannot make the filter hold the guards
}
