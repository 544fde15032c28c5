package node

import (
	"math/rand/v2"
	"time"

	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/driver"
	"github.com/flanneld/flannel/core/firewall"
	"github.com/flanneld/flannel/core/lease"
	"github.com/flanneld/flannel/core/uplink"
)

// Options fix how a node behaves. Zero durations mean the defaults.
type Options struct {
	Uplink      uplink.Options
	Firewall    firewall.Options
	Rules       time.Duration // longest time between two looks at the firewall; default 5 s
	Blackhole   bool          // keep a blackhole route for the own subnet
	LeaseTTL    time.Duration // default 24 h
	RenewMargin time.Duration // renew when this much is left; default 1 h
	ExitOnLoss  bool          // exit instead of acquiring anew when the lease is lost
	Resync      time.Duration // full look without a hint; default 30 s, jittered
	Debounce    time.Duration // from a hint to the look; default 100 ms
	Rand        *rand.Rand    // the only source of chance
	Previous    lease.Key     // from the subnet file of a former run; may be invalid
	Saved       []byte        // from the state file of a former run; may be nil
}

// Input is what happened since the last Step. Nil members: nothing of that kind.
type Input struct {
	View      *lease.View          // the store's view changed
	Lanes     [LaneCount]LaneInput // what happened in each lane
	Requested *Requested           // ends Effects.Request
	Wrote     *Wrote               // ends Effects.Writes

	// Stop says that the process has to end. The node then begins nothing new
	// except to write what its files do not hold yet.
	Stop bool
}

// LaneInput is what happened in one lane.
type LaneInput struct {
	Hint    bool     // the driver hinted
	Looked  *Looked  // ends LaneEffects.Look
	Applied *Applied // ends LaneEffects.Plan
}

// Looked is the result of a Look.
type Looked struct {
	Seen       driver.Observation // meaningless with an error
	SubnetFile []byte             // if the Look asked for it; nil if it cannot be read
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

// Effects are what the node asks for. Nil members: nothing of that kind.
type Effects struct {
	Lanes   [LaneCount]LaneEffects // what to do in each lane
	Request *Request               // ask the store
	Writes  []Write                // write files
	Events  []Event                // log
	Wake    time.Time              // Step no later than this; zero: no deadline
	Exit    *Exit                  // end the process; nothing else will follow
}

// LaneEffects are what to do in one lane: a look or a plan, never both.
type LaneEffects struct {
	Look *Look
	Plan []dataplane.Op // apply
}

// Look says what a look reads.
type Look struct {
	Extent     dataplane.Extent // of the lane's part of the host
	SubnetFile bool             // also read the subnet file
}

// Verb is what a Request asks of the lease store.
type Verb uint8

// The requests a node makes.
const (
	Create Verb = iota + 1
	Renew
	Update
	Release
)

// String returns the verb in lower case.
func (v Verb) String() string {
	return [...]string{"none", "create", "renew", "update", "release"}[v]
}

// Request is one call of a lease.Store method.
type Request struct {
	Verb  Verb
	Key   lease.Key   // Create
	Grant lease.Grant // Renew, Update, Release
	Attrs lease.Attrs // Create, Update
	TTL   time.Duration
}

// File is the role of a file; where it lies is the caller's business.
type File uint8

// The files a node writes.
const (
	SubnetFile File = iota + 1
	StateFile
)

// Write replaces a file as a whole, atomically.
type Write struct {
	File File
	Data []byte
	// Encode returns the data if it is not nil. The state file of a large
	// cluster takes milliseconds to encode, which the writer spends, not the
	// node's turn. Encode is a pure function of values that never change.
	Encode func() ([]byte, error)
}

// Content returns the text to write.
func (w Write) Content() ([]byte, error) {
	if w.Encode != nil {
		return w.Encode()
	}
	return w.Data, nil
}

// Event is a line for the log. Kind is stable and greppable, such as
// "lease-acquired"; Text is for people.
type Event struct {
	Kind  string
	Text  string
	Level Level
}

// Level is how loud an event is.
type Level uint8

// The levels, as klog has them.
const (
	Info Level = iota
	Warning
	Error
)

// Exit asks for the end of the process.
type Exit struct {
	Status int
	Reason string
}
