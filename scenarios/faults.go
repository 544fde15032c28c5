package scenarios

import (
	"time"

	"github.com/flanneld/flannel/core/lease"
	"github.com/flanneld/flannel/core/node"
)

// Faults are what both worlds can break of a node beyond what an operator does
// to its kernel.
type Faults interface {
	// Holds is the subnet that the node goes by.
	Holds() lease.Key
	// PartFrom keeps packets of another node from reaching this one.
	PartFrom(other string, on bool) error
	// Disturb sets what the uplink does to packets, in both directions.
	Disturb(disturbance) error
	// Second starts another daemon on the host, or ends it.
	Second(on bool) error
	// KillAt lets the daemon die in the middle: at an effect that is so many
	// from now. 0: it need not.
	KillAt(boundary int) error
	// FullDisk lets no write to the file succeed.
	FullDisk(f node.File, on bool) error

	// Meet sets what becomes of the next requests to the datastore.
	Meet(fate fate, count int) error
	// ForgetToken lets the datastore forget who the node is, Deny take its
	// permission away.
	ForgetToken() error
	Deny(on bool) error
}

// fate is what becomes of a request to the datastore.
type fate string

const (
	fateLost       fate = "lost"       // it is never done
	fateUnanswered fate = "unanswered" // it is done, but the node does not learn it
	fateLate       fate = "late"       // it is done after the node has given up
)

// storeFaults are what both worlds can break of a datastore.
type storeFaults interface {
	LoseData() error
	// Leaderless lets the datastore serve nobody and end no lease.
	Leaderless(on bool) error
	// Slow lets requests and answers take up to that much longer, with that
	// probability, Lossy loses some of them; zero ends it.
	Slow(chance float64, by time.Duration) error
	Lossy(requests, answers float64) error
}
