package ways

import (
	"slices"

	"github.com/flanneld/flannel/core/backend"
	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/lease"
)

// Use tells which peers keep a former way open.
type Use struct {
	ID    string
	Sends []lease.Key // the peers to which this node sends by it
	Keeps []lease.Key // the peers that may send to this node by it
}

// Uses returns the use of each former way, newest first. To a peer whose record the present
// way refuses, the node sends by a former one.
func (s *Set) Uses(env backend.Env, self backend.Self, peers []*lease.Lease) []Use {
	if len(s.ways) == 1 {
		return nil
	}
	_, refused := s.renderWays(env, self, peers)
	s = s.refusing(refused.peers)
	var uses []Use
	for i, w := range s.ways[1:] {
		u := Use{ID: w.id}
		for _, p := range peers {
			sends := slices.ContainsFunc(cidr.Families[:], func(f cidr.Family) bool {
				chosen, ok := s.choose(p, f)
				return ok && chosen == i+1 && p.Key.Of(f).IsValid()
			})
			if sends {
				u.Sends = append(u.Sends, p.Key)
			}
			if _, inUse := s.offers(p, w.id); inUse || sends {
				u.Keeps = append(u.Keeps, p.Key)
			}
		}
		uses = append(uses, u)
	}
	return uses
}
