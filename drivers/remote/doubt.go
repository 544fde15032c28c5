package remote

import (
	"context"
	"sync"
	"time"

	"github.com/flanneld/flannel/core/lease"
	"github.com/flanneld/flannel/internal/pause"
)

// doubtTimeout bounds the search for a record of unknown outcome. It is longer
// than a call's timeout, because the cause of the call's failure has to pass
// first.
const doubtTimeout = time.Minute

// doubts are the keys whose Create has an unknown outcome. The store deletes the
// record if it appears, by compare-and-swap. If the node takes it over first, its
// request changes the revision, and a delete under way does nothing.
type doubts struct {
	mu   sync.Mutex
	keys map[lease.Key]*doubt
	// asked counts the requests under way that may put a record under a key. Until
	// they are answered, the cleanup cannot tell their record from the doubtful one.
	asked map[lease.Key]int
}

// doubt is about one Create.
type doubt struct {
	attrs lease.Attrs
	asked time.Duration // the TTL
}

// ttl returns the TTL that the doubtful Create asked for; false if the key is not in doubt.
func (d *doubts) ttl(key lease.Key) (time.Duration, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if of := d.keys[key]; of != nil {
		return of.asked, true
	}
	return 0, false
}

// asking counts a request for keys as under way until the returned function is called.
func (d *doubts) asking(keys ...lease.Key) (answered func()) {
	count := func(by int) {
		d.mu.Lock()
		defer d.mu.Unlock()
		if d.asked == nil {
			d.asked = map[lease.Key]int{}
		}
		for _, key := range keys {
			d.asked[key] += by
			if d.asked[key] == 0 {
				delete(d.asked, key)
			}
		}
	}
	count(1)
	return func() { count(-1) }
}

// settle ends the doubt about a key.
func (d *doubts) settle(key lease.Key) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.keys, key)
}

// add enters a doubt, in place of an earlier one about the key.
func (d *doubts) add(key lease.Key, of *doubt) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.keys == nil {
		d.keys = map[lease.Key]*doubt{}
	}
	d.keys[key] = of
}

// remove ends one doubt. It spares a later one about the same key.
func (d *doubts) remove(key lease.Key, of *doubt) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.keys[key] == of {
		delete(d.keys, key)
	}
}

// state reports whether a doubt lasts, and whether a request for its key is under way.
func (d *doubts) state(key lease.Key, of *doubt) (lasts, asked bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.keys[key] == of, d.asked[key] > 0
}

// doubt deletes the record of a Create of unknown outcome in the background.
func (s *Store) doubt(key lease.Key, attrs lease.Attrs, ttl time.Duration) {
	of := &doubt{attrs, ttl}
	s.doubts.add(key, of)
	s.work.Start(func() {
		ctx, cancel := context.WithTimeout(s.ctx, doubtTimeout)
		defer cancel()
		s.clean(ctx, key, of)
		<-ctx.Done() // until then, a renewal says that the record is gone
		s.doubts.remove(key, of)
	})
}

// clean deletes the record under a key once it appears, unless the doubt about it
// ends first. It deletes nothing while a request for the key is under way.
func (s *Store) clean(ctx context.Context, key lease.Key, of *doubt) {
	var d pause.Backoff
	for d.Wait(ctx) {
		l := s.record(key) // first: a request that begins later gives the record another revision
		lasts, asked := s.doubts.state(key, of)
		if !lasts {
			return
		}
		if asked || l == nil || l.Reserved() || !l.Attrs.Equal(of.attrs) {
			continue
		}
		err := s.Release(ctx, lease.Grant{Lease: *l})
		if err == nil {
			return
		}
		s.o.Log.Info("record of unknown outcome not yet deleted", "key", key, "err", err)
	}
}

// record returns the lease of a key in the present snapshot; nil if there is none.
func (s *Store) record(key lease.Key) *lease.Lease {
	t := s.present()
	if t == nil {
		return nil
	}
	if i, found := t.find(key.String()); found {
		return t.entries[i].lease
	}
	return nil
}
