package remote

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/flanneld/flannel/core/lease"
	"github.com/flanneld/flannel/drivers/remote/api"
)

// errNoMove says that a server of an older release cannot carry out a Move.
var errNoMove = errors.New("the server is of a release before v0.8, which cannot move a lease to another subnet")

// Create implements lease.Store.
func (s *Store) Create(ctx context.Context, key lease.Key, attrs lease.Attrs, ttl time.Duration) (lease.Grant, error) {
	g, err := s.create(ctx, key, attrs, ttl)
	if err != nil {
		return lease.Grant{}, fmt.Errorf("create lease of %s: %w", key, err)
	}
	return g, nil
}

func (s *Store) create(ctx context.Context, key lease.Key, attrs lease.Attrs, ttl time.Duration) (lease.Grant, error) {
	if err := check(key, ttl); err != nil {
		return lease.Grant{}, err
	}
	var seen int64
	if t := s.present(); t != nil {
		seen = t.snapshot.Revision
	}
	defer s.doubts.asking(key)()
	began := s.o.Now()
	a, err := s.do(ctx, request{
		method: http.MethodPost, path: "/leases", body: lease.EncodeAttrs(attrs),
		terms: api.Terms{Key: key, TTL: ttl},
	})
	switch {
	case err != nil && !refused(err):
		s.doubt(key, attrs, ttl)
		return lease.Grant{}, err
	case err != nil:
		return lease.Grant{}, err
	}
	s.doubts.settle(key)
	if a.old {
		return s.createdOld(key, a.body, seen)
	}
	return granted(a.terms, attrs, began)
}

// check refuses a key that other readers could not parse (interop E1: one such
// key makes every upstream node drop all its peers), and a TTL that is not positive.
func check(key lease.Key, ttl time.Duration) error {
	back, err := lease.ParseKey(key.String())
	switch {
	case err != nil:
		return err
	case back != key:
		return fmt.Errorf("key %s has host bits", key)
	case ttl <= 0:
		return fmt.Errorf("TTL %s is not positive", ttl)
	}
	return nil
}

// granted returns the grant in the answer of one of our own servers.
func granted(t api.Terms, attrs lease.Attrs, began time.Time) (lease.Grant, error) {
	if !t.Key.IsValid() || t.Mod == 0 {
		return lease.Grant{}, fmt.Errorf("the server's answer %q names no record", t)
	}
	g := lease.Grant{Lease: t.Lease(attrs)}
	if !g.Reserved() {
		g.TTL, g.Expires = t.TTL, began.Add(t.TTL)
	}
	return g, nil
}

// Renew implements lease.Store. If the record comes from a Create of unknown outcome,
// Renew gives it another revision and TTL handle, so that the cleanup leaves it alone.
func (s *Store) Renew(ctx context.Context, g lease.Grant) (lease.Grant, error) {
	if g.Reserved() {
		return g, nil
	}
	op, ttl := api.Renew, g.TTL
	if asked, doubted := s.doubts.ttl(g.Key); doubted {
		op, ttl = api.Update, asked
	}
	renewed, err := s.put(ctx, op, g, g.Key, g.Attrs, ttl)
	if err != nil {
		return lease.Grant{}, fmt.Errorf("renew lease of %s: %w", g.Key, err)
	}
	return renewed, nil
}

// Update implements lease.Store.
func (s *Store) Update(ctx context.Context, g lease.Grant, attrs lease.Attrs, ttl time.Duration) (lease.Grant, error) {
	updated, err := s.put(ctx, api.Update, g, g.Key, attrs, ttl)
	if err != nil {
		return lease.Grant{}, fmt.Errorf("update lease of %s: %w", g.Key, err)
	}
	return updated, nil
}

// Move implements lease.Store.
func (s *Store) Move(
	ctx context.Context, g lease.Grant, to lease.Key, attrs lease.Attrs, ttl time.Duration,
) (lease.Grant, error) {
	_, old := s.server()
	err := check(to, ttl)
	if old {
		err = errNoMove // it would write the new record and leave the present one
	}
	var moved lease.Grant
	if err == nil {
		moved, err = s.put(ctx, api.Move, g, to, attrs, ttl)
	}
	if err != nil {
		return lease.Grant{}, fmt.Errorf("move lease of %s to %s: %w", g.Key, to, err)
	}
	return moved, nil
}

// put asks for a change of a record that exists.
func (s *Store) put(
	ctx context.Context, op string, g lease.Grant, to lease.Key, attrs lease.Attrs, ttl time.Duration,
) (lease.Grant, error) {
	if g.ModRevision == 0 {
		return lease.Grant{}, errors.New("grant without a revision")
	}
	defer s.doubts.asking(g.Key, to)()
	began := s.o.Now()
	terms := api.Of(g.Lease)
	terms.Op, terms.TTL = op, ttl
	terms.Held = g.TTL
	if _, doubted := s.doubts.ttl(g.Key); doubted {
		terms.Held = 0 // so the server takes another handle, which no cleanup touches
	}
	if op == api.Move {
		terms.To = to
	}
	expires := began.Add(ttl)
	if g.Reserved() {
		expires = time.Time{}
	}
	body, err := json.Marshal(api.LeaseOf(lease.Lease{Key: g.Key, Attrs: attrs}, expires))
	if err != nil {
		return lease.Grant{}, err
	}
	a, err := s.do(ctx, request{
		method: http.MethodPut, path: "/leases/" + url.PathEscape(g.Key.String()), body: body, terms: terms,
		harmless: op == api.Renew,
	})
	if err == nil {
		s.doubts.settle(g.Key)
	}
	if err == nil || op == api.Move && !refused(err) {
		s.doubts.settle(to) // the record there may be the node's own, moved without an answer
	}
	if err != nil {
		return lease.Grant{}, err
	}
	if a.old {
		return s.updatedOld(g, attrs, a.body)
	}
	changed, err := granted(a.terms, attrs, began)
	if op != api.Renew && changed.ID == g.ID {
		changed.Expires = g.Expires // the handle was not renewed
	}
	return changed, err
}

// Release implements lease.Store.
func (s *Store) Release(ctx context.Context, g lease.Grant) error {
	if _, old := s.server(); old && !s.ownedOld(g) {
		return nil
	}
	_, err := s.do(ctx, request{
		method: http.MethodDelete, path: "/leases/" + url.PathEscape(g.Key.String()), terms: api.Of(g.Lease),
		harmless: true,
	})
	if errors.Is(err, lease.ErrConflict) || errors.Is(err, lease.ErrLost) {
		return nil // not ours any more, so nothing to release
	}
	if err != nil {
		return fmt.Errorf("release lease of %s: %w", g.Key, err)
	}
	return nil
}
