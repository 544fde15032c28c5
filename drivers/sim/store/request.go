package store

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/flanneld/flannel/core/lease"
	"github.com/flanneld/flannel/core/node"
	"github.com/flanneld/flannel/drivers/sim/world"
)

// exchange is one request on its way, until its client knows the outcome or
// gives up.
type exchange struct {
	client   *Client
	of       string // the name of the client that the request is for
	req      node.Request
	began    time.Time
	deadline *world.Event
	ttl      *storeTTL                   // granted for a Create
	fresh    bool                        // the record needs another TTL
	act      func() (lease.Grant, error) // runs at the server
	done     func(node.Requested)
}

// Do sends a request through the network and calls done once: with the answer,
// or with an error if none has come in time. The server may carry out the
// request nevertheless, even after the client got the error.
func (c *Client) Do(req node.Request, done func(node.Requested)) {
	if c.nodes.table != nil {
		c.doNodes(req, done)
		return
	}
	if c.remote != nil {
		c.doServers(req, done)
		return
	}
	c.doFor(c.name, req, done)
}

// doFor is Do on behalf of a client.
func (c *Client) doFor(of string, req node.Request, done func(node.Requested)) {
	x := c.exchange(req, done)
	x.of = of
	if req.Verb == node.Create {
		x.grant()
		return
	}
	x.decide()
}

func (c *Client) exchange(req node.Request, done func(node.Requested)) *exchange {
	x := c.begin(req)
	x.done = done
	x.deadline = c.store.world.After(c.limit(req), c.label.timeout, func() {
		c.arrive(func() { x.finish(lease.Grant{}, errStoreNoAnswer) })
	})
	return x
}

// limit returns the time after which the client gives up a request.
func (c *Client) limit(req node.Request) time.Duration {
	return min(c.store.opts.Timeout, cmp.Or(req.Limit, c.store.opts.Timeout))
}

// begin prepares a request to the server. The first request for a record on a
// doomed TTL moves the record to another TTL.
func (c *Client) begin(req node.Request) *exchange {
	x := &exchange{client: c, of: c.name, req: req, began: c.now()}
	length, doomed := c.doomed[req.Grant.ID]
	x.fresh = doomed && req.Verb != node.Create
	if x.fresh && req.Verb == node.Renew {
		x.req.Verb, x.req.Attrs = node.Update, req.Grant.Attrs
		x.req.TTL = length
	}
	x.act = x.serve
	return x
}

// grant is the first half of a Create: it makes the TTL of the record.
func (x *exchange) grant() {
	c := x.client
	c.send(c.drawTrip(), func() (answer func()) {
		if err := c.refused(); err != nil {
			return func() { x.finish(lease.Grant{}, err) }
		}
		ttl := c.store.grant(x.req.TTL)
		return func() {
			if x.done != nil {
				x.ttl = ttl
				x.decide()
			}
		}
	})
}

// decide makes the trip that decides the outcome. Fates are those of this trip.
func (x *exchange) decide() {
	c := x.client
	c.send(c.drawFate(), func() (answer func()) {
		g, err := x.act()
		return func() { x.finish(g, err) }
	})
}

func (x *exchange) serve() (g lease.Grant, err error) {
	if err := x.client.refused(); err != nil {
		return lease.Grant{}, err
	}
	c := x.client
	c.store.by(x.of, func() { g, err = c.store.serve(x) })
	return g, err
}

// finish reports the outcome. A Create that failed, or may have failed, ends its
// TTL, so that a record which the server has written or will write does not hold
// a subnet without an owner.
func (x *exchange) finish(g lease.Grant, err error) {
	if x.done == nil {
		return
	}
	done := x.done
	x.done = nil
	x.deadline.Cancel()
	if err != nil {
		if x.ttl != nil {
			x.client.revoke(x.ttl, x.of)
		}
		g, err = lease.Grant{}, storeError(x.req, err)
	}
	done(node.Requested{Grant: g, Err: err})
}

// revoke asks the server to end a TTL. Until the answer the TTL is doomed: the
// request may arrive at any time.
func (c *Client) revoke(t *storeTTL, of string) {
	c.doomed[t.id] = t.length
	c.send(c.drawTrip(), func() (answer func()) {
		if c.refused() != nil {
			return func() {}
		}
		c.store.by(of, func() {
			if now := c.store.ttls[t.id]; now != nil { // a restored store has another one with that handle
				c.store.endTTL(now)
			}
		})
		return func() { delete(c.doomed, t.id) }
	})
}

// send runs act at the server, and the function that it returns at the client,
// unless a network fault prevents it.
func (c *Client) send(t trip, act func() (answer func())) {
	w := c.store.world
	w.After(t.up, c.label.up, func() {
		if t.loseRequest || !c.reachable() {
			return
		}
		answer := act()
		w.After(t.down, c.label.down, func() {
			if !t.loseAnswer && c.reachable() {
				c.arrive(answer)
			}
		})
	})
}

// trip is the effect of the network on one request and its answer.
type trip struct {
	up, down    time.Duration
	loseRequest bool
	loseAnswer  bool
}

// drawTrip draws a trip.
func (c *Client) drawTrip() trip {
	f, rng := &c.store.faults, c.rng.request
	t := trip{up: c.latency(), down: c.latency()}
	if world.Chance(rng, f.Slow) {
		t.up += world.UpTo(rng, f.SlowBy)
	}
	if world.Chance(rng, f.Slow) {
		t.down += world.UpTo(rng, f.SlowBy)
	}
	t.loseRequest = world.Chance(rng, f.LoseRequest)
	t.loseAnswer = world.Chance(rng, f.LoseAnswer)
	return t
}

// drawFate returns the trip for the fate that Next has set, or else draws one.
func (c *Client) drawFate() trip {
	fate := FateDraw
	if len(c.fates) > 0 {
		fate, c.fates = c.fates[0], c.fates[1:]
	}
	if fate == FateDraw {
		return c.drawTrip()
	}
	t := trip{up: c.latency(), down: c.latency()}
	t.loseRequest, t.loseAnswer = fate == FateLoseRequest, fate == FateLoseAnswer
	if fate == FateLate {
		t.up += c.store.opts.Timeout
	}
	return t
}

// serve carries out a request, at the server.
func (s *Store) serve(x *exchange) (lease.Grant, error) {
	switch x.req.Verb {
	case node.Create:
		return s.create(x)
	case node.Renew:
		return s.renew(x)
	case node.Update:
		return s.update(x)
	case node.Move:
		return s.move(x)
	case node.Release:
		return lease.Grant{}, s.release(x.req.Grant)
	}
	panic(fmt.Sprintf("store: request with verb %d", x.req.Verb))
}

// errNoSuchTTL answers a put that came after its TTL had ended.
var errNoSuchTTL = errors.New("requested lease not found")

func (s *Store) create(x *exchange) (lease.Grant, error) {
	req, ttl := x.req, x.ttl
	key := s.subnetKey(req.Key)
	if r := s.records[key]; r != nil {
		return lease.Grant{}, &lease.ConflictError{Key: req.Key, Revision: r.mod}
	}
	if s.ttls[ttl.id] != ttl {
		return lease.Grant{}, errNoSuchTTL
	}
	r := s.put(key, lease.EncodeAttrs(req.Attrs), ttl)
	return lease.Grant{Lease: r.lease, TTL: ttl.length, Expires: x.began.Add(ttl.length)}, nil
}

func (s *Store) renew(x *exchange) (lease.Grant, error) {
	g := x.req.Grant
	if g.Reserved() {
		return g, nil
	}
	t := s.ttls[g.ID]
	if t == nil {
		return lease.Grant{}, lease.ErrLost
	}
	s.refresh(t)
	g.TTL, g.Expires = t.length, x.began.Add(t.length)
	return g, nil
}

func (s *Store) update(x *exchange) (lease.Grant, error) {
	g := x.req.Grant
	r, err := s.own(g)
	if err != nil {
		return lease.Grant{}, err
	}
	t := s.ttlFor(&g, x)
	g.Lease = s.put(r.key, lease.EncodeAttrs(x.req.Attrs), t).lease
	return g, nil
}

// ttlFor returns the TTL for a record that replaces the one of a grant, and enters it
// in the grant. It is the grant's TTL and not that of the present record: another
// program may have put the record without one.
func (s *Store) ttlFor(g *lease.Grant, x *exchange) *storeTTL {
	t := s.ttls[g.ID]
	another := t == nil || x.fresh || wholeSeconds(x.req.TTL) != wholeSeconds(g.TTL)
	if !g.Reserved() && another {
		t = s.grant(x.req.TTL)
		g.TTL, g.Expires = t.length, x.began.Add(t.length)
	}
	return t
}

func (s *Store) move(x *exchange) (lease.Grant, error) {
	g, to := x.req.Grant, s.subnetKey(x.req.Key)
	r, err := s.own(g)
	taken := s.records[to]
	switch {
	case errors.Is(err, lease.ErrConflict):
		return lease.Grant{}, err
	case taken != nil:
		return lease.Grant{}, &lease.ConflictError{Key: x.req.Key, Revision: taken.mod}
	case err != nil:
		return lease.Grant{}, err
	}
	t := s.ttlFor(&g, x)
	g.Lease = s.replace(r.key, to, lease.EncodeAttrs(x.req.Attrs), t).lease
	return g, nil
}

func (s *Store) release(g lease.Grant) error {
	if r, err := s.own(g); err == nil {
		s.remove(r.key)
	}
	return nil
}

// own finds the record of a grant, in any spelling, if it is unchanged.
func (s *Store) own(g lease.Grant) (*record, error) {
	r := s.records[s.subnetKey(g.Key)]
	if r == nil || r.create != g.CreateRevision {
		for _, other := range s.byName() {
			if other.lease.Key == g.Key && other.create == g.CreateRevision {
				r = other
			}
		}
	}
	switch {
	case r == nil:
		return nil, lease.ErrLost
	case r.mod != g.ModRevision:
		return nil, &lease.ConflictError{Key: g.Key, Revision: r.mod}
	}
	return r, nil
}
