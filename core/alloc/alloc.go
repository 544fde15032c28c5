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

// Compatible returns an error if a key does not fit the config: it has the wrong
// families, or a subnet of the wrong length, off its boundary or outside Min..Max.
func Compatible(network config.Network, key lease.Key) error {
	return checkSubnets(network, key, func(r config.Range, subnet netip.Prefix) error {
		switch {
		case subnet.Bits() != r.SubnetLen:
			return fmt.Errorf("%v has length %d, want %d", subnet, subnet.Bits(), r.SubnetLen)
		case subnet != subnet.Masked():
			return fmt.Errorf("%v is not on a boundary, want %v", subnet, subnet.Masked())
		case subnet.Addr().Less(r.Min) || r.Max.Less(subnet.Addr()):
			return fmt.Errorf("%v is outside %v to %v", subnet, r.Min, r.Max)
		}
		return nil
	})
}

// Inside returns an error if an assigned key does not fit the config: it has the wrong
// families, or a subnet outside its network. The length of the subnet does not matter.
func Inside(network config.Network, key lease.Key) error {
	return checkSubnets(network, key, func(r config.Range, subnet netip.Prefix) error {
		if !cidr.Contains(r.Network, subnet) {
			return fmt.Errorf("%v is outside the network %v", subnet, r.Network)
		}
		return nil
	})
}

// checkSubnets returns an error if the key has other families than the network,
// or if the check of a family's subnet fails.
func checkSubnets(network config.Network, key lease.Key, check func(config.Range, netip.Prefix) error) error {
	for _, f := range cidr.Families {
		r, subnet := network.Of(f), key.Of(f)
		if !r.Enabled() && !subnet.IsValid() {
			continue
		}
		if !r.Enabled() {
			return fmt.Errorf("subnet %s: has an %v part, but %v is off", key, f, f)
		}
		if !subnet.IsValid() {
			return fmt.Errorf("subnet %s: has no %v part, but %v is on", key, f, f)
		}
		if err := check(r, subnet); err != nil {
			return fmt.Errorf("subnet %s: %w", key, err)
		}
	}
	return nil
}

// Keep returns the halves of a key that fit the config and that no record of
// the snapshot overlaps.
func Keep(network config.Network, snap *lease.Snapshot, key lease.Key) lease.Key {
	return key.Filter(func(f cidr.Family, half lease.Key) bool {
		return Compatible(network.Only(f), half) == nil && Free(snap, half)
	})
}

// Free reports whether no record of the snapshot, quarantined ones included,
// overlaps the key.
func Free(snap *lease.Snapshot, key lease.Key) bool {
	for taken := range records(snap) {
		if taken.Overlaps(key) {
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

// Choose completes a key, which may be empty: each family that is on and that
// the key lacks gets a subnet drawn uniformly from all free ones of the range.
// The error says which range is exhausted.
func Choose(network config.Network, snap *lease.Snapshot, kept lease.Key, rng *rand.Rand) (lease.Key, error) {
	subnets := [2]netip.Prefix{kept.V4, kept.V6}
	var failed []string
	for _, f := range cidr.Families {
		r := network.Of(f)
		if !r.Enabled() || subnets[f].IsValid() {
			continue
		}
		subnet, err := choose(r, taken(snap, f), rng)
		if err != nil {
			failed = append(failed, err.Error())
		}
		subnets[f] = subnet
	}
	if len(failed) > 0 {
		return lease.Key{}, errors.New(strings.Join(failed, "; "))
	}
	return lease.Key{V4: subnets[cidr.V4], V6: subnets[cidr.V6]}, nil
}

// taken returns the subnets of one family that records hold.
func taken(snap *lease.Snapshot, f cidr.Family) []netip.Prefix {
	var list []netip.Prefix
	for key := range records(snap) {
		if p := key.Of(f); p.IsValid() {
			list = append(list, p)
		}
	}
	return list
}

// Count returns the number of subnets that a family's range holds, and how many of
// them are free. A family that is off has none.
func Count(network config.Network, snap *lease.Snapshot, f cidr.Family) (free, all cidr.Uint128) {
	r := network.Of(f)
	if !r.Enabled() || r.SubnetLen == 0 || r.Max.Less(r.Min) {
		return free, all
	}
	all = cidr.Count(r.Min, r.Max, r.SubnetLen)
	_, free = gapsBetween(all, spansOf(r, taken(snap, f)))
	return free, all
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
