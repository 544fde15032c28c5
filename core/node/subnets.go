package node

import (
	"math"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/lease"
)

// SubnetCount counts the subnets of the network in one family.
type SubnetCount struct {
	Family      string `json:"Family"`
	Total       uint64 `json:"Total"`       // at most 2^64-1
	Leased      uint64 `json:"Leased"`      // by records that expire
	Reserved    uint64 `json:"Reserved"`    // by records that never expire
	Quarantined uint64 `json:"Quarantined"` // by records that cannot be decoded
	Free        uint64 `json:"Free"`
}

// countSubnets counts the subnets of each family. It returns none if the datastore
// assigns them, since the node does not know how many there are.
func (n *Node) countSubnets() []SubnetCount {
	if !n.network.known || n.assigned() != nil {
		return nil
	}
	var counts []SubnetCount
	for _, f := range cidr.Families {
		r := n.network.config.Of(f)
		if !r.Enabled() {
			continue
		}
		c := SubnetCount{Family: f.String(), Total: math.MaxUint64}
		if total := cidr.Count(r.Min, r.Max, r.SubnetLen); total.Hi == 0 {
			c.Total = total.Lo
		}
		inside := func(key lease.Key) bool { return key.Of(f).IsValid() && cidr.Contains(r.Network, key.Of(f)) }
		for _, l := range n.store.snap.Leases {
			switch {
			case !inside(l.Key):
				continue
			case l.Reserved():
				c.Reserved++
			default:
				c.Leased++
			}
		}
		for _, q := range n.store.snap.Quarantined {
			if inside(q.Key) && q.OverwroteAt == 0 { // else the last good record counts
				c.Quarantined++
			}
		}
		c.Free = c.Total - min(c.Total, c.Leased+c.Reserved+c.Quarantined)
		counts = append(counts, c)
	}
	return counts
}
