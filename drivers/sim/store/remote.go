package store

import (
	"errors"
	"slices"
	"time"

	"github.com/flanneld/flannel/core/lease"
	"github.com/flanneld/flannel/drivers/sim/world"
)

// steady is how long a client has to follow a server for its next wait to be short again.
const steady = 10 * time.Second

// remote is the part of a [Client] of servers: which of them it uses. It is a model of package
// drivers/remote.
type remote struct {
	servers []*Server
	at      int       // the server in use
	tried   int       // servers in a row that were of no use
	since   time.Time // when the present stream began
	doubts  doubts
}

// uses returns the server in use.
func (r *remote) uses() *Server { return r.servers[r.at] }

// reaches reports whether packets get to a server and back.
func (c *Client) reaches(srv *Server) bool { return c.reachable() && !srv.faults.Cut }

// ask sends a request to a server. Act gets a function that answers, once. Without an answer,
// dead runs when the client learns that the connection is gone; began says whether the server had the request.
func (c *Client) ask(srv *Server, t trip, act func(answer func(func())), dead func(began bool)) {
	w := c.store.world
	back := func(fn func()) {
		w.After(t.down+world.UpTo(c.rng.latency, srv.faults.SlowBy), c.label.down, func() {
			if c.reaches(srv) {
				c.arrive(fn)
			}
		})
	}
	w.After(t.up, c.label.up, func() {
		switch {
		case t.loseRequest || !c.reaches(srv):
			return
		case srv.client == nil:
			back(func() { dead(false) })
			return
		}
		one := &call{reset: func() { back(func() { dead(true) }) }}
		srv.calls = append(srv.calls, one)
		act(func(fn func()) {
			at := slices.Index(srv.calls, one)
			if at < 0 {
				return // the server has ended since
			}
			srv.calls = slices.Delete(srv.calls, at, at+1)
			if !t.loseAnswer {
				back(fn)
			}
		})
	})
}

// connectServer opens a stream at the server in use.
func (c *Client) connectServer() {
	srv, dial := c.remote.uses(), c.dialing
	fail := func(err error) {
		if c.dialing == dial {
			c.disconnected(err)
		}
	}
	c.ask(srv, trip{up: c.latency(), down: c.latency()}, func(answer func(func())) {
		if err := c.turnedAway(); err != nil {
			answer(func() { fail(err) })
			return
		}
		srv.catchUp(func(ok bool) {
			if !ok {
				answer(func() { fail(errServerBehind) })
				return
			}
			v := srv.client.known
			st := &storeStream{client: c, server: srv, busy: true, at: v}
			srv.streams = append(srv.streams, st)
			answer(func() {
				if c.dialing != dial || st.ended {
					c.store.endStream(st)
					fail(errServerReset)
					return
				}
				c.follow(st, v)
			})
		})
	}, func(began bool) {
		if began {
			fail(errServerReset)
		} else {
			fail(errServerAway)
		}
	})
}

// turnedAway returns the reason why a server refuses the client, or nil.
func (c *Client) turnedAway() error {
	switch {
	case c.store.denied[c.name]:
		return errStoreDenied
	case c.expired:
		c.expired = false
		return errStoreToken
	}
	return nil
}

// follow begins with the version that the stream starts from.
func (c *Client) follow(st *storeStream, v *storeVersion) {
	c.stream, c.got = st, 0
	c.dialing++ // this dial has ended
	c.remote.since = c.store.world.Now()
	c.takeOver(st.server, v)
	c.setView(lease.View{Snapshot: c.view.Snapshot, Synced: true})
	st.busy = false
	st.pump()
}

// takeOver makes a server's version the client's. A good value that either has seen stays.
func (c *Client) takeOver(srv *Server, v *storeVersion) {
	if c.known == nil || c.known.epoch != v.epoch {
		c.first = v.snap.Revision
	}
	if srv.client != nil {
		c.first = min(c.first, srv.client.first)
	}
	c.known = v
	snap := v.seenFrom(c.first)
	if snap.Config.AbsentAt != 0 || snap.Config.Deleted { // which the protocol does not tell
		plain := *snap
		plain.Config = lease.Document{Data: snap.Config.Data, Revision: snap.Config.Revision}
		snap = &plain
	}
	c.setView(lease.View{Snapshot: snap, Synced: c.view.Synced, Err: c.view.Err})
}

// lostServer turns to the next server, after a wait when none was of use.
func (c *Client) lostServer(reason error) {
	r := c.remote
	if c.stream != nil && c.store.world.Now().Sub(r.since) >= steady {
		r.tried, c.attempt = 0, 0
	}
	c.dialing++
	c.stream = nil
	r.at = (r.at + 1) % len(r.servers)
	r.tried++
	wait := time.Duration(0)
	if r.tried%len(r.servers) == 0 {
		wait = min(redialFirst<<min(c.attempt, 10), redialMost)
		wait = wait/2 + world.UpTo(c.rng.redial, wait)
		c.attempt++
	}
	c.redial.Cancel()
	c.redial = c.store.world.After(wait, c.label.connect, func() { c.arrive(c.connect) })
	c.setView(lease.View{Snapshot: c.view.Snapshot, Err: reason})
}

// refusedRemotely reports whether an error means that nothing has changed.
func refusedRemotely(err error) bool {
	for _, known := range []error{lease.ErrConflict, lease.ErrLost, errServerBehind, errStoreDenied, errServerAway} {
		if errors.Is(err, known) {
			return true
		}
	}
	return false
}
