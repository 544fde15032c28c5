package planted

import (
	"maps"

	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/lease"
	"github.com/flanneld/flannel/scenarios/search"
)

// These are the steps of a change of the backend: a whole one, and one in which a node
// stalls after it has offered wireguard.
var (
	changes = []search.Step{
		{Line: "heal"}, {Line: "settle within=2m"},
		{Line: "pause N"}, {Line: "store merge", Input: `{"Backend":{"VNI":9}}`},
		{Line: "pass 5s"}, {Line: "resume N"}, {Line: "pass 1m"},
	}
	sleepers = []search.Step{
		{Line: "heal"}, {Line: "settle within=2m"}, {Line: "pass 80s"},
		{Line: "pause N"}, {Line: "store merge", Input: `{"Backend":{"Type":"wireguard"}}`},
		{Line: "pass 2s"}, {Line: "pause M"}, {Line: "resume N"}, {Line: "pass 20s"}, {Line: "resume M"},
	}
)

// former returns a defect that changes the former ways in the records that a node reads.
func former(change func([]lease.FormerWay) []lease.FormerWay) func() func(lease.Snapshot) lease.Snapshot {
	return func() func(lease.Snapshot) lease.Snapshot {
		return func(s lease.Snapshot) lease.Snapshot {
			for _, l := range s.Leases {
				l.Attrs.Ways.Former = change(l.Attrs.Ways.Former)
			}
			return s
		}
	}
}

// unread reads no former way.
func unread([]lease.FormerWay) []lease.FormerWay { return nil }

// deserted takes each for one by which its owner does not send any more.
func deserted(ways []lease.FormerWay) []lease.FormerWay {
	var changed []lease.FormerWay
	for _, w := range ways {
		w.Unused = true
		changed = append(changed, w)
	}
	return changed
}

// clinging keeps devices, and believes that they are gone.
func clinging() *body {
	gone := map[string]bool{}
	return &body{
		observe: func(s *dataplane.State) *dataplane.State {
			maps.DeleteFunc(s.Links, func(name string, _ dataplane.Link) bool { return gone[name] })
			return s
		},
		apply: func(op dataplane.Op) (dataplane.Op, bool) {
			l, ok := op.Object.(dataplane.Link)
			if !ok {
				return op, true
			}
			gone[l.Name] = op.Verb == dataplane.Delete
			return op, op.Verb != dataplane.Delete
		},
	}
}

// credulous takes every WireGuard peer for one with a session.
func credulous() *body {
	return &body{
		observe: func(s *dataplane.State) *dataplane.State {
			for key := range s.WGPeers.All {
				s.Alive[key] = struct{}{}
			}
			return s
		},
	}
}
