package node

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/flanneld/flannel/core/backend"
	"github.com/flanneld/flannel/core/backend/backends"
	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/config"
	"github.com/flanneld/flannel/core/lease"
	"github.com/flanneld/flannel/core/node/transition"
	"github.com/flanneld/flannel/core/uplink"
)

// savedVersion is the version of the state file; other versions are not read.
const savedVersion = 1

// saved is the content of the state file. With it, a restarted daemon works while
// the datastore does not answer, and recognises the objects of the last run.
type saved struct {
	Version  int
	At       time.Time
	Snapshot lease.Snapshot `json:",omitzero"`
	Self     backend.Self
	Host     lease.ByFamily `json:",omitzero"` // the uplink's own addresses, which are published unless another is set
	Uplink   uplink.Memory  `json:",omitzero"`
	Expires  time.Time      // zero: a reservation
	Holding
	Policies bool             `json:",omitempty"`
	Ways     []config.Backend `json:",omitempty"` // the present backend and the former ones
	Began    transition.Began `json:",omitzero"`
	Followed []netip.Prefix   `json:",omitempty"` // see [backends.Set.Recall]

	Lost      []*lease.Lease `json:",omitempty"` // peers that the datastore lost by accident
	LostUntil time.Time      // end of the period for which they are kept

	// Unproven means that the datastore lost the config in force by accident, or may have.
	Unproven bool `json:",omitempty"`

	// Apart is the address space of the other networks of the host, for a network with a name.
	Apart []netip.Prefix `json:",omitempty"`
}

// savedKey changes whenever the state to save changes.
type savedKey struct {
	snap     *lease.Snapshot
	expires  time.Time
	modified int64
	links    int
	networks int
	ports    int
	policies bool
	lost     int
	until    time.Time
	ways     *backends.Set
	began    transition.Began
	host     lease.ByFamily
	choice   string
	apart    string
}

func (n *Node) savedKey() savedKey {
	k := savedKey{
		snap: n.store.snap, links: len(n.host.links), networks: len(n.host.networks), ports: len(n.host.ports),
		policies: n.host.policies,
		lost:     len(n.store.lost.peers), until: n.store.lost.until, ways: n.transition.Set(), began: n.transition.Began(),
		host: n.hostAddrs(), choice: n.underlay.Key(), apart: fmt.Sprint(n.apart()),
	}
	if g := n.lease.grant; g != nil {
		k.expires, k.modified = g.Expires, g.ModRevision
	}
	return k
}

// state returns the state to save, with the config in force. It shares no mutable
// data with the node.
func (n *Node) state() saved {
	snap := *n.store.snap
	snap.Config = n.network.inForce
	memory := n.transition.Memory()
	return saved{
		Version: savedVersion, At: n.now, Snapshot: snap,
		Self:    backend.Self{Key: n.lease.grant.Key, Attrs: n.lease.grant.Attrs},
		Host:    n.hostAddrs(),
		Uplink:  n.underlay.Memory(),
		Expires: n.lease.grant.Expires,
		Holding: n.marks(), Policies: n.host.policies,
		Ways: memory.Backends, Began: memory.Began, Followed: memory.Followed,
		Lost: n.store.lost.peers, LostUntil: n.store.lost.until,
		Unproven: n.store.view.Beside != nil && n.network.history == 0,
		Apart:    n.apart(),
	}
}

// historyOfConfig returns the history of the datastore that held the config; 0: it may have lost it by
// accident.
func (s *saved) historyOfConfig() uint64 {
	if s.Unproven {
		return 0
	}
	return s.Snapshot.History
}

// hostAddrs returns the uplink's own addresses.
func (n *Node) hostAddrs() lease.ByFamily {
	return lease.ByFamily{V4: n.host.uplink.IP, V6: n.host.uplink.IPv6}
}

// addr returns the host's own address of one family: the saved one, or else the
// published one, which in older state files is the same unless an operator set it.
func (s *saved) addr(f cidr.Family) netip.Addr {
	if a := s.Host.Of(f); a.IsValid() {
		return a
	}
	return s.Self.Attrs.IP(f)
}

// leaseRoom is the usual size of a lease in the state file, in bytes.
const leaseRoom = 256

// encode returns the content of the file, as encoding/json would write it: see
// [lease.Snapshot.AppendJSON].
func (s saved) encode() ([]byte, error) {
	rest := s
	rest.Snapshot, rest.Lost = lease.Snapshot{}, nil
	small, err := json.Marshal(rest)
	if err != nil {
		return nil, fmt.Errorf("saving the state: %w", err)
	}
	data := make([]byte, 0, len(small)+(len(s.Snapshot.Leases)+len(s.Lost))*leaseRoom)
	data = append(data, small[:len(small)-1]...)
	data = append(data, `,"Snapshot":`...)
	data, err = s.Snapshot.AppendJSON(data)
	if err == nil && len(s.Lost) > 0 {
		data = append(data, `,"Lost":`...)
		data, err = lease.AppendLeases(data, s.Lost)
	}
	if err != nil {
		return nil, fmt.Errorf("saving the state: %w", err)
	}
	return append(data, '}'), nil
}

// Marks are the marks of the objects that belong to a run.
type Marks struct {
	Holding
	Own      lease.Key // the subnet of the host
	Policies bool      // the run may have made IPsec policies
	Config   []byte    // the network config that was in force
}

// SavedMarks returns the marks that a state file holds. It fails in the cases in which
// a node ignores the file: if it is damaged or of another version.
func SavedMarks(data []byte) (Marks, error) {
	s, err := decodeSaved(data)
	if err != nil {
		return Marks{}, err
	}
	return Marks{Holding: s.Holding, Own: s.Self.Key, Policies: s.Policies, Config: s.Snapshot.Config.Data}, nil
}

// decodeSaved reads what encode wrote.
func decodeSaved(data []byte) (saved, error) {
	var s saved
	err := json.Unmarshal(data, &s)
	if err == nil && s.Version != savedVersion {
		err = fmt.Errorf("version %d, want %d", s.Version, savedVersion)
	}
	if err == nil && (slices.Contains(s.Snapshot.Leases, nil) || slices.Contains(s.Lost, nil)) {
		err = fmt.Errorf("a lease is null")
	}
	return s, err
}

// load takes over the state of the last run. An unreadable file counts as absent:
// it is only a fallback.
func (n *Node) load(data []byte) {
	if len(data) == 0 {
		return
	}
	s, err := decodeSaved(data)
	if err != nil {
		n.event(Warning, "state-unreadable", fmt.Sprintf("state file of the last run is ignored: %v", err))
		return
	}
	n.store.saved = &s
	n.transition.Resume(transition.Saved{Backends: s.Ways, Began: s.Began, Followed: s.Followed})
	n.store.lost = lostRecords{s.Lost, s.LostUntil}
	for _, l := range s.Links {
		n.host.links[l], n.host.handover.saved[l] = true, true
	}
	n.files.named = Holding{Links: s.Links, Networks: slices.Clone(s.Networks), Ports: slices.Clone(s.Ports)}
	n.host.networks, n.host.ports = s.Networks, s.Ports
	n.host.policies = s.Policies
}
