package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"time"

	"github.com/flanneld/flannel/core/lease"
	"github.com/flanneld/flannel/drivers/remote/api"
)

// oldTTL is the TTL of every lease that an old client gets (interop 3.4).
const oldTTL = 24 * time.Hour

// find implements position.
func (f *feed) find(revision int64) place {
	f.mu.Lock()
	defer f.mu.Unlock()
	p := place{step: f.steps.at[revision], moved: f.moved}
	if f.view.Snapshot != nil {
		p.now = f.view.Snapshot.Revision
	}
	return p
}

// step adds the change from one snapshot to the next for old clients.
func (f *feed) step(before, now *lease.Snapshot) {
	if before == nil || before.History != now.History || now.Revision < before.Revision {
		f.steps.forget()
	}
	added, removed := diff(before, now)
	var events []api.Event
	for _, l := range removed {
		if l.Key.V4.IsValid() {
			events = append(events, api.Event{Type: api.Removed, Lease: listed(l)})
		}
	}
	for _, l := range added {
		if l.Key.V4.IsValid() {
			events = append(events, api.Event{Type: api.Added, Lease: listed(l)})
		}
	}
	f.steps.add(now.Revision, events)
}

// listed returns a lease as lists and events show it. Its expiration is a day from
// now: only the owner of a lease needs the exact one, and asking for each would
// cost the datastore a request for each lease (interop E2).
func listed(l *lease.Lease) api.Lease {
	var expires time.Time
	if !l.Reserved() {
		expires = time.Now().Add(oldTTL).Truncate(time.Second)
	}
	plain := *l
	plain.Attrs.Creator = ""
	return api.LeaseOf(plain, expires)
}

// synced returns the present snapshot if it follows the datastore.
func (f *feed) synced() (*lease.Snapshot, error) {
	v, _ := f.now()
	if !v.Synced || v.Snapshot == nil {
		if v.Err != nil {
			return nil, unavailable(v.Err)
		}
		return nil, unavailable(errUnread)
	}
	return v.Snapshot, nil
}

// watchLeases answers with a snapshot, with the first event after a cursor, or
// with a stream for clients that sent terms.
func (s *Server) watchLeases(w http.ResponseWriter, c call) error {
	if c.ours {
		return s.stream(w, c)
	}
	if c.URL.Query().Has("next") {
		at, err := await(c.Context(), c.feed, c.URL.Query().Get("next"), func(*step) bool { return true })
		if err != nil {
			return err
		}
		if at != nil {
			return reply(w, at.body)
		}
	}
	return s.list(w, c, &c.feed.leases, func(snap *lease.Snapshot) ([]byte, error) {
		list := make([]api.Lease, 0, len(snap.Leases))
		for _, l := range snap.Leases {
			if l.Key.V4.IsValid() {
				list = append(list, listed(l))
			}
		}
		return encode(api.Watched{Snapshot: list, Cursor: api.Cursor(snap.Revision)}), nil
	})
}

// watchLease answers the same for one lease, with its true expiration.
func (s *Server) watchLease(w http.ResponseWriter, c call) error {
	key, err := keyOf(c)
	if err != nil {
		return err
	}
	watches := c.URL.Query().Has("next")
	if watches {
		at, err := await(c.Context(), c.feed, c.URL.Query().Get("next"),
			func(st *step) bool { return st.event.Lease.Subnet == key.V4 })
		if err != nil {
			return err
		}
		if at != nil && at.event.Type == api.Removed {
			return reply(w, at.body)
		}
		if at != nil {
			event := *at.event
			l, snap, err := c.feed.lease(key)
			if err == nil && snap.Revision == at.cursor {
				event.Lease, err = s.exact(c.Context(), c.feed, l)
			}
			if err != nil {
				event = *at.event // the next event says more
			}
			return reply(w, encode(api.Watched{Events: []api.Event{event}, Cursor: api.Cursor(at.cursor)}))
		}
	}
	l, snap, err := c.feed.lease(key)
	if errors.Is(err, errNoLease) && watches {
		event := api.Event{Type: api.Removed, Lease: api.Lease{Subnet: key.V4}}
		return reply(w, encode(api.Watched{Events: []api.Event{event}, Cursor: api.Cursor(snap.Revision)}))
	}
	if err != nil {
		return err
	}
	exact, err := s.exact(c.Context(), c.feed, l)
	if err != nil {
		return err
	}
	return reply(w, encode(api.Watched{Snapshot: []api.Lease{exact}, Cursor: api.Cursor(snap.Revision)}))
}

// exact returns a lease with its true expiration.
func (s *Server) exact(ctx context.Context, f *feed, l *lease.Lease) (api.Lease, error) {
	shown := listed(l)
	if l.Reserved() {
		return shown, nil
	}
	left, err := f.store.Remaining(ctx, *l)
	shown.Expiration = s.o.Now().Add(left)
	return shown, err
}

var errUnread = errors.New("the datastore has not been read yet")

var errNoLease = errors.New("no lease")

// lease returns the lease of an IPv4 subnet, as old clients name it. The
// snapshot is not nil if the error is errNoLease.
func (f *feed) lease(key lease.Key) (*lease.Lease, *lease.Snapshot, error) {
	snap, err := f.synced()
	if err != nil {
		return nil, nil, err
	}
	for _, l := range snap.Leases {
		if l.Key.V4 == key.V4 && key.V4.IsValid() {
			return l, snap, nil
		}
	}
	return nil, snap, fmt.Errorf("subnet %s: %w", key, errNoLease)
}

// keyOf returns the subnet in the path.
func keyOf(c call) (lease.Key, error) {
	key, err := lease.ParseKey(c.PathValue("key"))
	if err == nil && key.String() != c.PathValue("key") {
		err = fmt.Errorf("key %q: want %s", c.PathValue("key"), key)
	}
	if err != nil {
		return lease.Key{}, bad(err)
	}
	return key, nil
}

// reply sends an answer.
func reply(w http.ResponseWriter, body []byte) error {
	w.Header().Set("Content-Type", contentType)
	_, _ = w.Write(body) // the client may be gone
	return nil
}

// listReservations answers with all leases that never expire.
func (s *Server) listReservations(w http.ResponseWriter, c call) error {
	return s.list(w, c, &c.feed.reservations, func(snap *lease.Snapshot) ([]byte, error) {
		list := []api.Reservation{}
		for _, l := range snap.Leases {
			if l.Reserved() && l.Key.V4.IsValid() {
				ip := l.Attrs.PublicIP
				if !ip.IsValid() {
					ip = netip.IPv4Unspecified()
				}
				list = append(list, api.Reservation{Subnet: l.Key.V4, PublicIP: ip})
			}
		}
		return encode(list), nil
	})
}
