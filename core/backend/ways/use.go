package ways

import (
	"net/netip"
	"slices"

	"github.com/flanneld/flannel/core/backend"
	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/firewall"
	"github.com/flanneld/flannel/core/lease"
)

// Use tells which peers this node reaches by a former way.
type Use struct {
	ID    string
	Sends []lease.Key
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
		}
		uses = append(uses, u)
	}
	return uses
}

// protocols are those of the outer headers of devices, by kind.
var protocols = map[dataplane.LinkKind]uint8{dataplane.LinkVXLAN: 17, dataplane.LinkIPIP: 4}

// needsGuard reports whether a way is plain beside a present one that encrypts, and the kernel takes its packets from
// any host. The packet path of udp judges senders itself. The guard is there before the node uses the present way.
func (s *Set) needsGuard(i int) bool {
	used := *s
	if s.preparing {
		used.down = nil
	}
	return used.isGuarded(i) && protocols[s.ways[i].spec.DeviceKind] != 0
}

// Guarded returns the ways whose devices must not be open without [Set.Guards].
func (s *Set) Guarded() (ids []string) {
	for i, w := range s.ways {
		if s.isGuarded(i) && s.needsGuard(i) {
			ids = append(ids, w.id)
		}
	}
	return ids
}

// Guards returns, by the family of their outer header, the unencrypted packets that only some peers may send to this
// node: those for the kernel's devices of plain former ways beside a present one that encrypts, from peers that
// have not followed.
func (s *Set) Guards(peers []*lease.Lease) (guards [2][]firewall.Guard) {
	for i, w := range s.ways {
		if !s.needsGuard(i) {
			continue
		}
		var from [2][]netip.Addr
		for _, p := range peers {
			for _, f := range cidr.Families {
				if ip := p.Attrs.IP(f); ip.IsValid() && s.hears(i, p) {
					from[f] = append(from[f], ip)
				}
			}
		}
		ports := w.ports()
		if len(ports) == 0 {
			ports = []backend.UDPPort{{}}
		}
		for _, f := range cidr.Families {
			if !w.carries(f) {
				continue
			}
			slices.SortFunc(from[f], netip.Addr.Compare)
			for _, port := range ports {
				g := firewall.Guard{Proto: protocols[w.spec.DeviceKind], Port: port.Number, From: slices.Compact(from[f])}
				guards[f] = append(guards[f], g)
			}
		}
	}
	return guards
}
