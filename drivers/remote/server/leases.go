package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/lease"
	"github.com/flanneld/flannel/drivers/remote/api"
)

// This file holds the changes that clients of our own ask for. Each is one call
// of the store, which compares and swaps.

// create takes the key in the terms.
func (s *Server) create(w http.ResponseWriter, c call) error {
	attrs, err := readAttrs(c)
	if err != nil {
		return err
	}
	if !c.terms.Key.IsValid() || c.terms.TTL <= 0 {
		return bad(errors.New("a create needs a key and a TTL"))
	}
	if err := errors.Join(c.feed.fits(c.terms.Key), identified(c.terms.Key, attrs)); err != nil {
		return err
	}
	if err := s.mayCarry(c, nil, attrs); err != nil {
		return err
	}
	attrs.Creator = nameOf(certificate(c.Request))
	g, err := s.take(c, c.terms.Key, attrs, c.terms.TTL)
	if err != nil {
		return err
	}
	return grant(w, g)
}

// put renews, updates or moves the record in the terms.
func (s *Server) put(w http.ResponseWriter, c call) error {
	var body api.Lease
	if err := readBody(c, &body); err != nil {
		return err
	}
	attrs, err := lease.DecodeAttrs(body.Attrs)
	if err != nil {
		return bad(err)
	}
	present, err := s.present(c)
	if err != nil {
		return err
	}
	if err := s.mayCarry(c, &present, attrs); err != nil {
		return err
	}
	if c.terms.Op != api.Renew {
		if err := identified(c.terms.Key, attrs); err != nil {
			return err
		}
	}
	attrs.Creator = s.creator(c.Request, present, attrs)
	g := lease.Grant{Lease: c.terms.Lease(attrs), TTL: c.terms.Held}
	// Do not believe the client: the record must keep its own handle.
	g.ID, g.CreateRevision = present.ID, present.CreateRevision
	store := c.feed.store
	switch c.terms.Op {
	case api.Renew:
		g, err = store.Renew(c.Context(), g)
	case api.Update:
		g, err = store.Update(c.Context(), g, attrs, c.terms.TTL)
	case api.Move:
		if err := errors.Join(c.feed.fits(c.terms.To), identified(c.terms.To, attrs)); err != nil {
			return err
		}
		g, err = store.Move(c.Context(), g, c.terms.To, attrs, c.terms.TTL)
	default:
		err = bad(fmt.Errorf("operation %q is unknown", c.terms.Op))
	}
	if err != nil {
		return err
	}
	return grant(w, g)
}

// fits refuses a new subnet that is not one of the network: a record of 0.0.0.0/1 would leave no
// free subnet to others, and take all traffic of upstream's nodes. Without a config that can be
// used, no node asks for a subnet.
func (f *feed) fits(key lease.Key) error {
	v, _ := f.now()
	if v.Snapshot == nil {
		return nil
	}
	network, err := networkOf(v.Snapshot.Config)
	if err != nil {
		return nil
	}
	for _, family := range cidr.Families {
		r, subnet := network.Of(family), key.Of(family)
		if subnet.IsValid() && (!r.Enabled() || subnet.Bits() != r.SubnetLen || !cidr.Contains(r.Network, subnet)) {
			return bad(fmt.Errorf("subnet %v is none of length %d inside the network %v", subnet, r.SubnetLen, r.Network))
		}
	}
	return nil
}

// release deletes the record in the terms.
func (s *Server) release(w http.ResponseWriter, c call) error {
	present, err := s.present(c)
	if err != nil {
		return err
	}
	if err := c.feed.store.Release(c.Context(), lease.Grant{Lease: present}); err != nil {
		return err
	}
	w.Header().Set(api.Header, api.Terms{}.String())
	return reply(w, nil)
}

// present returns the record that the terms name, if the client may change it.
func (s *Server) present(c call) (lease.Lease, error) {
	t := c.terms
	if !t.Key.IsValid() || t.Mod == 0 || t.Key.String() != c.PathValue("key") {
		return lease.Lease{}, bad(errors.New("a change needs the key and the revision of the record"))
	}
	snap, err := c.feed.reach(c.Context(), t.Mod)
	if err != nil {
		return lease.Lease{}, err
	}
	l, err := named(snap, t)
	if err != nil {
		// The client may know more by another server, so the refusal has to come from
		// what the datastore holds now.
		l, err = s.presentNow(c)
	}
	if err != nil {
		return lease.Lease{}, err
	}
	return l, s.mayChange(c.Request, l)
}

// presentNow is named, with a snapshot that shows everything written before the call.
func (s *Server) presentNow(c call) (lease.Lease, error) {
	if err := c.feed.catchUp(c.Context()); err != nil {
		return lease.Lease{}, err
	}
	snap, err := c.feed.synced()
	if err != nil {
		return lease.Lease{}, err
	}
	return named(snap, c.terms)
}

// named returns the record of a snapshot that the terms name. A record of another
// revision is a conflict, except for a renewal, which goes by the TTL handle.
func named(snap *lease.Snapshot, t api.Terms) (lease.Lease, error) {
	for _, l := range snap.Leases {
		if l.Key != t.Key {
			continue
		}
		switch {
		case t.Op == api.Renew && l.ID != t.ID:
			return lease.Lease{}, lease.ErrLost
		case t.Op != api.Renew && l.ModRevision != t.Mod:
			return lease.Lease{}, &lease.ConflictError{Key: l.Key, Revision: l.ModRevision}
		}
		return *l, nil
	}
	overwritten := func(q lease.Quarantined) bool { return q.Key == t.Key }
	if t.Op != api.Renew && slices.ContainsFunc(snap.Quarantined, overwritten) {
		// A value that does not decode replaced the record. No snapshot tells at which
		// revision, so the conflict names the lowest possible.
		return lease.Lease{}, &lease.ConflictError{Key: t.Key, Revision: t.Mod + 1}
	}
	for _, l := range snap.Leases {
		if t.Op == api.Move && l.Key == t.To {
			return lease.Lease{}, &lease.ConflictError{Key: l.Key, Revision: l.ModRevision}
		}
	}
	return lease.Lease{}, lease.ErrLost
}

// reach returns a snapshot that shows everything up to a revision: the client may
// have seen it at a server that was faster.
func (f *feed) reach(ctx context.Context, revision int64) (*lease.Snapshot, error) {
	ctx, cancel := context.WithTimeout(ctx, firstWait)
	defer cancel()
	for {
		v, moved := f.now()
		if v.Synced && v.Snapshot.Revision >= revision {
			return v.Snapshot, nil
		}
		select {
		case <-moved:
		case <-ctx.Done():
			if !v.Synced {
				return f.synced()
			}
			return nil, unavailable(fmt.Errorf("this server has not seen revision %d yet", revision))
		}
	}
}

// grant answers with a grant: its record in the old form, the rest in the terms.
func grant(w http.ResponseWriter, g lease.Grant) error {
	terms := api.Of(g.Lease)
	terms.TTL = g.TTL
	w.Header().Set(api.Header, terms.String())
	g.Attrs.Creator = ""
	return reply(w, encode(api.LeaseOf(g.Lease, g.Expires)))
}

// readAttrs reads the attributes of a lease.
func readAttrs(c call) (lease.Attrs, error) {
	text, err := io.ReadAll(c.Body)
	if err != nil {
		return lease.Attrs{}, bad(err)
	}
	attrs, err := lease.DecodeAttrs(text)
	if err != nil {
		return lease.Attrs{}, bad(err)
	}
	return attrs, nil
}

// readBody reads JSON.
func readBody(c call, into any) error {
	if err := json.NewDecoder(c.Body).Decode(into); err != nil {
		return bad(fmt.Errorf("body: %w", err))
	}
	return nil
}
