package following

import (
	"slices"
	"sync"
	"time"

	"github.com/flanneld/flannel/internal/wake"
)

// NetworksEvery is the time between two looks for the names of networks.
const NetworksEvery = 5 * time.Second

// Networks are the names of the networks in a datastore, as of the last look for them.
type Networks struct {
	changed wake.Signal

	mu       sync.Mutex
	names    []string
	revision int64
	synced   bool
}

// NewNetworks returns names that are not known yet.
func NewNetworks() *Networks { return &Networks{changed: wake.NewSignal()} }

// Names returns the names and the revision at which they stand. Synced is false while the
// datastore does not answer.
func (n *Networks) Names() (names []string, revision int64, synced bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.names, n.revision, n.synced
}

// Changed receives a value after Names has changed. It is coalesced.
func (n *Networks) Changed() <-chan struct{} { return n.changed }

// Take records the result of a look. After one that failed, the last names stand, but are not synced.
func (n *Networks) Take(names []string, revision int64, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	synced := err == nil
	if synced == n.synced && (!synced || slices.Equal(names, n.names)) {
		return
	}
	n.synced = synced
	if synced {
		n.names, n.revision = names, revision
	}
	n.changed.Send()
}
