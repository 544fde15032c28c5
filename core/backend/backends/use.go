package backends

import (
	"net/netip"
	"slices"

	"github.com/flanneld/flannel/core/backend"
	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/firewall"
	"github.com/flanneld/flannel/core/lease"
)

// Use tells which peers this node reaches by a previous backend.
type Use struct {
	ID    string
	Sends []lease.Key
}

// Uses returns the use of each previous backend, newest first. To a peer whose record the present
// backend refuses, the node sends by a previous one.
func (s *Set) Uses(env backend.Env, self backend.Self, peers []*lease.Lease) []Use {
	if len(s.members) == 1 {
		return nil
	}
	_, refused := s.renderEach(env, self, peers)
	s = s.refusing(refused.peers)
	uses := make([]Use, len(s.members)-1)
	for i := range uses {
		uses[i].ID = s.members[i+1].id
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

// isPlain reports whether a backend is plain and the present one encrypts, which the host can have.
func (s *Set) isPlain(i int) bool {
	present := s.members[0]
	return i > 0 && !s.members[i].spec.Encrypts && present.spec.Encrypts && !present.role.Down
}

// isGuarded reports whether a backend takes packets from some peers only: it is plain, and the node uses the present
// one.
func (s *Set) isGuarded(i int) bool { return s.isPlain(i) && !s.members[0].role.Announced }

// needsGuard reports whether the kernel takes packets of a plain backend from any host. The packet path of udp judges
// senders itself. The guard is there before the node uses the present backend.
func (s *Set) needsGuard(i int) bool {
	return s.isPlain(i) && protocols[s.members[i].spec.DeviceKind] != 0
}

// Guarded returns the backends whose devices must not be open without [Set.Guards].
func (s *Set) Guarded() (ids []string) {
	for i, m := range s.members {
		if s.isGuarded(i) && s.needsGuard(i) {
			ids = append(ids, m.id)
		}
	}
	return ids
}

// Guards returns, by the family of their outer header, the unencrypted packets that only some peers may send to this
// node: those for the kernel's devices of plain previous backends beside a present one that encrypts, from peers that
// have not followed.
func (s *Set) Guards(peers []*lease.Lease) (guards [2][]firewall.Guard) {
	for i, m := range s.members {
		if !s.needsGuard(i) {
			continue
		}
		var from [2][]netip.Addr
		for _, p := range peers {
			for _, f := range cidr.Families {
				if ip := p.Attrs.IP(f); ip.IsValid() && s.accepts(i, p) {
					from[f] = append(from[f], ip)
				}
			}
		}
		ports := m.ports()
		if len(ports) == 0 {
			ports = []backend.UDPPort{{}}
		}
		for _, f := range cidr.Families {
			if !m.carries(f) {
				continue
			}
			slices.SortFunc(from[f], netip.Addr.Compare)
			for _, port := range ports {
				g := firewall.Guard{Proto: protocols[m.spec.DeviceKind], Port: port.Number, From: slices.Compact(from[f])}
				guards[f] = append(guards[f], g)
			}
		}
	}
	return guards
}
