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
	uses := make([]Use, len(s.ways)-1)
	for i := range uses {
		uses[i].ID = s.ways[i+1].id
		for _, p := range peers {
			if s.sends(p, func(by int) bool { return by == i+1 }) {
				uses[i].Sends = append(uses[i].Sends, p.Key)
			}
		}
	}
	return uses
}

// protocols are those of the outer headers of devices, by kind.
var protocols = map[dataplane.LinkKind]uint8{dataplane.LinkVXLAN: 17, dataplane.LinkIPIP: 4}

// isPlain reports whether a way is plain and the present one encrypts, which the host can have.
func (s *Set) isPlain(i int) bool {
	present := s.ways[0]
	return i > 0 && !s.ways[i].spec.Encrypts && present.spec.Encrypts && !present.role.Down
}

// isGuarded reports whether a way takes packets from some peers only: it is plain, and the node uses the present one.
func (s *Set) isGuarded(i int) bool { return s.isPlain(i) && !s.ways[0].role.Announced }

// needsGuard reports whether the kernel takes packets of a plain way from any host. The packet path of udp judges
// senders itself. The guard is there before the node uses the present way.
func (s *Set) needsGuard(i int) bool {
	return s.isPlain(i) && protocols[s.ways[i].spec.DeviceKind] != 0
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
