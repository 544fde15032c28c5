package search

import (
	"time"

	"github.com/flanneld/flannel/core/backend/extension"
)

// commandFaults returns the faults of the operator's commands.
func commandFaults() []fault {
	all := []fault{
		one("commands-broken", "fault N commands broken"),
		{name: "commands-slow", weight: 2, draw: func(d *drawing) []Step {
			slow := d.within(100*time.Millisecond, 5*time.Second, time.Minute) // the last one exceeds the limit
			return []Step{{Line: d.fill("fault N commands slow=") + slow}}
		}},
		several("rebooted", at(0, "fault N reboot"), at(0, "start N")),
	}
	for i := range all {
		all[i].fits = func(s shape) bool { return s.backend == extension.Type }
	}
	return all
}
