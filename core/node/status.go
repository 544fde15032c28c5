package node

import (
	"bytes"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"time"

	"github.com/flanneld/flannel/core/backend"
	"github.com/flanneld/flannel/core/command"
	"github.com/flanneld/flannel/core/lease"
	"github.com/flanneld/flannel/core/probe"
	"github.com/flanneld/flannel/core/uplink"
)

// Phase is a stage of a node's life.
type Phase uint8

// The phases, each of which includes the ones before it.
const (
	PhaseIdle       Phase = iota // no valid network config yet
	PhaseConfigured              // config and backend are known
	PhaseLeased                  // a subnet is held
	PhaseProgrammed              // the last diff was empty
	PhaseReady                   // the store is synced and the subnet file is written
)

var phaseNames = [...]string{"idle", "configured", "leased", "programmed", "ready"}

// String returns the phase in lower case.
func (p Phase) String() string { return phaseNames[p] }

// MarshalText returns the phase in lower case.
func (p Phase) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// UnmarshalText reads what MarshalText wrote.
func (p *Phase) UnmarshalText(text []byte) error {
	i := slices.Index(phaseNames[:], string(text))
	if i < 0 {
		return fmt.Errorf("unknown phase %q", text)
	}
	*p = Phase(i)
	return nil
}

// Pulse is the part of a node's status that its supervisor watches. It is cheap
// enough for every Step.
type Pulse struct {
	Phase      Phase
	Reasons    []string  // why the node is not ready, most basic first
	Subnet     lease.Key // the one that the host is programmed for
	Programmed int64     // revision of the snapshot for which the host's last diff was empty; 0: none
	FailingFor int       // looks and plans of the host in a row that did not lead to an empty diff
	Expires    time.Time // of the lease; zero: never, or none is held
	RenewBy    time.Time // time of the next renewal; zero: none is planned
	// Unusable means that the datastore answers and holds no config that the node can use, and that no
	// earlier one is in force: only an operator can help.
	Unusable bool
	Holds    Holding
}

// Holding names what a node treats as its own on the host, by present and former configs, of this run or
// an earlier one, or would treat so after a restart.
type Holding struct {
	Links    []string
	Networks []netip.Prefix
	Ports    []backend.UDPPort // of its devices
	AtRest   bool              `json:"-"` // the host is as desired: what is left of former configs may stay
}

// Status describes a node to operators and tests. The daemon serves its JSON form
// at /status.
type Status struct {
	Network     string        `json:"Network,omitempty"` // its name; empty for the unnamed one
	Phase       Phase         `json:"Phase"`
	Subnet      lease.Key     `json:"Subnet"`      // the one that the host is programmed for
	Ready       bool          `json:"Ready"`       // the phase is PhaseReady
	Reasons     []string      `json:"Reasons"`     // why the node is not ready, most basic first
	Backend     string        `json:"Backend"`     // the type in the network config
	Change      *Change       `json:"Change"`      // of the backend, while one is under way
	Uplink      uplink.Uplink `json:"Uplink"`      // the external interface
	MTU         int           `json:"MTU"`         // of the overlay, in bytes
	Synced      bool          `json:"Synced"`      // the leases in force follow the datastore
	StoreFault  lease.Fault   `json:"StoreFault"`  // why the datastore fails, if that is known
	Stale       bool          `json:"Stale"`       // the leases in force were saved by the last run
	Fenced      bool          `json:"Fenced"`      // the subnet may belong to another node by now
	Revision    int64         `json:"Revision"`    // of the snapshot in force
	Programmed  int64         `json:"Programmed"`  // of the snapshot for which the host's last diff was empty
	Peers       int           `json:"Peers"`       // records of other nodes
	Quarantined int           `json:"Quarantined"` // records that cannot be decoded
	Problems    []string      `json:"Problems"`    // peers that cannot be served
	Outputs     []string      `json:"Outputs"`     // of failed commands; they may name secrets, so only root gets them
	PacketPaths []PacketPath  `json:"PacketPaths"` // run by this process, as of the last look
	Objects     int           `json:"Objects"`     // desired on the host
	Withheld    int           `json:"Withheld"`    // deletes that wait for the datastore
	Expires     time.Time     `json:"Expires"`     // end of the lease; zero: never, or none is held
	RenewBy     time.Time     `json:"RenewBy"`     // time of the next renewal; zero: none is planned
	Notes       []string      `json:"Notes"`       // for operators; they keep no node from being ready
	PeersBy     PeerCounts    `json:"PeersBy"`     // the peers by state
	SubnetsBy   []SubnetCount `json:"SubnetsBy"`   // subnets by family; none if the datastore assigns them
	SyncedAt    time.Time     `json:"SyncedAt"`    // last time when Synced was true; zero: never
	NoForward   []string      `json:"NoForward"`   // why packets between pods are not forwarded
	Firewall    string        `json:"Firewall"`    // the tools of the rules; empty: no rules are desired
	Repairs     []Repair      `json:"Repairs"`     // the last ones, newest first
	FailingFor  int           `json:"FailingFor"`  // looks and plans of the host since its last empty diff
	Lanes       []LaneStatus  `json:"Lanes"`       // the parts of the host
	Probes      probe.Summary `json:"Probes"`      // whether the peers answer
	// The supervisor fills in the following fields.
	Unhealthy    []string      `json:"Unhealthy"`    // reasons for a restart
	Version      string        `json:"Version"`      // of the program
	TakenAt      time.Time     `json:"TakenAt"`      // time of this status; zero: there is none yet
	UnreadySince time.Time     `json:"UnreadySince"` // time since which the node is not ready; zero: it is, or unknown
	Age          time.Duration `json:"Age"`          // in nanoseconds; not 0 if this is the last known one of a busy node
}

// LaneStatus describes one part of the host.
type LaneStatus struct {
	Name       string   `json:"Name"`       // as String of its LaneID returns it
	Watched    bool     `json:"Watched"`    // the node looks at this part from time to time
	AsDesired  bool     `json:"AsDesired"`  // the last look found no difference
	FailingFor int      `json:"FailingFor"` // looks and plans in a row that did not lead to an empty diff
	Failures   []string `json:"Failures"`   // of the last look and plan
	Work       Work     `json:"Work"`       // since the process began
}

// Pulse returns a summary of the node's status as of the last Step.
func (n *Node) Pulse() Pulse {
	phase, reasons := n.phase()
	p := Pulse{
		Phase:      phase,
		Reasons:    reasons,
		Subnet:     n.lease.self.Key,
		Programmed: n.programmed(),
		FailingFor: n.hostLane().attempts,
		RenewBy:    n.lease.renewAt,
		Unusable:   n.synced() && !n.network.known && n.network.err != nil,
		Holds:      n.holds(),
	}
	if g := n.lease.grant; g != nil {
		p.Expires = g.Expires
	}
	return p
}

// programmed returns the revision of the records that the host holds. Several snapshots may have the revision of the
// node's own write, the first without what others wrote before. Until the host holds the newest of them, it is the
// revision before.
func (n *Node) programmed() int64 {
	held, newest := n.host.programmed, n.store.snap
	switch {
	case held == nil:
		return 0
	case newest != nil && held != newest && held.Revision == newest.Revision:
		return held.Revision - 1
	}
	return held.Revision
}

// holds returns what the node has on the host. What it has removed stays its own until the state file no
// longer names it: after a restart it would take the object of another network for the one of its former run.
func (n *Node) holds() Holding {
	h := n.marks()
	h.AtRest = n.hostRests() && n.firewallRests()
	for _, name := range n.files.named.Links {
		if !n.host.links[name] {
			h.Links = append(h.Links, name)
		}
	}
	for _, p := range n.files.named.Networks {
		if !slices.Contains(n.host.networks, p) {
			h.Networks = append(h.Networks, p)
		}
	}
	for _, p := range n.files.named.Ports {
		if !slices.Contains(n.host.ports, p) {
			h.Ports = append(h.Ports, p)
		}
	}
	return h
}

// marks returns what the node treats as its own on the host.
func (n *Node) marks() Holding {
	h := &n.host
	return Holding{
		Links: slices.Sorted(maps.Keys(h.links)), Networks: slices.Clone(h.networks), Ports: slices.Clone(h.ports),
	}
}

// Status returns the whole status of the node as of the last Step. It counts the
// peers and formats every problem, so it is too slow for every turn.
func (n *Node) Status() Status {
	p := n.Pulse()
	s := Status{
		Phase:       p.Phase,
		Ready:       p.Phase == PhaseReady,
		Reasons:     p.Reasons,
		Subnet:      p.Subnet,
		Uplink:      n.host.uplink,
		Synced:      n.synced(),
		StoreFault:  n.storeFault(),
		Stale:       n.store.stale,
		Fenced:      n.fenced(),
		Programmed:  p.Programmed,
		PacketPaths: n.host.paths,
		Withheld:    n.host.withheld,
		Expires:     p.Expires,
		RenewBy:     p.RenewBy,
		Notes: slices.Concat(n.host.notes, few(n.host.guard.notes()), n.host.guard.sharingNotes(), n.firewall.notes,
			n.lostNotes(), n.cloud.notes()),
		FailingFor: p.FailingFor,
		SyncedAt:   n.store.syncedAt,
		NoForward:  n.forwardingBlocked(),
		Firewall:   n.firewallTools(),
		Repairs:    slices.Clone(n.repairs),
		Probes:     n.probes.summary(),
	}
	for _, text := range n.underlay.Notes() {
		if text != "" {
			s.Notes = append(s.Notes, text)
		}
	}
	if want := n.host.want.state; want != nil {
		s.Objects = want.Len()
	}
	if snap := n.store.snap; snap != nil {
		s.Revision, s.Quarantined = snap.Revision, len(snap.Quarantined)
		s.Peers = len(n.others())
		s.PeersBy, s.SubnetsBy = n.countPeers(s.Peers), n.countSubnets()
	}
	if n.network.known {
		s.Backend = n.transition.Set().Type()
		s.Change = n.transition.Change(n.now, n.records())
		if n.host.uplink.Link != "" {
			s.MTU = n.mtu()
		}
	}
	for _, problem := range n.peerProblems() {
		s.Problems = append(s.Problems, problem.String())
	}
	s.Problems = append(s.Problems, n.commandProblems()...)
	s.Outputs = n.commandOutputs()
	for _, l := range n.lanes {
		s.Lanes = append(s.Lanes, l.status())
	}
	return s
}

func (l *lane) status() LaneStatus {
	s := LaneStatus{Name: l.id.String(), Watched: l.part.watches(), AsDesired: l.clean, FailingFor: l.attempts,
		Work: l.tally.work()}
	s.Work.LastLook = l.lastLook
	if l.lookErr != nil {
		s.Failures = append(s.Failures, l.lookErr.Error())
	}
	for _, failure := range l.failures {
		text, _ := command.Split(failure)
		s.Failures = append(s.Failures, text)
	}
	return s
}

// Holding returns the subnet that the node holds and the host is programmed for.
// It returns false while the node is fenced or holds none.
func (n *Node) Holding() (lease.Key, bool) {
	l := &n.lease
	if l.grant == nil || l.expired || l.grant.Key != l.self.Key {
		return lease.Key{}, false
	}
	return l.self.Key, true
}

// phase returns the node's phase, and the reasons why it is not ready.
func (n *Node) phase() (Phase, []string) {
	reasons := n.reasons()
	_, holds := n.Holding()
	switch {
	case !n.network.known:
		return PhaseIdle, reasons
	case !holds:
		return PhaseConfigured, reasons
	case !n.hostLane().clean || n.host.want.self.Key != n.lease.self.Key: // clean without the subnet
		return PhaseLeased, reasons
	case len(reasons) > 0:
		return PhaseProgrammed, reasons
	}
	return PhaseReady, nil
}

// storeFault returns the known cause of the datastore's failure: that it does not answer, or refuses our lease.
func (n *Node) storeFault() lease.Fault {
	if !n.store.view.Synced {
		return lease.FaultOf(n.store.view.Err)
	}
	return lease.FaultOf(n.lease.trouble)
}

// reasons lists why the node is not ready, most basic first: the store, the
// config, the lease, each lane, the files, and the peers' silence.
func (n *Node) reasons() (rs []string) {
	say := func(bad bool, format string, args ...any) {
		if bad {
			rs = append(rs, fmt.Sprintf(format, args...))
		}
	}
	if n.removal.begun() {
		return []string{n.removalReason()}
	}
	s := &n.store
	away := because(s.view.Err)
	say(s.leftOut != nil, "stale: working from saved leases: %v", s.leftOut)
	say(s.snap == nil, "the datastore has not answered yet%s", away)
	say(s.stale && s.leftOut == nil, "stale: working from saved leases, the datastore does not answer%s", away)
	say(s.snap != nil && !s.stale && !s.view.Synced, "the datastore does not answer%s", away)
	say(n.synced() && n.host.withheld > 0, "%d objects of departed peers are not yet deleted", n.host.withheld)
	say(n.network.err != nil, "%v", n.network.err)
	if !n.network.known {
		return rs
	}
	say(n.underlay.Trouble() != nil, "uplink: %v", n.underlay.Trouble())
	say(n.fenced(), "fenced: subnet %s may belong to another node", n.lease.self.Key)
	say(n.lease.grant == nil, "no lease is held")
	say(n.lease.trouble != nil, "lease: %v", n.lease.trouble)
	say(n.movedUnanswered(), "the datastore has moved lease %s to another subnet, and did not answer yet",
		n.lease.self.Key)
	for _, l := range n.lanes {
		rs = append(rs, l.part.reasons()...)
		text := l.contests.text()
		say(text != "", "%s: %s", l.id, text)
	}
	say(n.fileWaits(), "the subnet file waits for the end of a peer's command for subnet %s", n.lease.self.Key)
	text := n.subnetFile()
	unwritten := text != nil && !bytes.Equal(n.files.subnet, text)
	say(unwritten, "the subnet file is not written%s", because(n.files.errs[SubnetFile]))
	say(n.probes.cutOff != "", "%s", n.probes.cutOff)
	return rs
}

// movedUnanswered reports whether the snapshot shows that the move under way has taken
// place: peers send packets to the new subnet alone, which the host does not have.
func (n *Node) movedUnanswered() bool {
	l, snap := &n.lease, n.store.snap
	if !l.busy || l.request.Verb != Move || l.grant == nil || snap.Revision < l.grant.ModRevision {
		return false
	}
	_, stays := findLease(snap, l.grant.Key)
	return !stays
}

// because returns a cause as the end of a sentence, or nothing without a cause.
func because(err error) string {
	if err == nil {
		return ""
	}
	return ": " + err.Error()
}
