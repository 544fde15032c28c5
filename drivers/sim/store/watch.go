package store

import (
	"errors"
	"time"

	"github.com/flanneld/flannel/core/lease"
	"github.com/flanneld/flannel/drivers/sim/world"
)

// storeStream brings the changes to a client, in batches with consecutive numbers.
// One batch is under way at a time; changes in the meantime go into the next one. A
// batch is a whole version: the result of the changes at the client.
type storeStream struct {
	client *Client
	server *Server // that the stream is from; nil: from the store itself
	sent   uint64  // batches
	busy   bool    // a batch is under way
	dirty  bool    // the store has changed since the last batch
	ended  bool
	at     *storeVersion // the version of the client after the last batch
}

// The waits between two attempts to connect (interop 3.8: watching).
const (
	redialFirst = 100 * time.Millisecond
	redialMost  = 5 * time.Second
)

// Nodes that have to read everything again spread over a time that grows with
// their number, as in drivers/etcd.
const (
	rereadPeer = 10 * time.Millisecond
	rereadMost = time.Minute
)

// overtaken is how late a reordered batch arrives.
const overtaken = time.Second

// pump sends the next batch, unless one is under way.
func (st *storeStream) pump() {
	if st.busy || !st.dirty || st.ended {
		return
	}
	c := st.client
	f := st.faults()
	rng := c.rng.watch
	w := c.store.world
	if world.Chance(rng, f.WatchBreak) {
		c.store.endStream(st)
		st.end(errStoreBroken)
		return
	}
	st.busy, st.dirty = true, false
	st.sent++
	seq, version := st.sent, st.newest()
	if st.server == nil {
		c.store.served.Bytes += version.written - st.at.written
	}
	st.at = version
	delay := c.latency() + world.UpTo(rng, f.WatchDelay)
	lost := world.Chance(rng, f.WatchLose)
	arrive := func() {
		switch {
		case !st.reachable():
			st.ended = true // the server cannot tell the client, which will find out
			c.store.endStream(st)
		case !lost:
			c.arrive(func() { c.take(st, seq, version) })
		}
	}
	free := func() { st.busy = false; st.pump() }
	if world.Chance(rng, f.WatchReorder) {
		w.After(delay, c.label.batch, free)
		w.After(delay+overtaken, c.label.batch, arrive)
		return
	}
	if world.Chance(rng, f.WatchDuplicate) {
		w.After(2*delay, c.label.batch, arrive)
	}
	w.After(delay, c.label.batch, func() { arrive(); free() })
}

// end closes the stream from the server's side and tells the client the reason,
// if a packet can still reach it.
func (st *storeStream) end(reason error) {
	if st.ended {
		return
	}
	st.ended = true
	c := st.client
	c.store.world.After(c.latency(), c.label.batch, func() {
		if st.reachable() {
			c.arrive(func() {
				if c.stream == st {
					c.disconnected(reason)
				}
			})
		}
	})
}

// endStream makes the server forget a stream.
func (s *Store) endStream(st *storeStream) {
	streams := &s.streams
	if st.server != nil {
		streams = &st.server.streams
	}
	for i, other := range *streams {
		if other == st {
			*streams = append((*streams)[:i:i], (*streams)[i+1:]...)
			return
		}
	}
}

// newest returns the newest version at the other end of the stream.
func (st *storeStream) newest() *storeVersion {
	if st.server != nil {
		return st.server.client.known
	}
	return st.client.store.version
}

// faults returns those of the stream. A server's is a TCP connection: its changes may be late, and no
// more.
func (st *storeStream) faults() *Faults {
	if st.server != nil {
		return &Faults{WatchDelay: st.server.faults.SlowBy}
	}
	return &st.client.store.faults
}

// reachable reports whether packets get from the other end of the stream to the client.
func (st *storeStream) reachable() bool {
	return st.client.reachable() && (st.server == nil || !st.server.faults.Cut)
}

// take accepts a batch. The numbers show faults of the stream: the client
// ignores a repeated batch, and after a gap it reads everything again, so no
// snapshot ever lacks a change that is older than itself.
func (c *Client) take(st *storeStream, seq uint64, v *storeVersion) {
	if c.stream != st {
		c.store.endStream(st)
		return
	}
	if seq <= c.got {
		return
	}
	if seq > c.got+1 {
		c.store.endStream(st)
		c.disconnected(errStoreGap)
		return
	}
	c.got = seq
	if st.server != nil {
		c.takeOver(st.server, v)
		return
	}
	had := c.view.Snapshot.Config
	c.accept(v)
	c.sawDelete(had)
	c.setView(lease.View{Snapshot: c.view.Snapshot, Synced: true})
}

// accept takes over a version, unless a newer one is known already.
func (c *Client) accept(v *storeVersion) {
	if c.known == nil || c.known.epoch != v.epoch {
		c.first, c.nodes.written = v.snap.Revision, 0
	} else if v.snap.Revision < max(c.known.snap.Revision, c.nodes.written) {
		return // a stale read: the stream brings the rest
	}
	c.known = v
	snap := v.seenFrom(c.first)
	if c.nodes.table != nil {
		snap = c.acceptNodes(v)
	}
	c.setView(lease.View{Snapshot: snap, Synced: c.view.Synced, Err: c.view.Err})
}

// sawDelete notes that the client's stream has shown the end of the config.
func (c *Client) sawDelete(had lease.Document) {
	now := c.view.Snapshot
	if now.Config.AbsentAt == 0 || had.Revision == 0 && !had.Deleted {
		return
	}
	snap := *now
	snap.Config.Deleted = true
	c.setView(lease.View{Snapshot: &snap, Synced: c.view.Synced, Err: c.view.Err})
}

func (c *Client) setView(v lease.View) {
	v.Assigned = c.nodes.assigned
	if v == c.view {
		return
	}
	c.view = v
	c.changed.Send()
	if c.onChange != nil {
		c.onChange()
	}
}

// connect opens a stream of the changes after the newest known version, as a
// daemon does; without one, or if the server no longer has the changes after
// it, the client reads everything first.
func (c *Client) connect() {
	c.dialing++
	c.awaitDial()
	if c.remote != nil {
		c.connectServer()
		return
	}
	if c.known != nil && !c.reread {
		c.watch(c.known)
		return
	}
	dial := c.dialing
	c.send(trip{up: c.latency(), down: c.latency()}, func() (answer func()) {
		v, err := c.store.list(c)
		return func() {
			if c.dialing != dial {
				return
			}
			if err != nil {
				c.disconnected(err)
				return
			}
			c.reread = false
			c.accept(v)
			c.setView(lease.View{Snapshot: c.view.Snapshot, Err: errStoreStarting})
			c.watch(v)
		}
	})
}

// watch opens the stream of the changes after a version.
func (c *Client) watch(v *storeVersion) {
	dial := c.dialing
	c.send(trip{up: c.latency(), down: c.latency()}, func() (answer func()) {
		st, err := c.store.subscribe(c, v)
		return func() {
			if c.dialing != dial {
				if err == nil {
					c.store.endStream(st)
				}
				return
			}
			if err != nil {
				c.reread = errors.Is(err, errStoreCompacted) || errors.Is(err, errStoreHistory)
				c.disconnected(err)
				return
			}
			c.attempt = 0
			c.stream = st
			c.got = 0
			c.dialing++    // this dial has ended
			if !st.dirty { // else the first batch brings the view up to date
				c.setView(lease.View{Snapshot: c.view.Snapshot, Synced: true})
			}
			st.busy = false
			st.pump()
		}
	})
}

// awaitDial gives up the dial if it does not end in time.
func (c *Client) awaitDial() {
	dial := c.dialing
	c.store.world.After(c.store.opts.Timeout, c.label.timeout, func() {
		c.arrive(func() {
			if c.dialing == dial {
				c.disconnected(errStoreUnreachable)
			}
		})
	})
}

// list reads everything, at the server.
func (s *Store) list(c *Client) (*storeVersion, error) {
	if err := c.refused(); err != nil {
		return nil, err
	}
	if world.Chance(c.rng.watch, s.faults.StaleList) {
		return s.former, nil
	}
	s.served.Lists++
	s.served.Bytes += s.version.size
	return s.version, nil
}

// subscribe opens a stream, at the server. It is busy until the client knows of
// it.
func (s *Store) subscribe(c *Client, after *storeVersion) (*storeStream, error) {
	if err := c.refused(); err != nil {
		return nil, err
	}
	switch {
	case after.epoch != s.epoch:
		return nil, errStoreHistory
	case after != s.version && after.snap.Revision < s.compacted:
		return nil, errStoreCompacted
	}
	st := &storeStream{client: c, dirty: after != s.version, busy: true, at: after}
	s.streams = append(s.streams, st)
	return st, nil
}

// disconnected records that the view no longer follows the store, and tries
// again after a wait that doubles.
func (c *Client) disconnected(reason error) {
	if c.remote != nil {
		c.lostServer(reason)
		return
	}
	c.dialing++ // pending answers are too late
	c.stream = nil
	wait := min(redialFirst<<min(c.attempt, 10), redialMost)
	wait = wait/2 + world.UpTo(c.rng.redial, wait)
	if c.reread && c.known != nil {
		wait += world.UpTo(c.rng.redial, min(time.Duration(len(c.known.snap.Leases))*rereadPeer, rereadMost))
	}
	c.attempt++
	c.redial.Cancel()
	c.redial = c.store.world.After(wait, c.label.connect, func() { c.arrive(c.connect) })
	c.setView(lease.View{Snapshot: c.view.Snapshot, Err: reason})
}

// schedulePing lets the client check at intervals whether its stream is still
// alive: a partition ends one silently.
func (c *Client) schedulePing() {
	every := c.store.opts.Ping
	c.ping = c.store.world.After(every*3/4+world.UpTo(c.rng.ping, every/2), c.label.ping, func() {
		if !c.frozen {
			c.checkStream()
		}
		c.schedulePing()
	})
}

func (c *Client) checkStream() {
	st := c.stream
	lost := func(reason error) {
		c.store.endStream(st)
		st.ended = true
		c.disconnected(reason)
	}
	if st == nil {
		return
	}
	switch {
	case !st.reachable():
		lost(errStoreUnreachable)
	case st.ended:
		lost(errStoreBroken)
	case !st.busy && st.sent != c.got:
		lost(errStoreGap)
	}
}
