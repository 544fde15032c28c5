package node

import (
	"fmt"
	"slices"
	"time"

	"github.com/flanneld/flannel/core/lease"
	"github.com/flanneld/flannel/core/uplink"
)

// Phase is how far a node's life has come.
type Phase uint8

// The phases, each of which includes the ones before it.
const (
	Idle       Phase = iota // no valid network config yet
	Configured              // config and backend are known
	Leased                  // a subnet is held
	Programmed              // the last diff was empty
	Live                    // and the store is synced, and the subnet file says so
)

// String returns the phase in lower case; the last one is "ready".
func (p Phase) String() string {
	return [...]string{"idle", "configured", "leased", "programmed", "ready"}[p]
}

// Status is what an operator or a test may want to know of a node.
type Status struct {
	Phase       Phase
	Ready       bool
	Reasons     []string // why not ready, most basic first
	Subnet      lease.Key
	Backend     string
	Uplink      uplink.Uplink
	MTU         int
	Synced      bool
	Stale       bool  // working from what a former run saved
	Fenced      bool  // programmed for a subnet that may not be ours any more
	Revision    int64 // of the snapshot in force
	Programmed  int64 // of the snapshot that the host was last found to agree with
	Peers       int
	Quarantined int
	Problems    []string     // peers that cannot be served
	PacketPaths []PacketPath // that this process runs itself, as of the last look
	Objects     int          // wanted on the host
	Withheld    int          // deletes that wait for the store
	Expires     time.Time    // of the lease; zero: never, or none held
	RenewBy     time.Time
	Notes       []string // that may matter to an operator; they keep no node from being ready
	FailingFor  int      // plans or looks in a row that did not lead to an empty diff
}

// Status describes the node as of the last Step.
func (n *Node) Status() Status {
	s := Status{
		Subnet: n.lease.self.Key, Uplink: n.host.uplink, Synced: n.synced(), Stale: n.store.stale,
		Fenced: n.fenced(), Withheld: n.host.withheld, FailingFor: n.host.attempts,
		Programmed: n.host.programmed, RenewBy: n.lease.renewAt,
	}
	if want := n.host.want.state; want != nil {
		s.Objects = want.Len()
	}
	if snap := n.store.snap; snap != nil {
		s.Revision, s.Quarantined = snap.Revision, len(snap.Quarantined)
		for _, l := range snap.Leases {
			if !n.isSelf(l) {
				s.Peers++
			}
		}
	}
	if n.network.known {
		s.Backend = n.network.backend.Type()
		if n.host.uplink.Link != "" {
			s.MTU = n.mtu()
		}
	}
	if g := n.lease.grant; g != nil {
		s.Expires = g.Expires
	}
	s.PacketPaths = n.host.paths
	s.Notes = slices.Concat(n.host.notes, n.wall.notes)
	for _, p := range n.host.problems {
		s.Problems = append(s.Problems, p.String())
	}
	s.Phase = n.phase()
	s.Reasons = n.reasons()
	s.Ready = s.Phase == Live
	return s
}

// Holding is the subnet that the host is programmed for with the right to it,
// as far as the node knows; false while it is fenced or has none.
func (n *Node) Holding() (lease.Key, bool) {
	l := &n.lease
	if l.grant == nil || l.expired || l.grant.Key != l.self.Key {
		return lease.Key{}, false
	}
	return l.self.Key, true
}

func (n *Node) phase() Phase {
	_, holds := n.Holding()
	switch {
	case !n.network.known:
		return Idle
	case !holds:
		return Configured
	case !n.host.clean:
		return Leased
	case len(n.reasons()) > 0:
		return Programmed
	}
	return Live
}

// reasons say what keeps a node from being ready: not synced, or a last diff
// that was not empty, or a subnet file that does not tell the truth.
func (n *Node) reasons() []string {
	var rs []string
	say := func(bad bool, format string, args ...any) {
		if bad {
			rs = append(rs, fmt.Sprintf(format, args...))
		}
	}
	say(n.store.snap == nil, "the datastore has not answered yet%s", because(n.store.view.Err))
	say(n.store.stale, "stale: working from saved leases, the datastore does not answer%s", because(n.store.view.Err))
	say(n.store.snap != nil && !n.store.stale && !n.store.view.Synced, "the datastore does not answer%s", because(n.store.view.Err))
	say(n.store.snap != nil && n.synced() && n.host.withheld > 0, "%d objects of peers that left are still to be deleted", n.host.withheld)
	say(n.network.err != nil, "%v", n.network.err)
	if !n.network.known {
		return rs
	}
	say(n.host.noUplink != nil, "uplink: %v", n.host.noUplink)
	say(n.fenced(), "fenced: subnet %s may belong to somebody else", n.lease.self.Key)
	say(n.lease.grant == nil, "no lease is held")
	say(n.lease.trouble != nil, "lease: %v", n.lease.trouble)
	say(n.host.lookErr != nil, "cannot read the host: %v", n.host.lookErr)
	for _, c := range n.host.conflicts {
		say(true, "conflict: %v", c)
	}
	for _, f := range n.host.failures {
		say(true, "%v", f)
	}
	say(!n.host.clean && len(n.host.failures) == 0, "the host is not yet as it should be")
	rs = append(rs, n.firewallReasons()...)
	say(n.subnetFile() != nil && string(n.files.subnet) != string(n.subnetFile()), "the subnet file is not written: %v", n.files.errs[SubnetFile])
	return rs
}

// because adds a cause to a sentence, if one is known.
func because(err error) string {
	if err == nil {
		return ""
	}
	return ": " + err.Error()
}
