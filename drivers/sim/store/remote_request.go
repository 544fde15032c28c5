package store

import (
	"errors"
	"time"

	"github.com/flanneld/flannel/core/lease"
	"github.com/flanneld/flannel/core/node"
	"github.com/flanneld/flannel/drivers/sim/world"
)

// remoteRequest is a request to servers, until its client knows the outcome or gives up.
type remoteRequest struct {
	client   *Client
	req      node.Request
	began    time.Time
	deadline *world.Event
	done     func(node.Requested)
}

// doServers sends a request to the server in use, and to the others in turn as long as none has
// carried it out.
func (c *Client) doServers(req node.Request, done func(node.Requested)) {
	if req.Verb == node.Renew {
		if req.Grant.Reserved() {
			c.store.world.After(0, c.label.down, func() {
				c.arrive(func() { done(node.Requested{Grant: req.Grant}) })
			})
			return
		}
		if asked, doubted := c.remote.doubts.ttl(req.Grant.Key); doubted {
			req.Verb, req.Attrs = node.Update, req.Grant.Attrs
			req.TTL = asked
		}
	}
	x := &remoteRequest{client: c, req: req, began: c.now(), done: done}
	c.remote.doubts.count(req, 1)
	x.deadline = c.store.world.After(c.limit(req), c.label.timeout, func() {
		c.arrive(func() { x.finish(lease.Grant{}, errStoreNoAnswer) })
	})
	x.try(c.remote.at, 1, c.drawRemoteFate())
}

// drawRemoteFate returns the trip of a request to a server.
func (c *Client) drawRemoteFate() trip {
	if len(c.fates) > 0 {
		return c.drawFate()
	}
	t := trip{up: c.latency(), down: c.latency()}
	t.loseAnswer = world.Chance(c.rng.request, c.remote.uses().faults.LoseAnswer)
	return t
}

// try asks one server.
func (x *remoteRequest) try(at, tries int, t trip) {
	c, servers := x.client, x.client.remote.servers
	srv := servers[at%len(servers)]
	next := func(err error) {
		if x.done != nil && tries < len(servers) {
			x.try(at+1, tries+1, trip{up: c.latency(), down: c.latency()})
			return
		}
		x.finish(lease.Grant{}, err)
	}
	harmless := x.req.Verb == node.Renew || x.req.Verb == node.Release
	c.ask(srv, t, func(answer func(func())) {
		srv.handle(c.name, x.asked(), func(g lease.Grant, err error) {
			answer(func() {
				if errors.Is(err, errServerBehind) {
					next(err)
					return
				}
				x.finish(g, err)
			})
		})
	}, func(began bool) {
		if began && !harmless {
			x.finish(lease.Grant{}, errServerReset)
			return
		}
		next(errServerAway)
	})
}

// asked returns the request as the server gets it. A record that is in doubt needs another TTL.
func (x *remoteRequest) asked() node.Request {
	req := x.req
	if _, doubted := x.client.remote.doubts.ttl(req.Grant.Key); doubted && !req.Grant.Reserved() {
		req.Grant.TTL = 0
	}
	return req
}

// finish reports the outcome.
func (x *remoteRequest) finish(g lease.Grant, err error) {
	if x.done == nil {
		return
	}
	c, req := x.client, x.req
	done := x.done
	x.done = nil
	x.deadline.Cancel()
	d := &c.remote.doubts
	d.count(req, -1)
	switch unknown := err != nil && !refusedRemotely(err); {
	case req.Verb == node.Create && unknown:
		c.doubt(req)
	case req.Verb == node.Create && err == nil:
		d.settle(req.Key)
	case req.Verb == node.Release:
		if errors.Is(err, lease.ErrConflict) || errors.Is(err, lease.ErrLost) {
			err = nil
		}
	case req.Verb == node.Move && (err == nil || unknown):
		d.settle(req.Key) // the record there may be the node's own
		if err == nil {
			d.settle(req.Grant.Key)
		}
	case err == nil:
		d.settle(req.Grant.Key)
	}
	if err != nil {
		done(node.Requested{Err: storeError(req, err)})
		return
	}
	done(node.Requested{Grant: x.granted(g)})
}

// granted counts the TTL from when the client asked. Without a renewal the handle ends when it did.
func (x *remoteRequest) granted(g lease.Grant) lease.Grant {
	if x.req.Verb == node.Release {
		return lease.Grant{}
	}
	if g.Reserved() {
		return g
	}
	switch {
	case x.req.Verb != node.Renew && x.req.Verb != node.Create && g.ID == x.req.Grant.ID:
		g.Expires = x.req.Grant.Expires
	default:
		g.Expires = x.began.Add(g.TTL)
	}
	return g
}
