package backend

import (
	"fmt"
	"math/rand/v2"

	"github.com/flanneld/flannel/core/config"
	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/driver"
	"github.com/flanneld/flannel/core/lease"
	"github.com/flanneld/flannel/core/uplink"
)

// Backend turns leases into wanted kernel objects. It is pure and knows no kernel.
type Backend interface {
	// Type is the lowercase name by which a config selects the backend.
	Type() string

	// Extent names the links and sysctls the backend owns.
	Extent() dataplane.Extent

	// MTU returns the largest packet that a pod may send, in bytes (FLANNEL_MTU).
	MTU(Env) int

	// Attrs returns the attributes that the node must publish. It keeps the
	// values that the node's last record or its host fixes, such as a MAC, and
	// draws others from rng. It fails with [NotYet] if the node has to wait.
	Attrs(env Env, stored lease.Attrs, have *dataplane.State, rng *rand.Rand) (lease.Attrs, error)

	// Render returns all objects the backend wants on the host, for the node
	// itself and its peers, and one Problem for each peer it cannot serve. The
	// peers do not include the node's own records. The result is the sum of the
	// results for each peer alone, with the exceptions that [Update] lists.
	Render(env Env, self Self, peers []*lease.Lease) (*dataplane.State, []Problem)
}

// NotYet is an error of Attrs that ends by itself or when the operator acts, such as
// a key that cannot be read. The node waits, and reports the error.
type NotYet struct {
	Err  error
	Soon bool // the first look at the host ends it: its report is no warning
}

// Error implements error.
func (e NotYet) Error() string { return e.Err.Error() }

// Unwrap returns the reason.
func (e NotYet) Unwrap() error { return e.Err }

// Env describes the surroundings of a node.
type Env struct {
	Config config.Network
	Uplink uplink.Uplink
	Facts  driver.HostFacts

	// KeptKeys holds the public keys that WireGuard devices keep, by device, although the node has another key
	// by now: peers know a device by the key in the node's record.
	KeptKeys map[string]dataplane.PublicKey

	// Commands are the operator's commands that have run.
	Commands dataplane.Table[dataplane.CommandKey, dataplane.Command]

	// NextHops means that IPv4 routes with a gateway use next-hop objects: see [OverNextHops].
	NextHops bool

	// TxChecksum is the value of the device's setting that probes ask for, see [ChecksumAdapter]; "": none.
	TxChecksum string
}

// Self is the node's own lease.
type Self struct {
	Key   lease.Key
	Attrs lease.Attrs
}

// Problem names a peer that cannot be served, and the reason.
type Problem struct {
	Key    lease.Key
	Err    error
	Served bool // the peer is served all the same, in the way that the reason names
}

// String names the peer's subnet.
func (p Problem) String() string { return fmt.Sprintf("peer %s: %v", p.Key, p.Err) }
