package alloc

import (
	"math/rand/v2"

	"github.com/flanneld/flannel/core/config"
	"github.com/flanneld/flannel/core/lease"
)

// Compatible reports, as an error, why a key does not fit the config: a
// family too many or too few, a subnet of the wrong length, off its boundary
// or outside Min..Max.
func Compatible(network config.Network, key lease.Key) error { panic("TODO") }

// Free reports whether no record of the snapshot, quarantined ones included,
// overlaps the key. Records under the key except are ignored.
func Free(snap *lease.Snapshot, key, except lease.Key) bool { panic("TODO") }

// Choose draws a key uniformly from all free subnets of the whole range, each
// family by itself. The error says which range is exhausted.
func Choose(network config.Network, snap *lease.Snapshot, rng *rand.Rand) (lease.Key, error) {
	panic("TODO")
}
