package server

import (
	"net/http"
	"slices"
	"sync"

	"github.com/flanneld/flannel/drivers/remote/api"
)

// mostNetworks bounds the networks that a server follows: each costs the datastore
// a watch.
const mostNetworks = 1000

// names holds the networks that exist, and the steps by which they came and went.
type names struct {
	mu       sync.Mutex
	list     []string // nil until the datastore was read
	revision int64
	body     []byte // the answer with the list
	steps    steps
	moved    chan struct{}
}

func newNames() *names {
	n := &names{moved: make(chan struct{})}
	n.steps.start()
	return n
}

// find implements position.
func (n *names) find(revision int64) place {
	n.mu.Lock()
	defer n.mu.Unlock()
	return place{n.steps.at[revision], n.revision, n.moved}
}

// set replaces the list, and returns the names that came and went.
func (n *names) set(list []string, revision int64) (came, went []string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if revision < n.revision {
		n.steps.forget()
	}
	var events []api.Event
	for _, name := range n.list {
		if !slices.Contains(list, name) {
			went = append(went, name)
			events = append(events, api.Event{Type: api.Removed, Network: name})
		}
	}
	for _, name := range list {
		if !slices.Contains(n.list, name) {
			came = append(came, name)
			events = append(events, api.Event{Type: api.Added, Network: name})
		}
	}
	n.list, n.revision = append([]string{}, list...), revision
	n.body = encode(api.WatchedNetworks{Snapshot: n.list, Cursor: api.Cursor(revision)})
	n.steps.add(revision, events)
	close(n.moved)
	n.moved = make(chan struct{})
	return came, went
}

// followNetworks opens and closes feeds as networks come and go.
func (s *Server) followNetworks(from Networks) {
	for {
		if list, revision, synced := from.Names(); synced {
			if len(list) > mostNetworks {
				s.o.Log.Error("too many networks; the last ones are not served", "are", len(list), "most", mostNetworks)
				list = list[:mostNetworks]
			}
			came, went := s.names.set(list, revision)
			for _, name := range came {
				if _, err := s.open(name); err != nil {
					s.o.Log.Error("network is not served", "name", name, "err", err)
				}
			}
			for _, name := range went {
				s.retire(name)
			}
		}
		select {
		case <-from.Changed():
		case <-s.ctx.Done():
			return
		}
	}
}

// watchNetworks answers with the names of all networks, or with the first change
// after a cursor.
func (s *Server) watchNetworks(w http.ResponseWriter, r *http.Request) {
	err := func() error {
		if s.names == nil {
			return reply(w, encode(api.WatchedNetworks{Snapshot: []string{}, Cursor: api.Cursor(0)}))
		}
		if r.URL.Query().Has("next") {
			at, err := await(r.Context(), s.names, r.URL.Query().Get("next"), func(*step) bool { return true })
			if err != nil {
				return err
			}
			if at != nil {
				return reply(w, at.body)
			}
		}
		s.names.mu.Lock()
		body := s.names.body
		s.names.mu.Unlock()
		if body == nil {
			return errUnread
		}
		return reply(w, body)
	}()
	if err != nil {
		s.refuse(w, call{Request: r}, err)
	}
}
