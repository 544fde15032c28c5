package wireguard

import (
	"encoding/binary"
	"maps"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"golang.zx2c4.com/wireguard/conn"
	"golang.zx2c4.com/wireguard/device"
)

// Two hosts that ask each other for a session at once undo each other's handshake: each forgets its own
// request when it takes the other's, so neither has a use for the answer, and both ask again five seconds later.
//
// So a request waits at this end if its sender was asked a moment ago, and is dropped when that one
// answers. Each request names a random index, and both hosts know both requests, so they agree which one waits
// longer: the host of the lower index. The other one, or a peer that does not wait, answers meanwhile.
const (
	longWait  = 600 * time.Millisecond // more than shortWait and a round trip
	shortWait = 150 * time.Millisecond // more than a round trip to a peer that does not wait, between busy hosts
)

// A host that was stopped for some time finds several requests of a peer at once, of which the last one counts. Any
// host can send what looks like a request from a peer. So some of a sender wait, the last one is taken first, and
// each is taken unless its sender answers. In all so few wait that the library can take them at once: with 128 in
// its queue it would refuse handshakes.
const (
	maxOfSender = 20 // more than the requests, one in five seconds, for which the library goes on
	maxWaiting  = 64
)

// maxAsked limits the hosts that are remembered.
const maxAsked = 10_000

// crossing holds back requests for a session that cross one of this device.
type crossing struct {
	mu      sync.Mutex
	asked   map[netip.AddrPort]asked // who has not answered yet
	waiting []request                // as they came
	news    chan struct{}            // a request began to wait
}

// asked says when this device last asked a host, and the index of that request.
type asked struct {
	at    time.Time
	index uint32
}

// wait returns until when a request of the host waits that was asked, by the index that it names.
func (a asked) wait(index uint32) time.Time {
	if a.index < index {
		return a.at.Add(longWait)
	}
	return a.at.Add(shortWait)
}

// request is another host's request for a session, which waits.
type request struct {
	from   *endpoint
	index  uint32
	until  time.Time
	packet [device.MessageInitiationSize]byte
}

func newCrossing() *crossing {
	return &crossing{asked: map[netip.AddrPort]asked{}, news: make(chan struct{}, 1)}
}

// isRequest reports whether a packet asks for a session, and which index it names.
func isRequest(packet []byte) (index uint32, is bool) {
	if len(packet) != device.MessageInitiationSize || binary.LittleEndian.Uint32(packet) != device.MessageInitiationType {
		return 0, false
	}
	return binary.LittleEndian.Uint32(packet[4:]), true
}

// isAnswer reports whether a packet answers a request, and the index of that request.
func isAnswer(packet []byte) (index uint32, is bool) {
	if len(packet) != device.MessageResponseSize || binary.LittleEndian.Uint32(packet) != device.MessageResponseType {
		return 0, false
	}
	return binary.LittleEndian.Uint32(packet[8:]), true
}

// sends is told of packets that this device sends.
func (c *crossing) sends(packets [][]byte, to *endpoint) {
	if len(packets) != 1 {
		return
	}
	index, is := isRequest(packets[0])
	if !is {
		return
	}
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.asked) >= maxAsked {
		maps.DeleteFunc(c.asked, func(_ netip.AddrPort, a asked) bool { return now.Sub(a.at) > longWait })
	}
	own := asked{at: now, index: index}
	c.asked[to.AddrPort] = own
	for i, r := range c.waiting { // it crosses this request as well
		if isFrom(to)(r) {
			c.waiting[i].until = own.wait(r.index)
		}
	}
}

// waits is told of packets that come, and reports whether this one waits. Then the caller drops it.
func (c *crossing) waits(packet []byte, from *endpoint) bool {
	if index, is := isRequest(packet); is {
		return c.requested(packet, index, from)
	}
	if index, is := isAnswer(packet); is {
		c.answered(index, from)
	}
	return false
}

// requested lets a request wait if its sender was asked a moment ago, and reports whether it waits.
func (c *crossing) requested(packet []byte, index uint32, from *endpoint) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	own, crosses := c.asked[from.AddrPort]
	r := request{from: from, index: index, until: own.wait(index)}
	if !crosses || !time.Now().Before(r.until) {
		return false
	}
	if len(c.waiting) >= maxWaiting || c.waitingOf(from) >= maxOfSender {
		return false
	}
	copy(r.packet[:], packet)
	c.waiting = append(c.waiting, r)
	select {
	case c.news <- struct{}{}:
	default:
	}
	return true
}

// waitingOf returns how many requests of a sender wait.
func (c *crossing) waitingOf(sender *endpoint) (n int) {
	for _, r := range c.waiting {
		if isFrom(sender)(r) {
			n++
		}
	}
	return n
}

func isFrom(e *endpoint) func(request) bool {
	return func(r request) bool { return r.from.AddrPort == e.AddrPort }
}

// answered drops the request of a host that has answered one of this device. No other host knows the index.
func (c *crossing) answered(index uint32, from *endpoint) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if own, open := c.asked[from.AddrPort]; open && own.index == index {
		delete(c.asked, from.AddrPort)
		c.waiting = slices.DeleteFunc(c.waiting, isFrom(from))
	}
}

// next removes and returns the last request that has waited long enough. If there is none, it
// returns when there will be one, zero for never.
func (c *crossing) next(now time.Time) (r request, due bool, at time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, w := range slices.Backward(c.waiting) {
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
