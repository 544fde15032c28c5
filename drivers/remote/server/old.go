package server

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"

	"github.com/flanneld/flannel/core/alloc"
	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/config"
	"github.com/flanneld/flannel/core/lease"
	"github.com/flanneld/flannel/drivers/remote/api"
)

// This file holds the changes that old clients ask for. They leave the choice
// of the subnet to the server, and know no revisions: the server compares and
// swaps for them, and tries again when it loses a race.

// rounds bounds the tries after lost races (interop 3.5).
const rounds = 10

// acquire gives a client a lease: its present one, or a free subnet.
func (s *Server) acquire(w http.ResponseWriter, c call) error {
	attrs, err := readAttrs(c)
	if err != nil {
		return err
	}
	if !attrs.PublicIP.IsValid() {
		return bad(errors.New("PublicIP is missing"))
	}
	attrs.Creator = nameOf(certificate(c.Request))
	if err := c.feed.catchUp(c.Context()); err != nil { // the client may have a lease by another server
		return err
	}
	var g lease.Grant
	err = s.retry(c, func(snap *lease.Snapshot) (err error) {
		g, err = s.acquireIn(c, snap, attrs)
		return err
	})
	if err != nil {
		return err
	}
	g.Attrs.Creator = ""
	return reply(w, encode(api.LeaseOf(g.Lease, g.Expires)))
}

// retry runs a change until it loses no race, each time with a snapshot that shows
// the winner of the last.
func (s *Server) retry(c call, change func(*lease.Snapshot) error) error {
	var err error
	for range rounds {
		var snap *lease.Snapshot
		snap, err = c.feed.synced()
		if err != nil {
			return err
		}
		err = change(snap)
		if errors.Is(err, errHeld) || !errors.Is(err, lease.ErrConflict) && !errors.Is(err, lease.ErrLost) {
			return err
		}
		if err := c.feed.newer(c.Context(), snap, err); err != nil {
			return err
		}
	}
	return fmt.Errorf("lost %d races: %w", rounds, err)
}

// newer waits for a snapshot that explains a conflict.
func (f *feed) newer(ctx context.Context, snap *lease.Snapshot, err error) error {
	if conflict := new(lease.ConflictError); errors.As(err, &conflict) {
		_, err := f.reach(ctx, conflict.Revision)
		return err
	}
	for {
		v, moved := f.now()
		if v.Snapshot != snap {
			return nil
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (s *Server) acquireIn(c call, snap *lease.Snapshot, attrs lease.Attrs) (lease.Grant, error) {
	network, err := networkOf(snap.Config)
	if err != nil {
		return lease.Grant{}, err
	}
	network = network.Only(cidr.V4) // the API knows no other family
	if !network.V4.Enabled() {
		return lease.Grant{}, errors.New("the network has no IPv4 part")
	}
	h := s.holderOf(c.Request, attrs, snap)
	for _, l := range snap.Leases {
		ours := l.Attrs.PublicIP == attrs.PublicIP || !l.Reserved() && h.Has(l)
		if !ours || !l.Key.V4.IsValid() {
			continue
		}
		if err := s.mayChange(c.Request, *l); err != nil {
			return lease.Grant{}, err
		}
		if err := s.mayCarry(c, l, attrs); err != nil {
			return lease.Grant{}, err
		}
		if err := alloc.Compatible(network, l.Key); err == nil {
			return c.feed.store.Update(c.Context(), lease.Grant{Lease: *l}, attrs, oldTTL)
		} else if l.Reserved() {
			return lease.Grant{}, fmt.Errorf("the reservation of %s does not fit the config: %w", l.Attrs.PublicIP, err)
		}
		if err := c.feed.store.Release(c.Context(), lease.Grant{Lease: *l}); err != nil {
			return lease.Grant{}, err
		}
	}
	if err := s.mayCarry(c, nil, attrs); err != nil {
		return lease.Grant{}, err
	}
	key, err := alloc.Choose(network, snap, lease.Key{}, rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64())))
	if err != nil {
		return lease.Grant{}, err
	}
	return s.take(c, key, attrs, oldTTL)
}

// renewOld renews the lease in the body, or changes its attributes.
func (s *Server) renewOld(w http.ResponseWriter, c call) error {
	var body api.Lease
	if err := readBody(c, &body); err != nil {
		return err
	}
	key, attrs, err := body.Decode()
	if err != nil {
		return bad(err)
	}
	var g lease.Grant
	err = s.retry(c, func(*lease.Snapshot) error {
		l, _, err := c.feed.lease(key)
		if err != nil {
			return err
		}
		if l.Attrs.PublicIP != attrs.PublicIP { // interop E5: not over another node's record
			return fmt.Errorf("subnet %s belongs to %s now", key, l.Attrs.PublicIP)
		}
		if err := s.mayChange(c.Request, *l); err != nil {
			return err
		}
		if err := s.mayCarry(c, l, attrs); err != nil {
			return err
		}
		attrs.Creator = s.creator(c.Request, *l, attrs)
		if l.Attrs.Equal(attrs) {
			g, err = c.feed.store.Renew(c.Context(), lease.Grant{Lease: *l})
		} else {
			g, err = c.feed.store.Update(c.Context(), lease.Grant{Lease: *l}, attrs, oldTTL)
		}
		return err
	})
	if err != nil {
		return err
	}
	g.Attrs.Creator = ""
	return reply(w, encode(api.LeaseOf(g.Lease, g.Expires)))
}

// revokeOld deletes the lease in the path.
func (s *Server) revokeOld(w http.ResponseWriter, c call) error {
	key, err := keyOf(c)
	if err != nil {
		return err
	}
	l, _, err := c.feed.lease(key)
	if err == nil {
		err = s.mayChange(c.Request, *l)
	}
	if err == nil {
		err = c.feed.store.Release(c.Context(), lease.Grant{Lease: *l})
	}
	if err != nil {
		return err
	}
	return reply(w, nil)
}

// reserve makes a lease of the body's host one that never expires, or creates it.
func (s *Server) reserve(w http.ResponseWriter, c call) error {
	var body api.Reservation
	if err := readBody(c, &body); err != nil {
		return err
	}
	if !body.Subnet.IsValid() || !body.Subnet.Addr().Is4() || !body.PublicIP.Is4() {
		return bad(errors.New("a reservation needs an IPv4 Subnet and an IPv4 PublicIP"))
	}
	err := s.retry(c, func(snap *lease.Snapshot) error {
		network, err := networkOf(snap.Config)
		if err != nil {
			return err
		}
		return s.reserveIn(c, snap, network, body)
	})
	if err != nil {
		return err
	}
	return reply(w, nil)
}

func (s *Server) reserveIn(c call, snap *lease.Snapshot, network config.Network, want api.Reservation) error {
	key := lease.Key{V4: want.Subnet.Masked()}
	if want.Subnet.Bits() != network.V4.SubnetLen || !cidr.Contains(network.V4.Network, want.Subnet) {
		return fmt.Errorf("subnet %v: want length %d, inside %v", want.Subnet, network.V4.SubnetLen, network.V4.Network)
	}
	l := lease.Lease{Key: key, Attrs: lease.Attrs{PublicIP: want.PublicIP, Creator: nameOf(certificate(c.Request))}}
	var present *lease.Lease
	for _, taken := range snap.Leases {
		switch {
		case taken.Key.V4 != key.V4:
			continue
		case taken.Attrs.PublicIP != want.PublicIP:
			return fmt.Errorf("subnet %v belongs to %s", want.Subnet, taken.Attrs.PublicIP)
		case taken.Reserved():
			return nil
		}
		l, present = *taken, taken
	}
	if err := s.mayChange(c.Request, l); err != nil {
		return err
	}
	if err := s.mayCarry(c, present, l.Attrs); err != nil {
		return err
	}
	h := s.holderOf(c.Request, l.Attrs, snap)
	if err := mayReserve(h, snap, key, math.MaxInt64); err != nil {
		return err
	}
	if err := c.feed.store.PutRecord(c.Context(), l, 0); err != nil {
		return err
	}
	return s.confirm(c, key, func(snap *lease.Snapshot, l *lease.Lease) error {
		return mayReserve(h, snap, l.Key, l.ModRevision)
	}, c.feed.store.DeleteRecord)
}

// unreserve gives a reservation a TTL again.
func (s *Server) unreserve(w http.ResponseWriter, c call) error {
	key, err := keyOf(c)
	if err != nil {
		return err
	}
	if err := c.feed.catchUp(c.Context()); err != nil { // the client may have a lease by another server
		return err
	}
	err = s.retry(c, func(*lease.Snapshot) error { return s.free(c, key) })
	if err != nil {
		return err
	}
	return reply(w, nil)
}

// free makes the reservation of a subnet a lease.
func (s *Server) free(c call, key lease.Key) error {
	l, snap, err := c.feed.lease(key)
	switch {
	case err != nil:
		return err
	case !l.Reserved():
		return fmt.Errorf("subnet %s is not reserved", key)
	}
	if err := s.mayChange(c.Request, *l); err != nil {
		return err
	}
	h := s.holderOf(c.Request, l.Attrs, snap)
	if err := mayFree(h, snap, l.Key); err != nil {
		return err
	}
	if err := c.feed.store.PutRecord(c.Context(), *l, oldTTL); err != nil {
		return err
	}
	return s.confirm(c, key, func(snap *lease.Snapshot, l *lease.Lease) error { return mayFree(h, snap, l.Key) },
		func(ctx context.Context, l lease.Lease) error { return c.feed.store.PutRecord(ctx, l, 0) })
}
