package networks

import (
	"maps"
	"slices"
	"time"

	"github.com/flanneld/flannel/core/node"
)

// RetryPause is the time between the failure of a network's node and the start of a new one
// (interop 1.7: a network that fails begins again).
const RetryPause = time.Second

// Crew decides which networks a process runs. It is a value without state: the process keeps its nodes.
type Crew struct {
	Only       []string // the names of --networks; empty: any, with Watch
	Watch      bool     // the networks come and go as their configs do
	ExitOnLoss bool     // a lost lease ends the process
}

// Runs reports whether the process runs a network of that name.
func (c Crew) Runs(name string) bool {
	return CheckName(name) == nil && (len(c.Only) == 0 || slices.Contains(c.Only, name))
}

// Begin returns the networks with which a process begins: the listed ones or, with Watch, those of which
// a former run left files. Their configs may have gone since.
func (c Crew) Begin(former []string) []string {
	if !c.Watch {
		return c.Only
	}
	return c.own(former)
}

// Follow takes in the networks that the datastore holds, and the present nodes, each with whether it
// waits for a config. It returns the networks whose nodes begin, and those whose nodes end because
// their networks are not there and nothing of them is left on the host.
func (c Crew) Follow(held []string, idle map[string]bool) (begin, end []string) {
	for _, name := range slices.Sorted(maps.Keys(idle)) {
		if idle[name] && !slices.Contains(held, name) {
			end = append(end, name)
		}
	}
	for _, name := range c.own(held) {
		if _, runs := idle[name]; !runs {
			begin = append(begin, name)
		}
	}
	return begin, end
}

// own returns those of the names that the process runs, sorted.
func (c Crew) own(names []string) []string {
	own := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return !c.Runs(name) })
	slices.Sort(own)
	return slices.Compact(own)
}

// Next says what follows the end of a network's node.
type Next uint8

const (
	// Exit ends the process.
	Exit Next = iota
	// Leave ends the membership of the network.
	Leave
	// Wait starts a new node at once, which waits for a config. The host may give the claims of the network
	// to others.
	Wait
	// Retry starts a new node after RetryPause.
	Retry
)

// After returns what follows the end of a node that the process did not ask to end.
func (c Crew) After(exit node.Exit) Next {
	switch {
	case c.ExitOnLoss && exit.Status != 0:
		return Exit
	case exit.Removed && c.Watch:
		return Leave
	case exit.Removed:
		return Wait
	}
	return Retry
}
