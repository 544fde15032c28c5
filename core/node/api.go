package node

import (
	"math/rand/v2"
	"time"

	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/driver"
	"github.com/flanneld/flannel/core/firewall"
	"github.com/flanneld/flannel/core/lease"
	"github.com/flanneld/flannel/core/node/event"
	"github.com/flanneld/flannel/core/probe"
	"github.com/flanneld/flannel/core/uplink"
)

// DefaultNextHopsFrom is a number of peers above which next-hop objects save time. Below it, other
// programs see routes as upstream makes them.
const DefaultNextHopsFrom = 2000

// Options fix how a node behaves. Durations with a default have it if they are zero.
type Options struct {
	Uplink    uplink.Options
	Firewall  firewall.Options
	Rules     time.Duration // longest time between two looks at the firewall; default 5 s
	IPForward bool          // keep the host forwarding packets
	Blackhole bool          // keep a blackhole route for the node's subnet
	// NextHopsFrom is the number of peers from which IPv4 routes use next-hop objects, if the
	// kernel has them; 0: never.
	NextHopsFrom int
	LeaseTTL     time.Duration // default 24 h
	RenewMargin  time.Duration // renew when this much is left; default 1 h
	ChangeLimit  time.Duration // how long a previous backend is kept that no config names; default 1 h
	ExitOnLoss   bool          // exit instead of acquiring again when the lease is lost
	Resync       time.Duration // full look without a hint; default 30 s, jittered
	Debounce     time.Duration // from news to the look, unless it was quiet; default 100 ms
	// TrustConfig says that the writers of the network config may run commands on this host as root.
	// Without it the node refuses a config whose backend runs commands.
	TrustConfig bool
	// ProbeInterval is the time between two examinations of a peer; 0: none.
	ProbeInterval time.Duration
	// ProbeUnreadyAfter is how long all peers have to be silent before the node is not ready; 0: it stays ready.
	ProbeUnreadyAfter time.Duration

	Rand     *rand.Rand // the only source of randomness
	Previous lease.Key  // from the subnet file of the last run; may be invalid
	Saved    []byte     // from the state file of the last run; may be nil
}

// Input holds the news since the last Step. A nil member means no news of its kind.
type Input struct {
	View      *lease.View          // the changed view of the store
	Lanes     [LaneCount]LaneInput // news of each lane
	Requested *Requested           // ends Effects.Request
	Wrote     *Wrote               // ends Effects.Writes
	Probed    *Probed              // ends some of Effects.Probes

	// Stop says that the process has to end. The node then begins nothing new,
	// except to write unsaved changes to its files.
	Stop bool
}

// LaneInput holds the news of one lane.
type LaneInput struct {
	Hint    bool     // the driver hinted
	Looked  *Looked  // ends LaneEffects.Look
	Applied *Applied // ends LaneEffects.Plan
}

// Looked is the result of a Look.
type Looked struct {
	Seen       driver.Observation // meaningless with an error
	SubnetFile []byte             // if the Look asked for it; nil if it cannot be read
	// PodBridges are the bridges that the host's CNI configuration names for pods of flannel, if the Look asked for the
	// subnet file.
	PodBridges []string
	Err        error
}

// Applied has one error for each op of the plan.
type Applied struct {
	Errs []error
}

// Requested is the result of a lease request.
type Requested struct {
	Grant lease.Grant
	Err   error
}

// Wrote has one error for each write.
type Wrote struct {
	Errs []error
}

// Probed tells what became of probes.
type Probed struct {
	Answers []probe.Answer
	Heard   []probe.Heard // probes of other daemons that have arrived
	Listens bool          // the host can hear them
}

// Effects are the actions that the node asks for. A nil member asks for nothing.
type Effects struct {
	Lanes   [LaneCount]LaneEffects // actions in each lane
	Request *Request               // ask the store
	Writes  []Write                // write files
	Probes  []probe.Request        // send these packets; each is answered by itself
	Events  []Event                // log
	Wake    time.Time              // Step no later than this; zero: no deadline
	Exit    *Exit                  // end the process; nothing else will follow
}

// LaneEffects are the actions in one lane: a look or a plan, never both.
type LaneEffects struct {
	Look *Look
	Plan []dataplane.Op // apply

	// PlanLimit is the time limit of the plan; 0: the usual one of the lane.
	PlanLimit time.Duration
}

// Look asks to read a part of the host.
type Look struct {
	Extent     dataplane.Extent // of the lane's part of the host
	SubnetFile bool             // also read the subnet file
}

// Verb names the store method that a Request calls.
type Verb uint8

// The requests a node makes.
const (
	Create Verb = iota + 1
	Renew
	Update
	Move
	Release
)

// String returns the verb in lower case.
func (v Verb) String() string {
	return [...]string{"none", "create", "renew", "update", "move", "release"}[v]
}

// Request is one call of a lease.Store method.
type Request struct {
	Verb  Verb
	Key   lease.Key   // Create, Move
	Grant lease.Grant // Renew, Update, Move, Release
	Attrs lease.Attrs // Create, Update, Move
	TTL   time.Duration

	// Limit is the time after which the caller gives the request up; 0: that of the store.
	Limit time.Duration
}

// File is the role of a file; the caller knows its path.
type File uint8

// The files a node writes.
const (
	SubnetFile File = iota + 1
	StateFile
)

// Write replaces a file as a whole, atomically, or removes it.
type Write struct {
	File File
	Data []byte
	// Encode returns the data, unless it is nil. The state file of a large
	// cluster takes milliseconds to encode, so the writer does that outside the
	// node's turn. Encode is a pure function of values that never change.
	Encode func() ([]byte, error)
	// Remove means that the file goes instead; a missing one has gone already.
	Remove bool
}

// Content returns the text to write.
func (w Write) Content() ([]byte, error) {
	if w.Encode != nil {
		return w.Encode()
	}
	return w.Data, nil
}

// Event is a line for the log.
type Event = event.Event

// Level is the severity of an event.
type Level = event.Level

// The levels, as klog has them.
const (
	Info    = event.Info
	Warning = event.Warning
	Error   = event.Error
)

// Exit asks the caller to end the process.
type Exit struct {
	Status int
	Reason string
	// Removed means that a named network has gone, and nothing of it is left on the host.
	Removed bool
}
