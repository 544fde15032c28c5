package linearizable

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"time"

	"github.com/flanneld/flannel/core/lease"
	"github.com/flanneld/flannel/core/node"
	"github.com/flanneld/flannel/drivers/sim"
)

// Asker is a client of a store in virtual time.
type Asker interface {
	Do(req node.Request, done func(node.Requested))
	View() lease.View
}

const (
	clients  = 4
	keys     = 3
	requests = 30 // of each client
	ttl      = 8 * time.Second
	pause    = 3 * time.Second // between two requests of a client, at most
)

// Play lets clients ask a simulated store at random, with all its faults, and
// returns what they saw. Ask makes the client of a name.
func Play(seed uint64, ask func(*sim.World, *sim.Store, string) Asker) *History {
	w := sim.NewWorld(seed)
	store := w.NewStore(sim.StoreOptions{})
	h := &History{Now: func() time.Duration { return w.Now().Sub(start) }}
	p := &play{world: w, store: store, history: h, rng: w.Rand("play")}
	for i := range clients {
		p.left += requests
		c := &client{play: p, id: i, asker: ask(w, store, fmt.Sprintf("n%d", i)), grants: map[lease.Key]lease.Grant{}}
		c.next()
	}
	store.SetFaults(sim.StoreFaults{
		LoseRequest: 0.04, LoseAnswer: 0.04, Slow: 0.1, SlowBy: 8 * time.Second,
		WatchDelay: time.Second, WatchLose: 0.1, WatchDuplicate: 0.1, WatchReorder: 0.1, WatchBreak: 0.05,
	})
	p.trouble()
	w.RunUntil(func() bool { return p.left == 0 }, time.Hour)
	return h
}

var start = sim.NewWorld(0).Now()

// play is one history in the making.
type play struct {
	world   *sim.World
	store   *sim.Store
	history *History
	rng     *rand.Rand
	left    int // requests without an end
	values  int // that were written
}

// trouble strikes the store now and then, and looks at the truth.
func (p *play) trouble() {
	p.world.After(time.Duration(p.rng.Int64N(int64(2*time.Second))), "play: trouble", func() {
		switch p.rng.IntN(20) {
		case 0:
			p.store.LoseLeader(time.Duration(p.rng.Int64N(int64(3 * time.Second))))
		case 1:
			p.store.Compact()
		default:
			p.look(keyOf(p.rng.IntN(keys)))
		}
		p.trouble()
	})
}

// look is a reading of the truth, at once.
func (p *play) look(key lease.Key) {
	done := p.history.Call(clients, Input{Key: key})
	for _, l := range p.store.Snapshot().Leases {
		if l.Key == key {
			done(lease.Grant{Lease: l}, nil)
			return
		}
	}
	done(lease.Grant{}, nil)
}

func keyOf(i int) lease.Key {
	return lease.Key{V4: netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 5, byte(i), 0}), 24)}
}

// client asks for one thing at a time.
type client struct {
	*play
	id     int
	asker  Asker
	grants map[lease.Key]lease.Grant // the last it knows of, good or not
}

// value is one that nobody wrote before.
func (c *client) value() lease.Attrs {
	c.values++
	return lease.Attrs{PublicIP: netip.AddrFrom4([4]byte{10, byte(c.id), byte(c.values >> 8), byte(c.values)})}
}

func (c *client) next() {
	c.world.After(time.Duration(c.rng.Int64N(int64(pause))), "play: request", func() {
		req := c.draw()
		done := c.history.Ask(c.id, req)
		c.asker.Do(req, func(r node.Requested) {
			done(r.Grant, r.Err)
			if r.Err == nil && req.Verb != node.Release {
				c.grants[r.Grant.Key] = r.Grant
			}
			if c.left--; c.left >= clients {
				c.next()
			}
		})
	})
}

// draw makes a request up: mostly one about a grant the client knows, which
// may have come to an end long ago.
func (c *client) draw() node.Request {
	key := keyOf(c.rng.IntN(keys))
	g, known := c.grants[key]
	if adopted, ok := c.own(key); ok && c.rng.IntN(2) == 0 {
		g, known = adopted, true
	}
	if !known || c.rng.IntN(5) == 0 {
		return node.Request{Verb: node.Create, Key: key, Attrs: c.value(), TTL: ttl}
	}
	switch c.rng.IntN(6) {
	case 0, 1:
		return node.Request{Verb: node.Update, Grant: g, Attrs: c.value(), TTL: ttl}
	case 2:
		return node.Request{Verb: node.Release, Grant: g}
	default:
		return node.Request{Verb: node.Renew, Grant: g}
	}
}

// own finds a record of the client's in what it sees of the store, as a node
// does that was not told of the outcome.
func (c *client) own(key lease.Key) (lease.Grant, bool) {
	snap := c.asker.View().Snapshot
	if snap == nil {
		return lease.Grant{}, false
	}
	for _, l := range snap.Leases {
		if l.Key == key && l.Attrs.PublicIP.As4()[1] == byte(c.id) {
			return lease.Grant{Lease: l, TTL: ttl}, true
		}
	}
	return lease.Grant{}, false
}
