package page

// Recording holds everything that a page shows. Times are microseconds since the
// beginning of the world; lists of changes are in their order.
type Recording struct {
	About    About
	OK       bool
	Summary  []string // the story of the run, a sentence each; `code` in backquotes
	Length   int64
	Focus    int64 // the moment worth looking at first
	FocusOn  string
	Packet   int // the probe worth looking at first; -1: none
	Topology Topology
	Steps    []Step
	Nodes    []Node // as in the topology
	Leases   []LeaseChange
	Bands    []Band
	Events   []Event
	Probes   []Probe
	Paths    [][]Hop  // by Probe.Path
	Texts    []string // by index, which Shortage and State hold
	Omitted  int      // events and paths beyond the limits of a page
	Missing  []string // of a live cluster: what could not be learnt
}

// Live is the world of a recording of a live cluster.
const Live = "live"

// About names the run, and says how to run it again.
type About struct {
	Scenario string
	World    string // "sim", "netns", "vm" or Live
	Began    string `json:",omitempty"` // of a live cluster: the moment 0, as RFC 3339
	Seed     string // empty: nothing was drawn
	Commit   string
	Trace    string // hash; empty: the world has none
	Replay   string // the command
	Captures []Capture
}

// Capture is a file with packets beside the page.
type Capture struct{ Name, Path string }

// Topology holds the places of the nodes.
type Topology struct {
	Backend  string
	Config   string
	Segments []string // addresses
	Nodes    []Place
}

// Place is the position of a node.
type Place struct {
	Name    string
	Segment int
	Address string
}

// Step is one directive of a scenario.
type Step struct {
	From, To  int64
	Text      string
	Input     string   `json:",omitempty"`
	Want, Got []string // output, by line
	Failed    bool     `json:",omitempty"`
	Fault     bool     `json:",omitempty"` // it breaks something on purpose
}

// Node is one node's history.
type Node struct {
	Name  string
	State []StateChange
	Short []Shortage
}

// StateChange begins a state.
type StateChange struct {
	At int64
	State
}

// State is a node's account of itself.
type State struct {
	Life     string // "running", "paused", "down", "unknown", or "exited" with a status
	Brief    bool   `json:",omitempty"` // only the phase is known
	Phase    string
	Ready    bool     `json:",omitempty"`
	Fenced   bool     `json:",omitempty"`
	Stale    bool     `json:",omitempty"`
	Synced   bool     `json:",omitempty"`
	Subnet   string   `json:",omitempty"` // as the subnet file has it
	Peers    int      `json:",omitempty"`
	Revision int64    `json:",omitempty"`
	Reasons  []string `json:"-"`
	Why      []int    `json:",omitempty"` // Reasons, as texts
}

// Shortage begins a difference between the state that the leases require and a
// host's actual state: the changes that would close it.
type Shortage struct {
	At    int64
	Total int
	Ops   []int // texts, the first of them
}

// LeaseChange begins a content of the store.
type LeaseChange struct {
	At     int64
	Leases []Lease
}

// Lease is a record of the store.
type Lease struct {
	Key      string
	Owner    string
	Reserved bool  `json:",omitempty"`
	Modified int64 // revision
}

// Band is something that lasts: a fault until it is healed. To is -1 if it
// lasted to the end.
type Band struct {
	From, To int64
	What     string
	Step     int // the directive that began it
}

// Event is a line in a log, or an action.
type Event struct {
	At   int64
	Who  string
	Kind string
	Text string
}

// Probe is a run of packets from pod to pod with one fate.
type Probe struct {
	At, Last int64 // when the first and the last was sent
	From, To string
	Count    int
	OK       bool   `json:",omitempty"`
	Source   string `json:",omitempty"` // the source that the receiver saw, if not the sender
	Drop     string `json:",omitempty"` // the named reason
	Where    string `json:",omitempty"`
	Detail   string `json:",omitempty"`
	Note     string `json:",omitempty"` // a packet of this kind arrived, others may not
	Path     int    // -1: unknown
	After    bool   `json:",omitempty"` // sent after the scenario, to see which pods reach which
}

// Hop is a step of a packet on its way.
type Hop struct {
	After  int64 // since it was sent
	Where  string
	What   string
	Detail string `json:",omitempty"`
}
