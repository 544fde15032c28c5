package node

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"maps"

	"github.com/flanneld/flannel/core/backend"
	"github.com/flanneld/flannel/core/lease"
)

// savedVersion is raised when the form changes; other versions are not read.
const savedVersion = 1

// saved is the content of the state file: what a restart needs to go on while
// the datastore does not answer, and to recognise what the last run made.
type saved struct {
	Version  int
	At       time.Time
	Snapshot lease.Snapshot
	Self     backend.Self
	Expires  time.Time // zero: a reservation
	Links    []string
	Networks []netip.Prefix
}

// savedKey tells whether there is something new to save.
type savedKey struct {
	snap     *lease.Snapshot
	expires  time.Time
	modified int64
	links    int
}

func (n *Node) savedKey() savedKey {
	k := savedKey{snap: n.store.snap, links: len(n.host.links)}
	if g := n.lease.grant; g != nil {
		k.expires, k.modified = g.Expires, g.ModRevision
	}
	return k
}

// state is what there is to save now. It shares nothing with the node that
// will change.
func (n *Node) state() saved {
	return saved{
		Version: savedVersion, At: n.now, Snapshot: *n.store.snap,
		Self:    backend.Self{Key: n.lease.grant.Key, Attrs: n.lease.grant.Attrs},
		Expires: n.lease.grant.Expires,
		Links:   slices.Sorted(maps.Keys(n.host.links)), Networks: slices.Clone(n.host.networks),
	}
}

func (s saved) encode() ([]byte, error) {
	data, err := json.Marshal(s)
	if err != nil {
		return nil, fmt.Errorf("saving the state: %w", err)
	}
	return data, nil
}

// load takes a former run's state. A file that cannot be read is as good as
// none: it is only ever a fallback.
func (n *Node) load(data []byte) {
	if len(data) == 0 {
		return
	}
	var s saved
	err := json.Unmarshal(data, &s)
	if err == nil && s.Version != savedVersion {
		err = fmt.Errorf("version %d, want %d", s.Version, savedVersion)
	}
	if err == nil && slices.Contains(s.Snapshot.Leases, nil) {
		err = fmt.Errorf("a lease is null")
	}
	if err != nil {
		n.event(Warning, "state-unreadable", fmt.Sprintf("state file of the last run is ignored: %v", err))
		return
	}
	n.store.saved = &s
	for _, l := range s.Links {
		n.host.links[l] = true
	}
	n.host.networks = s.Networks
}
