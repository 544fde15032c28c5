// Package control is the contract between the daemon and operators' tools: where the
// daemon answers, what it can be asked, and the form of its answers.
//
// The daemon answers HTTP requests at a unix socket beside its subnet file, which
// only root may open. The health listener has the same pages, for the clients that
// the daemon's flags allow, without what may name secrets: the texts, the data and
// the output of the operator's commands. Every page is read only, and its answer is JSON:
//
//	GET /status   node.Status
//	GET /peers    Peers
//	GET /diff     Diff
//	GET /state    State
//	GET /events   Events
//
// /status and /events always answer. If the daemon's loop is busy, the status is the last
// known one with its age, and the other pages answer with status 503.
package control

import (
	"crypto/sha256"
	"fmt"
	"path"
	"time"

	"github.com/flanneld/flannel/core/node"
)

// The pages.
const (
	StatusPage = "/status"
	PeersPage  = "/peers"
	DiffPage   = "/diff"
	StatePage  = "/state"
	EventsPage = "/events"
)

// NetworkParameter names, at a listener of several networks, the network that a request
// asks for. The socket of a network answers for that one.
const NetworkParameter = "network"

// longestSocket is the length of the longest path that a unix socket can have on Linux, in bytes.
const longestSocket = 107

// Socket returns the path of the socket of the daemon that writes a subnet file: the file's with an
// ending. If that is too long for a socket, as for a network with a long name, a hash stands for the
// file's name.
func Socket(subnetFile string) string {
	if whole := subnetFile + ".sock"; len(whole) <= longestSocket {
		return whole
	}
	dir, name := path.Split(subnetFile)
	hash := sha256.Sum256([]byte(name))
	return fmt.Sprintf("%sflannel-%x.sock", dir, hash[:8])
}

// Peers is the answer at /peers.
type Peers struct {
	TakenAt time.Time   `json:"TakenAt"`
	Peers   []node.Peer `json:"Peers"` // sorted by subnet
}

// Diff is the answer at /diff.
type Diff struct {
	TakenAt time.Time         `json:"TakenAt"`
	Lanes   []node.Difference `json:"Lanes"`
}

// State is the answer at /state.
type State struct {
	TakenAt time.Time `json:"TakenAt"`
	Lanes   []Tables  `json:"Lanes"`
}

// Tables are the desired and the observed state of a lane, in the text form of
// dataplane.State.Dump. A text is empty while its state is not known.
type Tables struct {
	Lane     string    `json:"Lane"`
	LastLook time.Time `json:"LastLook"` // zero: none yet
	Want     string    `json:"Want"`
	Have     string    `json:"Have"`
}

// Events is the answer at /events: the last lines of the daemon's log, and the changes
// of its phase.
type Events struct {
	TakenAt time.Time `json:"TakenAt"`
	Dropped int       `json:"Dropped"` // older events, which the daemon no longer remembers
	Events  []Event   `json:"Events"`  // oldest first
}

// Event is a line of the daemon's log, or a change of the node's phase.
type Event struct {
	At    time.Time `json:"At"`
	Kind  string    `json:"Kind"`  // such as lease-acquired, or PhaseKind
	Level string    `json:"Level"` // info, warning or error
	Text  string    `json:"Text"`
}

// PhaseKind is the kind of an event whose text is the phase that began.
const PhaseKind = "phase"
