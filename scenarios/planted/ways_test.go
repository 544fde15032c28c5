package planted

import (
	"maps"

	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/scenarios/search"
)

// changes are the steps of a whole change of the backend.
var changes = []search.Step{
	{Line: "heal"}, {Line: "settle within=2m"},
	{Line: "pause N"}, {Line: "store merge", Input: `{"Backend":{"VNI":9}}`},
	{Line: "pass 5s"}, {Line: "resume N"}, {Line: "pass 1m"}, {Line: "store end-change"}, {Line: "pass 2m"},
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
