package linearizable

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/flanneld/flannel/core/lease"
	"github.com/flanneld/flannel/core/node"
	"github.com/flanneld/flannel/drivers/sim/store"
	"github.com/flanneld/flannel/drivers/sim/world"
)

// Asker is a client of a store in virtual time.
type Asker interface {
	Do(req node.Request, done func(node.Requested))
	View() lease.View
}

const (
	clients  = 4
	requests = 30              // of each client
	pause    = 3 * time.Second // between two requests of a client, at most
)

// Play lets clients send random requests to a simulated store with all its
// faults, and returns their history. Ask returns the client of a name.
func Play(seed uint64, ask func(*world.World, *store.Store, string) Asker) *History {
	return playInto(&History{}, seed, ask)
}

// playInto is Play with an empty history.
func playInto(h *History, seed uint64, ask func(*world.World, *store.Store, string) Asker) *History {
	w := world.New(seed)
	storage := store.New(w, store.Options{})
	h.Now = func() time.Duration { return w.Now().Sub(start) }
	p := &play{world: w, store: storage, history: h, chance: w.Rand("play")}
	for i := range clients {
		p.left += requests
		c := &client{play: p, party: newParty(i, w.Rand(fmt.Sprintf("play/%d", i))),
			asker: ask(w, storage, fmt.Sprintf("n%d", i))}
		c.next()
	}
	storage.SetFaults(store.Faults{
		LoseRequest: 0.04, LoseAnswer: 0.04, Slow: 0.1, SlowBy: 8 * time.Second,
		WatchDelay: time.Second, WatchLose: 0.1, WatchDuplicate: 0.1, WatchReorder: 0.1, WatchBreak: 0.05,
	})
	p.trouble()
	w.RunUntil(func() bool { return p.left == 0 }, time.Hour)
	return h
}

var start = world.New(0).Now()

// play builds one history.
type play struct {
	world   *world.World
	store   *store.Store
	history *History
	chance  *rand.Rand
	left    int // requests that have not ended
}

// trouble breaks the store now and then, and looks at its true content.
func (p *play) trouble() {
	p.world.After(time.Duration(p.chance.Int64N(int64(2*time.Second))), "play: trouble", func() {
		switch p.chance.IntN(20) {
		case 0:
			p.store.LoseLeader(time.Duration(p.chance.Int64N(int64(3 * time.Second))))
		case 1:
			p.store.Compact()
		default:
			p.look(keyOf(p.chance.IntN(keys)))
		}
		p.trouble()
	})
}

// look reads the true content of the store at one moment.
func (p *play) look(key lease.Key) {
	done := p.history.Call(clients, Input{Key: key})
	for _, l := range p.store.Snapshot().Leases {
		if l.Key == key {
			done(lease.Grant{Lease: *l}, nil)
			return
		}
	}
	done(lease.Grant{}, nil)
}

// client sends one request at a time.
type client struct {
	*play
	*party
	asker Asker
}

func (c *client) next() {
	c.world.After(time.Duration(c.rng.Int64N(int64(pause))), "play: request", func() {
		req := c.draw(c.asker.View())
		done := c.history.Ask(c.id, req)
		c.asker.Do(req, func(r node.Requested) {
			done(r.Grant, r.Err)
			c.learn(req, r.Grant, r.Err)
			c.left--
			if c.left >= clients {
				c.next()
			}
		})
	})
}
