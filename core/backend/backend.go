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

	// MTU is what pods may use, in bytes (FLANNEL_MTU).
	MTU(Env) int

	// Attrs is what the node shall publish. Stored is its last known record,
	// have what its host holds: what they fix (a MAC) is kept, the rest is
	// drawn from rng.
	Attrs(env Env, stored lease.Attrs, have *dataplane.State, rng *rand.Rand) (lease.Attrs, error)

	// Render returns all objects the backend wants on the host, for itself
	// and its peers, and one Problem for each peer it cannot serve. Own
	// records among the peers have been left out. The result is the sum of what
	// each peer alone results in, with the exceptions that [Update] lists.
	Render(env Env, self Self, peers []*lease.Lease) (*dataplane.State, []Problem)
}

// Env is what a node knows of its surroundings.
type Env struct {
	Config config.Network
	Uplink uplink.Uplink
	Facts  driver.HostFacts
}

// Self is the node's own lease.
type Self struct {
	Key   lease.Key
	Attrs lease.Attrs
}

// Problem is a peer that cannot be served, and why.
type Problem struct {
	Key lease.Key
	Err error
}

// String names the peer's subnet.
func (p Problem) String() string { return fmt.Sprintf("peer %s: %v", p.Key, p.Err) }
