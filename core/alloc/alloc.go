package alloc

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strings"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/config"
	"github.com/flanneld/flannel/core/lease"
)

// Compatible reports, as an error, why a key does not fit the config: a
// family too many or too few, a subnet of the wrong length, off its boundary
// or outside Min..Max.
func Compatible(network config.Network, key lease.Key) error {
	for _, f := range cidr.Families {
		r, subnet := network.Of(f), key.Of(f)
		switch {
		case !r.Enabled() && !subnet.IsValid():
		case !r.Enabled():
			return fmt.Errorf("subnet %s: has an %v part, but %v is off", key, f, f)
		case !subnet.IsValid():
			return fmt.Errorf("subnet %s: has no %v part, but %v is on", key, f, f)
		case subnet.Bits() != r.SubnetLen:
			return fmt.Errorf("subnet %s: %v has length %d, want %d", key, subnet, subnet.Bits(), r.SubnetLen)
		case subnet != subnet.Masked():
			return fmt.Errorf("subnet %s: %v is not on a boundary, want %v", key, subnet, subnet.Masked())
		case subnet.Addr().Less(r.Min) || r.Max.Less(subnet.Addr()):
			return fmt.Errorf("subnet %s: %v is outside %v to %v", key, subnet, r.Min, r.Max)
		}
	}
	return nil
}

// Inside returns an error if an assigned key does not fit the config: it has a
// family too many or too few, or a subnet outside its network. The length of the
// subnet does not matter.
func Inside(network config.Network, key lease.Key) error {
	for _, f := range cidr.Families {
		r, subnet := network.Of(f), key.Of(f)
		switch {
		case !r.Enabled() && !subnet.IsValid():
		case !r.Enabled():
			return fmt.Errorf("subnet %s: has an %v part, but %v is off", key, f, f)
		case !subnet.IsValid():
			return fmt.Errorf("subnet %s: has no %v part, but %v is on", key, f, f)
		case !cidr.Contains(r.Network, subnet):
			return fmt.Errorf("subnet %s: %v is outside the network %v", key, subnet, r.Network)
		}
	}
	return nil
}

// Free reports whether no record of the snapshot, quarantined ones included,
// overlaps the key. Records under the key except are ignored.
func Free(snap *lease.Snapshot, key, except lease.Key) bool {
	for taken := range records(snap) {
		if taken != except && taken.Overlaps(key) {
			return false
		}
	}
	return true
}

// records yields the key of every record. A record whose key did not parse blocks
// nothing, since its subnet is unknown.
func records(snap *lease.Snapshot) func(yield func(lease.Key) bool) {
	return func(yield func(lease.Key) bool) {
		for _, l := range snap.Leases {
			if !yield(l.Key) {
				return
			}
		}
		for _, q := range snap.Quarantined {
			if q.Key.IsValid() && !yield(q.Key) {
				return
			}
		}
	}
}

// Choose draws a key uniformly from all free subnets of the whole range, each
// family by itself. The error says which range is exhausted.
func Choose(network config.Network, snap *lease.Snapshot, rng *rand.Rand) (lease.Key, error) {
	var subnets [2]netip.Prefix
	var failed []string
	for _, f := range cidr.Families {
		r := network.Of(f)
		if !r.Enabled() {
			continue
		}
		var taken []netip.Prefix
		for key := range records(snap) {
			if p := key.Of(f); p.IsValid() {
				taken = append(taken, p)
			}
		}
		var err error
		if subnets[f], err = choose(r, taken, rng); err != nil {
			failed = append(failed, err.Error())
		}
	}
	if len(failed) > 0 {
		return lease.Key{}, errors.New(strings.Join(failed, "; "))
	}
	return lease.Key{V4: subnets[cidr.V4], V6: subnets[cidr.V6]}, nil
}

func choose(r config.Range, taken []netip.Prefix, rng *rand.Rand) (netip.Prefix, error) {
	count := cidr.Count(r.Min, r.Max, r.SubnetLen)
	gaps, free := gapsBetween(count, spansOf(r, taken))
	if free == (cidr.Uint128{}) {
		return netip.Prefix{}, fmt.Errorf("no subnet is free: all %v of length /%d from %v to %v are taken",
			count, r.SubnetLen, r.Min, r.Max)
	}
	n := below(free, rng)
	for _, g := range gaps {
		if n.Cmp(g.size()) < 0 {
			return cidr.Subnet(r.Min, g.first.Add(n), r.SubnetLen), nil
		}
		n = n.Sub(g.size())
	}
	panic("the gaps hold fewer subnets than they count")
}
