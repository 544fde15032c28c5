package wireguard

import (
	"bytes"
	"encoding/binary"
	"maps"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"golang.zx2c4.com/wireguard/conn"
	"golang.zx2c4.com/wireguard/device"

	"github.com/flanneld/flannel/core/dataplane"
)

// Two hosts that ask each other for a session at once undo each other's handshake: each forgets its own
// request when it takes the other's, so neither has a use for the answer, and both ask again five seconds later.
//
// So a request waits at this end if its sender was asked a moment ago, and is dropped when that one
// answers. The device whose public key is lower waits longer: the other one, or a peer that does not wait,
// answers meanwhile.
const (
	longWait  = 150 * time.Millisecond // more than shortWait and a round trip
	shortWait = 30 * time.Millisecond  // more than a round trip to a peer that does not wait
)

// maxWaiting limits the requests that wait. Any host can send what looks like one from a peer.
const maxWaiting = 1024

// crossing holds back requests for a session that cross one of this device.
type crossing struct {
	mu      sync.Mutex
	own     dataplane.PublicKey
	peers   map[netip.AddrPort]dataplane.PublicKey // by the endpoint that each was given
	places  map[dataplane.PublicKey]netip.AddrPort // the other way round
	asked   map[netip.AddrPort]asked               // who has not answered yet
	waiting []request                              // in any order
	news    chan struct{}                          // a request began to wait
}

// asked says when this device last asked a host, and the index by which an answer names that request.
type asked struct {
	at    time.Time
	index uint32
}

// request is another host's request for a session, which waits.
type request struct {
	from   *endpoint
	until  time.Time
	packet [device.MessageInitiationSize]byte
}

func newCrossing() *crossing {
	return &crossing{
		peers: map[netip.AddrPort]dataplane.PublicKey{}, places: map[dataplane.PublicKey]netip.AddrPort{},
		asked: map[netip.AddrPort]asked{}, news: make(chan struct{}, 1),
	}
}

// isRequest reports whether a packet asks for a session.
func isRequest(packet []byte) bool {
	return len(packet) == device.MessageInitiationSize &&
		binary.LittleEndian.Uint32(packet) == device.MessageInitiationType
}

// isAnswer reports whether a packet answers a request.
func isAnswer(packet []byte) bool {
	return len(packet) == device.MessageResponseSize &&
		binary.LittleEndian.Uint32(packet) == device.MessageResponseType
}

// setOwn says which public key this device has.
func (c *crossing) setOwn(key dataplane.PublicKey) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.own = key
}

// setPeer says which peer is at an endpoint.
func (c *crossing) setPeer(key dataplane.PublicKey, at netip.AddrPort) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.forget(key)
	c.peers[at], c.places[key] = key, at
}

// removePeer forgets a peer and its requests: if it is added again, an old one must not count.
func (c *crossing) removePeer(key dataplane.PublicKey) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if at, known := c.places[key]; known {
		c.drop(at)
		delete(c.asked, at)
	}
	c.forget(key)
}

func (c *crossing) forget(key dataplane.PublicKey) {
	if at := c.places[key]; c.peers[at] == key {
		delete(c.peers, at)
	}
	delete(c.places, key)
}

// drop drops the requests of a host that wait.
func (c *crossing) drop(from netip.AddrPort) {
	c.waiting = slices.DeleteFunc(c.waiting, func(r request) bool { return r.from.AddrPort == from })
}

// sends is told of packets that this device sends.
func (c *crossing) sends(packets [][]byte, to *endpoint) {
	if len(packets) != 1 || !isRequest(packets[0]) {
		return
	}
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.asked) >= maxWaiting {
		maps.DeleteFunc(c.asked, func(_ netip.AddrPort, a asked) bool { return now.Sub(a.at) > longWait })
	}
	c.asked[to.AddrPort] = asked{at: now, index: binary.LittleEndian.Uint32(packets[0][4:])}
}

// waits is told of packets that come, and reports whether this one waits. Then the caller drops it.
func (c *crossing) waits(packet []byte, from *endpoint) bool {
	request, answer := isRequest(packet), isAnswer(packet)
	if !request && !answer {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	own, asked := c.asked[from.AddrPort]
	switch {
	case !asked:
		return false
	case request:
		return c.add(packet, from, own.at.Add(c.patience(from.AddrPort)))
	case binary.LittleEndian.Uint32(packet[8:]) == own.index: // no other host knows it
		delete(c.asked, from.AddrPort)
		c.drop(from.AddrPort)
	}
	return false
}

// patience returns how long after the own request one of that host waits.
func (c *crossing) patience(from netip.AddrPort) time.Duration {
	if peer, known := c.peers[from]; known && bytes.Compare(c.own[:], peer[:]) < 0 {
		return longWait
	}
	return shortWait
}

// add lets a request wait, if that time is still to come and there is room.
func (c *crossing) add(packet []byte, from *endpoint, until time.Time) bool {
	if !time.Now().Before(until) || len(c.waiting) >= maxWaiting {
		return false
	}
	r := request{from: from, until: until}
	copy(r.packet[:], packet)
	c.waiting = append(c.waiting, r)
	select {
	case c.news <- struct{}{}:
	default:
	}
	return true
}

// next removes and returns a request that has waited long enough. If there is none, it
// returns when there will be one, zero for never.
func (c *crossing) next(now time.Time) (r request, due bool, at time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, w := range c.waiting {
		if !now.Before(w.until) {
			c.waiting = slices.Delete(c.waiting, i, i+1)
			return w, true, at
		}
		if at.IsZero() || w.until.Before(at) {
			at = w.until
		}
	}
	return r, false, at
}

// receiver returns the function by which the library receives requests that have waited, until closed is closed.
func (c *crossing) receiver(closed <-chan struct{}) conn.ReceiveFunc {
	return func(bufs [][]byte, sizes []int, eps []conn.Endpoint) (int, error) {
		for {
			r, due, at := c.next(time.Now())
			if due {
				sizes[0], eps[0] = copy(bufs[0], r.packet[:]), r.from
				return 1, nil
			}
			var wait <-chan time.Time
			if !at.IsZero() {
				wait = time.After(time.Until(at))
			}
			select {
			case <-closed:
				return 0, net.ErrClosed
			case <-c.news:
			case <-wait:
			}
		}
	}
}
