package invariants

import (
	"bytes"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/flanneld/flannel/core/backend"
	"github.com/flanneld/flannel/core/backend/all"
	"github.com/flanneld/flannel/core/backend/ipsec"
	"github.com/flanneld/flannel/core/backend/wireguard"
	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/config"
	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/lease"
	"github.com/flanneld/flannel/drivers/sim/kernel"
)

// encrypts reports whether a backend of that type encrypts packets.
func encrypts(backendType string) bool {
	return backendType == wireguard.Type || backendType == ipsec.Type
}

// prepareBound is how long a node may send in the clear, after it has read the config or was started, although it could
// encrypt: its record does not offer the backend yet (docs/security.md, rule T3).
const prepareBound = time.Minute + changeBound

// configBound is how long a node may take to make the device of another backend, and to publish its key.
const configBound = 10 * time.Second

// secrecy tells to which peers a node must not send in the clear. Rules T3 and T4 (docs/security.md): never to a peer
// whose record offers an encrypting backend that the node runs, and, outside of a change, to no peer.
type secrecy struct {
	network config.Network // of the encrypting config in force, also after the process has ended; none: Type is ""
	text    string
	id      string // of its backend
	snap    *lease.Snapshot
	// offers holds the peers' records that offer the backend.
	offers map[lease.Key]offer

	runs         bool          // the node's record has offered the backend
	preparesFrom time.Duration // when the node read the config, or last began to act

	freshUntil time.Duration // a node that has another config makes its device until then
	encrypted  time.Duration // when the node's record began to offer the backend
	stoodAt    time.Duration // when the process last could not act, or did not follow the datastore
	touchedAt  time.Duration // when a fault last touched the host
	sound      bool          // since then it has been as demanded
}

// offer is a record that offers the backend. It is ripe when the node has known it for long enough.
type offer struct {
	since time.Duration // when it is, at the earliest
	ripe  bool
}

// touched notes that a fault has changed the node's host. One that only loses packets excuses nothing.
func (n *Node) touched(directive []string) {
	if len(directive) > 2 && slices.Contains([]string{"block", "part", "wire", "isolate"}, directive[2]) {
		return
	}
	n.secrecy.touchedAt, n.secrecy.sound = n.all.elapsed(), false
}

// JudgeClaims begins to judge what records of other programs do to nodes: the invariants surface and clear-text.
func (i *Invariants) JudgeClaims() { i.judgesClaims = true }

// noteOffers is called after every event.
func (i *Invariants) noteOffers() error {
	if !i.judgesClaims {
		return nil
	}
	for _, name := range i.order {
		i.nodes[name].noteOffers(i.elapsed())
	}
	return nil
}

func (n *Node) noteOffers(now time.Duration) {
	s := &n.secrecy
	s.sound = s.sound || n.follows.sound
	if n.config != "" && n.config != s.text {
		s.follow(n.config, now)
	}
	if s.id == "" || n.client == nil {
		return
	}
	snap := n.client.View().Snapshot
	if snap != nil && snap != s.snap {
		s.snap = snap
		was := s.offers
		s.offers = map[lease.Key]offer{}
		for _, l := range snap.Leases {
			if !s.runs && l.Key == n.key && s.offered(l) {
				s.runs, s.encrypted = true, now
			}
			if l.Key == n.key || !s.offered(l) {
				continue
			}
			s.offers[l.Key] = offer{since: max(now+changeBound, s.freshUntil)}
			if before, ok := was[l.Key]; ok {
				s.offers[l.Key] = before
			}
		}
	}
	if n.stands() {
		s.preparesFrom = now
	}
	prepares := !s.runs && now < s.preparesFrom+prepareBound
	for key, o := range s.offers {
		if o.ripe {
			continue
		}
		if n.stands() || !n.holds || prepares {
			o.since = max(o.since, now+changeBound)
		}
		o.ripe = now >= o.since
		s.offers[key] = o
	}
}

// follow begins with another config.
func (s *secrecy) follow(text string, now time.Duration) {
	s.text = text
	network, _, ok := usableConfig(text)
	if !ok || !encrypts(network.Backend.Type) {
		*s = secrecy{text: text, touchedAt: s.touchedAt, sound: s.sound}
		return
	}
	spec, _ := all.Find(network.Backend.Type)
	id, err := spec.Identity(network.Backend, backend.FamiliesOf(network))
	if err == nil && id != s.id {
		*s = secrecy{text: text, id: id, touchedAt: s.touchedAt, sound: s.sound, preparesFrom: now}
	}
	s.network, s.freshUntil = network, now+configBound
	for key, o := range s.offers {
		s.offers[key] = offer{since: max(o.since, s.freshUntil)}
	}
}

// offered reports whether a record offers the encrypting backend of the config in force.
func (s *secrecy) offered(l *lease.Lease) bool {
	if w := l.Attrs.Ways; l.Attrs.BackendType == s.network.Backend.Type &&
		(w.Present == nil || bytes.Equal(w.Present, []byte(s.id))) {
		return true
	}
	return slices.ContainsFunc(l.Attrs.Ways.Former, func(f lease.FormerWay) bool { return string(f.Backend) == s.id })
}

// checkSecrecy checks a frame that the node sends over its uplink.
func (n *Node) checkSecrecy(frame []byte) {
	s := &n.secrecy
	if s.id == "" || !n.holds || n.Twinned || n.follows.added || n.hindered() {
		return
	}
	for _, p := range kernel.Read(frame) {
		if !s.inNetwork(p.Src) || !s.inNetwork(p.Dst) {
			continue
		}
		how := "that no tunnel carries"
		if p.In != "" {
			how = "in " + p.In
		}
		for key, o := range s.offers {
			if o.ripe && key.Of(cidr.FamilyOf(p.Dst)).Contains(p.Dst) {
				n.all.broken("clear-text", "%s sends a packet from %s to %s %s, though the node knows that %s offers %s",
					n.name, p.Src, p.Dst, how, key, s.network.Backend.Type)
				return
			}
		}
		if !n.surface.clear && len(n.surface.noted) > 0 {
			n.all.broken("clear-text", "%s sends a packet from %s to %s %s, though its network always encrypts",
				n.name, p.Src, p.Dst, how)
			return
		}
	}
}

// inNetwork reports whether an address belongs to the network of the config in force.
func (s *secrecy) inNetwork(a netip.Addr) bool {
	network := s.network.Of(cidr.FamilyOf(a)).Network
	return network.IsValid() && network.Contains(a)
}

// hindered reports whether a fault excuses the host: one in force, other than of packets, or one after which the
// node has not had the time to repair the host.
func (n *Node) hindered() bool {
	lasting := slices.ContainsFunc(n.all.hostFaults(n.name), func(fault string) bool {
		return !slices.Contains(strings.Fields(fault), "block")
	})
	s := &n.secrecy
	return lasting || !s.sound && n.all.elapsed()-max(s.touchedAt, s.preparesFrom) <= driftBound
}

// sealBound is how long after its node has begun with an encrypting backend a host may have a device that does not
// encrypt: the limit of a change, and the time in which the node ends it and looks at the host.
const sealBound = time.Hour + 5*time.Minute

// checkSealed is called after every event: a change to an encrypting backend ends (rule T4), whatever the records of
// peers say.
func (i *Invariants) checkSealed() error {
	if !i.judgesClaims {
		return nil
	}
	for _, name := range i.order {
		n := i.nodes[name]
		s := &n.secrecy
		if n.stands() || n.client != nil && !n.client.View().Synced { // then a node deletes nothing
			s.stoodAt = i.elapsed()
		}
		if !s.runs || n.observed == nil || i.elapsed()-s.encrypted < sealBound {
			continue
		}
		if i.elapsed()-s.stoodAt < driftBound || !n.holds || n.Twinned || n.hindered() {
			continue
		}
		for _, l := range n.observed.Links {
			if _, encrypted := l.Params.(dataplane.WireGuard); !encrypted && n.surface.links[l.Name] {
				return fmt.Errorf("%s has the device %s, which does not encrypt, %s after its record began to offer %s",
					name, l.Name, i.elapsed()-s.encrypted, s.network.Backend.Type)
			}
		}
	}
	return nil
}
