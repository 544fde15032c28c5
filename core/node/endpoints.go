package node

import (
	"net/netip"
	"slices"
	"time"

	"github.com/flanneld/flannel/core/dataplane"
)

// endpointTurn is the time for which the node tries an endpoint of a WireGuard peer
// without a session before it tries the other one.
const endpointTurn = time.Minute

// contestedTurn is the same where several records have one key and name different endpoints. All but one of these
// records are stale or false.
const contestedTurn = 10 * time.Second

// clockError is how far the time of a handshake lies ahead before the node takes the clock for one that was set back.
const clockError = time.Minute

// endpoints remembers where WireGuard peers are. A peer's record names an
// endpoint, and a device learns another one from authenticated packets if the peer
// is behind NAT or has moved. The learned one is no drift while the peer has a
// session. Without one, the node tries both in turn. If several records have the peer's key, the node tries the
// endpoints of all: who has the key answers at one of them. While there is a session with one, no record changes it.
//
//	               record changed: write it
//	                  ┌─────────┐
//	                  ▼         │
//	new ──► record ──► session ──► no session ──► record and learned in turn
//	                  ▲                                 │
//	                  └──────── handshake ──────────────┘
type endpoints struct {
	of    map[dataplane.WGPeerKey]*endpoint
	turns map[dataplane.WGPeerKey]bool // the peers whose endpoint the last plan changes in turn
	last  resolved
}

// endpoint holds the places where one peer may be.
type endpoint struct {
	record  netip.AddrPort // that the node wrote last, or found
	learned netip.AddrPort // that the device learned last, if it is another one
	turnAt  time.Time      // when to try the other one; zero: the peer has a session
	ahead   time.Time      // the last handshake, if the clock was ahead at that time
	anewAt  time.Time      // when to make the peer anew, unless there is another handshake before
}

// resolved is a desired state with the endpoints to use on a host.
type resolved struct{ want, have, result *dataplane.State }

// withEndpoints returns the desired state with learned endpoints where the node
// keeps or tries them.
func (n *Node) withEndpoints(want *dataplane.State) *dataplane.State {
	e, have := &n.host.endpoints, n.host.have
	if want.WGPeers.Len() == 0 {
		*e = endpoints{}
		return want
	}
	if e.last.want == want && e.last.have == have && !e.turnDue(n.now) {
		return e.last.result
	}
	if e.of == nil {
		e.of = map[dataplane.WGPeerKey]*endpoint{}
	}
	e.turns = map[dataplane.WGPeerKey]bool{}
	result := want
	for key, peer := range want.WGPeers.All {
		if n.refusesHandshakes(key) {
			if result == want {
				result = want.Clone()
			}
			result.WGPeers.Delete(key) // the next look adds it again
			continue
		}
		use := n.endpointOf(peer)
		if use == peer.Endpoint && peer.Others == "" {
			continue
		}
		if result == want {
			result = want.Clone()
		}
		peer.Endpoint, peer.Others = use, ""
		result.AddWGPeer(peer)
	}
	e.forget(want)
	if next := e.nextTurn(n.now); !next.IsZero() {
		n.hostLane().lookBy(next, causeRetry)
	}
	e.last = resolved{want, have, result}
	return result
}

// refusesHandshakes reports whether a device may refuse all handshakes that a peer begins, since it has had one of a
// later time: the clocks of both were ahead. If both have begun handshakes then, none works once the clocks are right,
// until one of the devices forgets its peer. The node waits until the session has surely ended.
func (n *Node) refusesHandshakes(key dataplane.WGPeerKey) bool {
	known, last := n.host.endpoints.of[key], n.host.have.Handshakes[key]
	if known == nil || !n.host.have.WGPeers.Has(key) {
		return false
	}
	switch {
	case last.Sub(n.now) < clockError:
		known.ahead, known.anewAt = time.Time{}, time.Time{}
	case !last.Equal(known.ahead):
		known.ahead, known.anewAt = last, n.now.Add(dataplane.SessionLife)
	default:
		return !n.now.Before(known.anewAt)
	}
	return false
}

// endpointOf returns the endpoint that is desired for a peer now.
func (n *Node) endpointOf(want dataplane.WGPeer) netip.AddrPort {
	e := &n.host.endpoints
	key, record := want.WGPeerKey, want.Endpoint
	others := slices.Collect(want.Others.All)
	present, exists := n.host.have.WGPeers.Get(key)
	_, alive := n.host.have.Alive[key]
	known := e.of[key]
	switch {
	case exists && alive && slices.Contains(others, present.Endpoint):
		if known == nil {
			known = &endpoint{}
			e.of[key] = known
		}
		known.record, known.learned = record, present.Endpoint
		known.turnAt = time.Time{}
		return present.Endpoint
	case !exists || known != nil && known.record != record:
		e.of[key] = &endpoint{record: record}
		return record
	case known == nil:
		known = &endpoint{record: record}
		e.of[key] = known
	}
	if at := present.Endpoint; at.IsValid() && at != record && (alive || !known.learned.IsValid()) {
		known.learned = at
	}
	if alive {
		known.turnAt = time.Time{}
		return firstValid(present.Endpoint, record)
	}
	places := append([]netip.AddrPort{record}, others...)
	turn := endpointTurn
	if len(others) > 0 {
		turn = contestedTurn
	}
	if known.learned.IsValid() && !slices.Contains(places, known.learned) {
		places = append(places, known.learned)
	}
	if len(places) == 1 {
		known.turnAt = time.Time{}
		return record
	}
	return n.takeTurn(key, known, present.Endpoint, places, turn)
}

// takeTurn returns which of some places to try for a peer without a session, the first one first.
func (n *Node) takeTurn(
	key dataplane.WGPeerKey, known *endpoint, present netip.AddrPort, places []netip.AddrPort, turn time.Duration,
) netip.AddrPort {
	lost := known.turnAt.IsZero() // it has just lost its session
	due := lost || !n.now.Before(known.turnAt)
	use, at := present, slices.Index(places, present)
	switch {
	case lost || at < 0:
		use = places[0]
	case due:
		use = places[(at+1)%len(places)]
	}
	if due || use != present {
		known.turnAt = n.now.Add(turn)
	}
	if use != present {
		n.host.endpoints.turns[key] = true
	}
	return use
}

// firstValid returns the first valid one of two endpoints.
func firstValid(a, b netip.AddrPort) netip.AddrPort {
	if a.IsValid() {
		return a
	}
	return b
}

// turnDue reports whether a turn is due.
func (e *endpoints) turnDue(now time.Time) bool {
	for at := range e.moments {
		if !now.Before(at) {
			return true
		}
	}
	return false
}

// nextTurn returns the first of the moments after now; zero: there is none.
func (e *endpoints) nextTurn(now time.Time) (next time.Time) {
	for at := range e.moments {
		if at.After(now) && (next.IsZero() || at.Before(next)) {
			next = at
		}
	}
	return next
}

// moments yields when turns of peers end, and when the node deletes a peer to add it again.
func (e *endpoints) moments(yield func(time.Time) bool) {
	for _, known := range e.of {
		for _, at := range [...]time.Time{known.turnAt, known.anewAt} {
			if !at.IsZero() && !yield(at) {
				return
			}
		}
	}
}

// forget drops the peers that are not desired any more.
func (e *endpoints) forget(want *dataplane.State) {
	if len(e.of) == want.WGPeers.Len() {
		return
	}
	for key := range e.of {
		if !want.WGPeers.Has(key) {
			delete(e.of, key)
		}
	}
}

// notWritten notes that the kernel did not take a peer: its record counts as changed.
func (e *endpoints) notWritten(o dataplane.Object) {
	if peer, ok := o.(dataplane.WGPeer); ok {
		if known := e.of[peer.Key()]; known != nil {
			known.record = netip.AddrPort{}
		}
		e.last = resolved{}
	}
}
