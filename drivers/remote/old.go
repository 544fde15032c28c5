package remote

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/flanneld/flannel/core/lease"
	"github.com/flanneld/flannel/drivers/remote/api"
	"github.com/flanneld/flannel/internal/pause"
)

// The code in this file talks to servers of v0.5 to v0.7. They show neither revisions
// nor TTL handles. So a record's revision is the cursor at which the store first saw
// the present value, and its handle says only whether it expires.

// oldHandle is the ID of every lease that expires.
const oldHandle = 1

// followOld watches as an old client does: it asks for the first event after a
// cursor, one after another. The first answer is a snapshot. A cache between the two may answer each time
// at once, without an event after the cursor: then the store asks less and less often.
func (s *Store) followOld(ctx context.Context, base string, first io.Reader, follow func()) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if err := s.readConfig(ctx, base); err != nil {
		return err
	}
	asked := ""
	var idle pause.Backoff
	for body := first; ; {
		var w api.Watched
		if err := json.NewDecoder(io.LimitReader(body, maxLine)).Decode(&w); err != nil {
			return fmt.Errorf("answer to a watch: %w", err)
		}
		f, err := s.oldFrame(w)
		if err != nil {
			return err
		}
		if err := s.take(f); err != nil {
			return err
		}
		follow()
		switch news := len(w.Events) > 0 && w.Cursor != asked; {
		case news:
			idle = 0
		case asked != "" && !idle.Wait(ctx):
			return context.Cause(ctx)
		}
		asked = w.Cursor
		answer, err := s.awaitOld(ctx, cancel, base, w.Cursor)
		if err != nil {
			return cause(ctx, err)
		}
		body = bytes.NewReader(answer)
	}
}

// awaitOld asks for the first event after a cursor. Meanwhile it reads the config
// at each heartbeat, which shows that the server is alive.
func (s *Store) awaitOld(
	ctx context.Context, cancel context.CancelCauseFunc, base, cursor string,
) ([]byte, error) {
	asked := make(chan struct{})
	defer close(asked)
	s.work.Start(func() {
		beat := time.NewTicker(s.o.Heartbeat)
		defer beat.Stop()
		for {
			select {
			case <-asked:
				return
			case <-ctx.Done():
				return
			case <-beat.C:
			}
			if err := s.readConfig(ctx, base); err != nil {
				cancel(err)
				return
			}
		}
	})
	return s.get(ctx, base+"/leases?next="+url.QueryEscape(cursor))
}

// get asks an old server.
func (s *Store) get(ctx context.Context, from string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, from, nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Cache-Control", "no-cache")
	resp, err := s.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("GET %s: %s", from, textOf(resp))
	}
	return io.ReadAll(io.LimitReader(resp.Body, maxLine))
}

// readConfig reads the network config of an old server, which has no watch of it.
func (s *Store) readConfig(ctx context.Context, base string) error {
	ctx, cancel := context.WithTimeout(ctx, s.o.Timeout)
	defer cancel()
	data, err := s.get(ctx, base+"/config")
	if err != nil {
		return err
	}
	s.update(func() {
		if s.oldConfig == nil || string(s.oldConfig.Data) != string(data) {
			revision := int64(1)
			if s.oldConfig != nil {
				revision = s.oldConfig.Revision + 1
			}
			s.oldConfig = &api.Document{Data: data, Revision: revision}
		}
		if s.table != nil {
			s.table = s.table.with(*s.oldConfig)
		}
	})
	return nil
}

// with returns the table with another config.
func (t *table) with(doc api.Document) *table {
	next, snap := *t, *t.snapshot
	snap.Config = lease.Document{Data: doc.Data, Revision: doc.Revision}
	next.snapshot = &snap
	return &next
}

// oldFrame returns the frame that corresponds to an answer of an old server.
func (s *Store) oldFrame(w api.Watched) (api.Frame, error) {
	cursor, err := api.ParseCursor(w.Cursor)
	if err != nil {
		return api.Frame{}, fmt.Errorf("answer to a watch: %w", err)
	}
	s.mu.Lock()
	f := api.Frame{Revision: cursor, Whole: len(w.Events) == 0, Config: s.oldConfig}
	s.mu.Unlock()
	for _, l := range w.Snapshot {
		if f.Whole {
			f.Leases = append(f.Leases, s.oldRecord(l, cursor))
		}
	}
	for _, e := range w.Events {
		r := s.oldRecord(e.Lease, cursor)
		switch e.Type {
		case api.Added:
			f.Leases = append(f.Leases, r)
		case api.Removed:
			f.Removed = append(f.Removed, r.Key)
		default:
			return api.Frame{}, fmt.Errorf("event of the unknown type %q", e.Type)
		}
	}
	return f, nil
}

// oldRecord returns a lease with the revisions of the present record if the two are
// equal, and otherwise with the cursor as its revisions.
func (s *Store) oldRecord(l api.Lease, cursor int64) api.Record {
	r := api.Record{Key: lease.Key{V4: l.Subnet.Masked()}.String(), Attrs: l.Attrs, Create: cursor, Mod: cursor}
	if !l.Expiration.IsZero() {
		r.ID = oldHandle
	}
	key, attrs, err := l.Decode()
	if err != nil {
		return r
	}
	if was := s.record(key); was != nil {
		r.Create = was.CreateRevision
		if was.Attrs.Equal(attrs) && was.ID == r.ID {
			r.Mod = was.ModRevision
		}
	}
	return r
}

// createdOld reads an old server's answer to a Create. The server chooses the
// subnet. If it is another one, the key counts as taken: the next snapshot shows
// the node its record.
func (s *Store) createdOld(key lease.Key, body []byte, seen int64) (lease.Grant, error) {
	l, err := decodeOld(body)
	if err != nil {
		return lease.Grant{}, err
	}
	got, attrs, err := l.Decode()
	if err != nil {
		return lease.Grant{}, fmt.Errorf("the server's answer: %w", err)
	}
	if got != key {
		return lease.Grant{}, &lease.ConflictError{Key: key, Revision: seen + 1}
	}
	// The revision is unknown until the event arrives. The node compares it with
	// nothing but a snapshot, and an old server compares nothing.
	return s.oldGrant(lease.Lease{Key: key, Attrs: attrs, CreateRevision: seen + 1, ModRevision: seen + 1}, l), nil
}

// updatedOld reads an old server's answer to a Renew or Update.
func (s *Store) updatedOld(g lease.Grant, attrs lease.Attrs, body []byte) (lease.Grant, error) {
	l, err := decodeOld(body)
	if err != nil {
		return lease.Grant{}, err
	}
	updated := g.Lease
	updated.Attrs = attrs
	return s.oldGrant(updated, l), nil
}

func decodeOld(body []byte) (l api.Lease, err error) {
	err = json.Unmarshal(body, &l)
	if err != nil {
		err = fmt.Errorf("the server's answer: %w", err)
	}
	return l, err
}

// oldGrant returns a grant until an old server's expiry, by its clock.
func (s *Store) oldGrant(l lease.Lease, from api.Lease) lease.Grant {
	if from.Expiration.IsZero() {
		l.ID = 0
		return lease.Grant{Lease: l}
	}
	l.ID = oldHandle
	return lease.Grant{Lease: l, TTL: from.Expiration.Sub(s.o.Now()), Expires: from.Expiration}
}

// ownedOld reports whether the present record is the grant's. An old server does
// not compare before it deletes.
func (s *Store) ownedOld(g lease.Grant) bool {
	t := s.present()
	return t != nil && slices.ContainsFunc(t.snapshot.Leases, func(l *lease.Lease) bool {
		return l.Key == g.Key && l.Attrs.PublicIP == g.Attrs.PublicIP
	})
}
