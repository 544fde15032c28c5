package agent

import (
	"cmp"
	"slices"
	"sync"
)

// Roster lists the nodes of a process, by the names of their networks. Networks may come and go while
// it is in use. Several goroutines may use it at once.
type Roster struct {
	mu      sync.Mutex
	nodes   []*Health // replaced as a whole
	waiting string
}

// NewRoster returns a roster with these nodes.
func NewRoster(nodes ...*Health) *Roster {
	r := &Roster{}
	for _, h := range nodes {
		r.Add(h)
	}
	return r
}

// Add adds a node.
func (r *Roster) Add(h *Health) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.nodes = append(slices.Clone(r.nodes), h)
	slices.SortFunc(r.nodes, func(a, b *Health) int { return cmp.Compare(a.Network, b.Network) })
}

// Remove removes a node.
func (r *Roster) Remove(h *Health) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.nodes = slices.DeleteFunc(slices.Clone(r.nodes), func(o *Health) bool { return o == h })
}

// All returns the nodes of the moment, sorted.
func (r *Roster) All() []*Health {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.nodes
}

// Wait says why the list may lack nodes, so that the process is not ready; "": it lacks none.
func (r *Roster) Wait(reason string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.waiting = reason
}

// Waiting returns the reason of the last Wait.
func (r *Roster) Waiting() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.waiting
}
