package remote

import (
	"context"
	"sync"
	"time"

	"github.com/flanneld/flannel/core/lease"
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
	keys map[lease.Key]doubt
}

type doubt struct {
	attrs lease.Attrs
	asked time.Duration // the TTL
}

// ttl returns the TTL that was asked for; false if the key is in no doubt.
func (d *doubts) ttl(key lease.Key) (time.Duration, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	doubt, doubted := d.keys[key]
	return doubt.asked, doubted
}

// settle ends the doubt about a key.
func (d *doubts) settle(key lease.Key) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.keys, key)
}

// add enters a doubt. It returns false if the key is in doubt already.
func (d *doubts) add(key lease.Key, attrs lease.Attrs, ttl time.Duration) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	_, doubted := d.keys[key]
	if d.keys == nil {
		d.keys = map[lease.Key]doubt{}
	}
	d.keys[key] = doubt{attrs, ttl}
	return !doubted
}

// doubt deletes the record of a Create of unknown outcome in the background.
func (s *Store) doubt(key lease.Key, attrs lease.Attrs, ttl time.Duration) {
	if !s.doubts.add(key, attrs, ttl) {
		return
	}
	s.start(func() {
		ctx, cancel := context.WithTimeout(s.ctx, doubtTimeout)
		defer cancel()
		s.clean(ctx, key)
		<-ctx.Done() // until then, a renewal says that the record is gone
		s.doubts.settle(key)
	})
}

// clean deletes the record under a key once it appears, unless the doubt about it
// ends first.
func (s *Store) clean(ctx context.Context, key lease.Key) {
	var d delay
	for d.wait(ctx) {
		doubt, doubted := s.doubts.get(key)
		if !doubted {
			return
		}
		l := s.record(key)
		if l == nil || l.Reserved() || !l.Attrs.Equal(doubt.attrs) {
			continue
		}
		err := s.Release(ctx, lease.Grant{Lease: *l})
		if err == nil {
			return
		}
		s.o.Log.Info("record of unknown outcome not yet deleted", "key", key, "err", err)
	}
}

func (d *doubts) get(key lease.Key) (doubt, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	doubt, doubted := d.keys[key]
	return doubt, doubted
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
