package store

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/flanneld/flannel/core/alloc"
	"github.com/flanneld/flannel/core/config"
	"github.com/flanneld/flannel/core/lease"
	"github.com/flanneld/flannel/core/node"
	"github.com/flanneld/flannel/drivers/sim/world"
)

// firstWait is how long a server waits for the datastore before it refuses a client.
const firstWait = 2 * time.Second

// Server is a model of a flanneld with --listen (package drivers/remote/server): nodes get
// their leases from it, and it gets them from the store by a [Client] of its own, whose view
// may lag. It keeps nothing over a restart.
type Server struct {
	store  *Store
	name   string
	client *Client // of the store; nil: the server is down
	faults ServerFaults

	streams []*storeStream // of nodes
	calls   []*call        // under way
	waiting []*waiting
}

// ServerFaults are the faults of a server and of the ways to it.
type ServerFaults struct {
	Cut        bool          // no packet gets from nodes to it, or back
	Parted     bool          // no packet gets from it to the datastore, or back
	SlowBy     time.Duration // answers and changes take up to this much longer
	LoseAnswer float64       // the connection of a request stalls before the answer
}

// call is a request of a node that the server has not answered.
type call struct{ reset func() }

// waiting is a condition on the server's view for which a request waits.
type waiting struct {
	cond func() bool
	done func(ok bool)
	late *world.Event
}

// Errors of a server. The last two tell a node that nothing has changed.
var (
	errServerReset  = errors.New("the server has reset the connection")
	errServerAway   = errors.New("connection refused by the server")
	errServerBehind = errors.New("the server does not follow the datastore")
)

// NewServer starts a server.
func (s *Store) NewServer(name string) *Server {
	srv := &Server{store: s, name: name}
	s.servers = append(s.servers, srv)
	srv.Start()
	return srv
}

// Start starts the server again, if it is down.
func (srv *Server) Start() {
	if srv.client != nil {
		return
	}
	srv.store.world.Note(srv.name+": start", "")
	srv.client = srv.store.Client(srv.name, ClientOptions{})
	srv.client.Cut(srv.faults.Parted)
	srv.client.OnChange(srv.viewChanged)
}

// Stop kills the server. Its clients notice at once, if packets reach them. What it has asked
// of the datastore may still be carried out.
func (srv *Server) Stop() {
	if srv.client == nil {
		return
	}
	srv.store.world.Note(srv.name+": stop", "")
	srv.client.Close()
	srv.client = nil
	for _, w := range srv.waiting {
		w.late.Cancel()
	}
	calls := srv.calls
	srv.waiting, srv.calls = nil, nil
	srv.endStreams(errServerReset)
	for _, c := range calls {
		c.reset()
	}
}

// Faults returns the present faults.
func (srv *Server) Faults() ServerFaults { return srv.faults }

// SetFaults replaces all faults from now on.
func (srv *Server) SetFaults(f ServerFaults) {
	srv.faults = f
	srv.store.world.Note(srv.name+": faults", fmt.Sprintf("%+v", f))
	if srv.client != nil {
		srv.client.Cut(f.Parted)
	}
}

// viewChanged hands a change of the server's view on to nodes and waiting requests. A server that
// no longer follows the datastore ends its streams.
func (srv *Server) viewChanged() {
	if v := srv.client.View(); !v.Synced {
		srv.endStreams(v.Err)
	}
	for _, st := range slices.Clone(srv.streams) {
		st.dirty = st.at != srv.client.known
		st.pump()
	}
	for _, w := range slices.Clone(srv.waiting) {
		if w.cond() && srv.forget(w) {
			w.done(true)
		}
	}
}

func (srv *Server) endStreams(reason error) {
	streams := srv.streams
	srv.streams = nil
	for _, st := range streams {
		st.end(reason)
	}
}

// forget removes a waiting condition; false if it was gone already.
func (srv *Server) forget(w *waiting) bool {
	at := slices.Index(srv.waiting, w)
	if at < 0 {
		return false
	}
	w.late.Cancel()
	srv.waiting = slices.Delete(srv.waiting, at, at+1)
	return true
}

// await calls done(true) once the server's view fulfils cond, or done(false) after firstWait.
func (srv *Server) await(cond func() bool, done func(ok bool)) {
	if cond() {
		done(true)
		return
	}
	w := &waiting{cond: cond, done: done}
	w.late = srv.store.world.After(firstWait, srv.name+": wait ends", func() {
		if srv.forget(w) {
			done(false)
		}
	})
	srv.waiting = append(srv.waiting, w)
}

// synced reports whether the view follows the datastore.
func (srv *Server) synced() bool { return srv.client.View().Synced }

// catchUp calls done once the view shows all that was written before: the server asks the datastore
// for its revision, and waits for the changes up to it.
func (srv *Server) catchUp(done func(ok bool)) {
	c, asked := srv.client, false
	var want *storeVersion
	c.send(c.drawTrip(), func() (answer func()) {
		now, err := srv.store.version, c.refused()
		return func() {
			asked = err == nil
			want = now
			srv.viewChanged()
		}
	})
	srv.await(func() bool {
		return asked && srv.synced() && c.known.epoch == want.epoch && c.known.number >= want.number
	}, done)
}

// handle carries out the request of a node. The answer has an error that wraps errServerBehind if
// nothing has changed and another server may do better.
func (srv *Server) handle(of string, req node.Request, answer func(lease.Grant, error)) {
	if srv.store.denied[of] {
		answer(lease.Grant{}, errStoreDenied)
		return
	}
	if req.Verb == node.Create {
		srv.create(of, req, answer)
		return
	}
	reached := func() bool {
		return srv.synced() && srv.client.View().Snapshot.Revision >= req.Grant.ModRevision
	}
	srv.await(reached, func(ok bool) {
		if !ok {
			answer(lease.Grant{}, errServerBehind)
			return
		}
		if l, err := named(srv.client.View().Snapshot, req); err == nil {
			srv.passOn(of, req, *l, answer)
			return
		}
		// The node may know more by another server.
		srv.catchUp(func(ok bool) {
			if !ok {
				answer(lease.Grant{}, errServerBehind)
				return
			}
			l, err := named(srv.client.View().Snapshot, req)
			if err != nil {
				answer(lease.Grant{}, err)
				return
			}
			srv.passOn(of, req, *l, answer)
		})
	})
}

// create passes a request for a new lease on, unless the node holds one. It gives the new one up if an older one turns
// up afterwards.
func (srv *Server) create(of string, req node.Request, answer func(lease.Grant, error)) {
	if held := srv.held(req); held != nil {
		answer(lease.Grant{}, &lease.ConflictError{Key: held.Key, Revision: held.ModRevision})
		return
	}
	srv.pass(of, req, func(g lease.Grant, err error) {
		if err != nil || srv.client == nil {
			answer(g, err)
			return
		}
		srv.catchUp(func(ok bool) {
			held := srv.held(req)
			if !ok || held == nil || held.CreateRevision > g.CreateRevision {
				answer(g, nil)
				return
			}
			srv.pass(of, node.Request{Verb: node.Release, Grant: g}, func(_ lease.Grant, err error) {
				if err == nil {
					err = &lease.ConflictError{Key: held.Key, Revision: held.ModRevision}
				}
				answer(lease.Grant{}, err)
			})
		})
	})
}

// held returns the lease that a node holds already. The nodes of the simulation share a certificate, so their
// addresses tell them apart.
func (srv *Server) held(req node.Request) *lease.Lease {
	snap := srv.client.View().Snapshot
	if snap == nil {
		return nil
	}
	network, _ := config.Parse(snap.Config.Data) // without one, the IPv4 address counts
	return alloc.Holder{Attrs: req.Attrs, Network: network}.Other(snap.Leases, req.Key)
}

// passOn passes a request about a record on. The record keeps its own handle.
func (srv *Server) passOn(of string, req node.Request, present lease.Lease, answer func(lease.Grant, error)) {
	if req.Verb == node.Release {
		req.Grant = lease.Grant{Lease: present}
	}
	req.Grant.ID, req.Grant.CreateRevision = present.ID, present.CreateRevision
	srv.pass(of, req, answer)
}

// pass asks the datastore on behalf of a node.
func (srv *Server) pass(of string, req node.Request, answer func(lease.Grant, error)) {
	req.Limit = 0
	srv.client.doFor(of, req, func(r node.Requested) { answer(r.Grant, r.Err) })
}

// named returns the record that a request is about. A record of another revision is a conflict, except
// for a renewal, which goes by the TTL.
func named(snap *lease.Snapshot, req node.Request) (*lease.Lease, error) {
	g, renews := req.Grant, req.Verb == node.Renew
	for _, l := range snap.Leases {
		if l.Key != g.Key {
			continue
		}
		switch {
		case renews && l.ID != g.ID:
			return nil, lease.ErrLost
		case !renews && l.ModRevision != g.ModRevision:
			return nil, &lease.ConflictError{Key: l.Key, Revision: l.ModRevision}
		default:
			return l, nil
		}
	}
	overwritten := func(q lease.Quarantined) bool { return q.Key == g.Key }
	if !renews && slices.ContainsFunc(snap.Quarantined, overwritten) {
		return nil, &lease.ConflictError{Key: g.Key, Revision: g.ModRevision + 1}
	}
	for _, l := range snap.Leases {
		if req.Verb == node.Move && l.Key == req.Key {
			return nil, &lease.ConflictError{Key: l.Key, Revision: l.ModRevision}
		}
	}
	return nil, lease.ErrLost
}
