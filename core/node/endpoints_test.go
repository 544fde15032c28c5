package node

import (
	"net/netip"
	"testing"
	"time"

	"github.com/flanneld/flannel/core/dataplane"
)

// endpointCase holds one peer on a host, and asks the node for the endpoint to use.
type endpointCase struct {
	t    *testing.T
	n    *Node
	key  dataplane.WGPeerKey
	want *dataplane.State
}

var (
	recordEndpoint  = netip.MustParseAddrPort("192.168.64.2:51820")
	learnedEndpoint = netip.MustParseAddrPort("203.0.113.9:4000")
	foreignEndpoint = netip.MustParseAddrPort("203.0.113.66:66")
)

func newEndpointCase(t *testing.T) *endpointCase {
	w := newWorld(t, `{"Network":"10.5.0.0/16","Backend":{"Type":"vxlan"}}`)
	w.tell()
	c := &endpointCase{t: t, n: w.n, key: dataplane.WGPeerKey{Link: "flannel-wg", Public: dataplane.PublicKey{7}}}
	c.record(recordEndpoint)
	return c
}

// record changes the record's endpoint.
func (c *endpointCase) record(at netip.AddrPort) {
	c.want = dataplane.NewState()
	c.want.AddWGPeer(dataplane.WGPeer{WGPeerKey: c.key, Endpoint: at})
}

// see lets the node look at a host some time later, and checks the endpoint it
// wants then and whether that is a turn.
func (c *endpointCase) see(
	what string, after time.Duration, at netip.AddrPort, alive bool, want netip.AddrPort, turn bool,
) {
	c.t.Helper()
	c.n.now = c.n.now.Add(after)
	c.n.host.have = dataplane.NewState()
	if at.IsValid() {
		c.n.host.have.AddWGPeer(dataplane.WGPeer{WGPeerKey: c.key, Endpoint: at})
	}
	if alive {
		c.n.host.have.Alive[c.key] = struct{}{}
	}
	got, _ := c.n.withEndpoints(c.want).WGPeers.Get(c.key)
	if got.Endpoint != want || c.n.host.endpoints.turns[c.key] != turn {
		c.t.Errorf("%s: endpoint %s, turn %t; want %s, %t", what, got.Endpoint, c.n.host.endpoints.turns[c.key], want, turn)
	}
}

func TestEndpointOfRoamingPeer(t *testing.T) {
	c := newEndpointCase(t)
	c.see("no peer yet", 0, netip.AddrPort{}, false, recordEndpoint, false)
	c.see("no session yet", time.Minute, recordEndpoint, false, recordEndpoint, false)
	c.see("a session behind NAT", time.Minute, learnedEndpoint, true, learnedEndpoint, false)
	c.see("the session lasts", time.Hour, learnedEndpoint, true, learnedEndpoint, false)
	c.see("the session ends", time.Minute, learnedEndpoint, false, recordEndpoint, true)
	c.see("the record's is in place", time.Second, recordEndpoint, false, recordEndpoint, false)
	c.see("its turn is over", endpointTurn, recordEndpoint, false, learnedEndpoint, true)
	c.see("the learned one is in place", time.Second, learnedEndpoint, false, learnedEndpoint, false)
	c.see("its turn is over too", endpointTurn, learnedEndpoint, false, recordEndpoint, true)
	c.see("another session", time.Second, learnedEndpoint, true, learnedEndpoint, false)
}

func TestEndpointOfChangedRecord(t *testing.T) {
	c := newEndpointCase(t)
	moved := netip.MustParseAddrPort("192.168.64.99:51820")
	c.see("a node without memory finds a session", 0, learnedEndpoint, true, learnedEndpoint, false)
	c.record(moved)
	c.see("the record changes", time.Second, learnedEndpoint, true, moved, false)
	c.see("the node has written it", time.Second, moved, true, moved, false)
	c.see("and the peer is elsewhere", time.Second, learnedEndpoint, true, learnedEndpoint, false)
	c.n.host.endpoints.notWritten(dataplane.WGPeer{WGPeerKey: c.key})
	c.see("a write that failed is repeated", time.Second, learnedEndpoint, true, moved, false)
}

// Without a session another program's endpoint gives way to the record's, and with
// one the device itself knows best.
func TestForeignEndpoint(t *testing.T) {
	c := newEndpointCase(t)
	c.see("a session", 0, recordEndpoint, true, recordEndpoint, false)
	c.see("drift", time.Second, foreignEndpoint, true, foreignEndpoint, false)
	c.see("the session ends", time.Hour, foreignEndpoint, false, recordEndpoint, true)
	c.see("drift again", time.Second, netip.MustParseAddrPort("203.0.113.67:67"), false, recordEndpoint, true)
}

// An older record with a copied key names a false endpoint. It changes nothing while there is a session with the host
// that has the key, and without one the node finds that host.
func TestEndpointOfCopiedKey(t *testing.T) {
	c := newEndpointCase(t)
	contest := func(at netip.AddrPort, others dataplane.Endpoints) {
		c.want = dataplane.NewState()
		c.want.AddWGPeer(dataplane.WGPeer{WGPeerKey: c.key, Endpoint: at, Others: others})
	}
	honest := dataplane.Endpoints(recordEndpoint.String())
	c.see("a session", 0, recordEndpoint, true, recordEndpoint, false)
	contest(foreignEndpoint, honest)
	c.see("the older record comes", time.Second, recordEndpoint, true, recordEndpoint, false)
	contest(learnedEndpoint, honest)
	c.see("and changes", time.Second, recordEndpoint, true, recordEndpoint, false)
	c.see("the session ends", time.Hour, recordEndpoint, false, learnedEndpoint, true)
	c.see("it is in place", time.Second, learnedEndpoint, false, learnedEndpoint, false)
	c.see("its turn is over", contestedTurn, learnedEndpoint, false, recordEndpoint, true)

	c = newEndpointCase(t)
	contest(foreignEndpoint, honest)
	c.see("a node without memory", 0, netip.AddrPort{}, false, foreignEndpoint, false)
	c.see("no session there", time.Second, foreignEndpoint, false, foreignEndpoint, false)
	c.see("the turn is over", contestedTurn, foreignEndpoint, false, recordEndpoint, true)
	c.see("a session with the host", time.Second, recordEndpoint, true, recordEndpoint, false)
	c.see("and it lasts", time.Hour, recordEndpoint, true, recordEndpoint, false)
}

// A peer whose key another record had, too, has no turn to wait for once that record is gone: the node would look at
// its host without end.
func TestNoTurnOfOneEndpoint(t *testing.T) {
	c := newEndpointCase(t)
	for _, others := range []dataplane.Endpoints{dataplane.Endpoints(foreignEndpoint.String()), ""} {
		c.want = dataplane.NewState()
		c.want.AddWGPeer(dataplane.WGPeer{WGPeerKey: c.key, Endpoint: recordEndpoint, Others: others})
		c.see("without a session", time.Second, recordEndpoint, false, recordEndpoint, false)
	}
	if e := &c.n.host.endpoints; !e.nextTurn(c.n.now).IsZero() || e.turnDue(c.n.now.Add(time.Hour)) {
		t.Errorf("a turn is due at %v", e.of[c.key].turnAt)
	}
}

// The clock was ahead at the last handshake of a peer. Once that session has ended, the node deletes the peer and adds
// it again.
func TestHandshakeOfAWrongClock(t *testing.T) {
	c := newEndpointCase(t)
	ahead := c.n.now.AddDate(10, 0, 0)
	see := func(what string, after time.Duration, handshake time.Time, want bool) {
		t.Helper()
		c.n.now = c.n.now.Add(after)
		c.n.host.have = dataplane.NewState()
		c.n.host.have.AddWGPeer(dataplane.WGPeer{WGPeerKey: c.key, Endpoint: recordEndpoint})
		c.n.host.have.Handshakes[c.key], c.n.host.have.Alive[c.key] = handshake, struct{}{}
		if got := c.n.withEndpoints(c.want).WGPeers.Has(c.key); got != want {
			t.Errorf("%s: the peer is wanted: %t, want %t", what, got, want)
		}
	}
	see("a session", 0, c.n.now, true)
	see("the clock was ahead", time.Second, ahead, true)
	see("the session may last", dataplane.SessionLife-time.Second, ahead, true)
	see("another handshake while the clock is ahead", 0, ahead.Add(time.Second), true)
	see("the session may last again", dataplane.SessionLife-time.Second, ahead.Add(time.Second), true)
	see("the session has ended", time.Second, ahead.Add(time.Second), false)
	c.see("the peer is gone", time.Second, netip.AddrPort{}, false, recordEndpoint, false)
	see("it is there again, without a handshake", time.Second, time.Time{}, true)
	see("and lasts", time.Hour, time.Time{}, true)
	see("a handshake a moment ahead", time.Second, c.n.now.Add(2*time.Second), true)
	see("is one of a right clock", time.Hour, c.n.now.Add(time.Hour), true)
}

// The node forgets the endpoints of peers that it does not want any more.
func TestEndpointsAreForgotten(t *testing.T) {
	c := newEndpointCase(t)
	c.see("a session", 0, learnedEndpoint, true, learnedEndpoint, false)
	c.key.Public = dataplane.PublicKey{8}
	c.record(recordEndpoint)
	c.see("another peer", 0, recordEndpoint, false, recordEndpoint, false)
	if n := len(c.n.host.endpoints.of); n != 1 {
		t.Errorf("%d peers are remembered, want 1", n)
	}
	c.want = dataplane.NewState()
	c.n.withEndpoints(c.want)
	if n := len(c.n.host.endpoints.of); n != 0 {
		t.Errorf("%d peers are remembered, want none", n)
	}
}
