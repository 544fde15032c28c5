package lease

import (
	"context"
	"errors"
	"time"
)

// Store holds the leases. It hands out whole snapshots, never deltas, so a
// missed event cannot exist.
//
// Create, Renew, Update and Release block until done or until ctx ends; the
// store bounds each call itself as well. An error that wraps none of the
// errors below means the outcome is unknown: the change may have happened.
type Store interface {
	// View returns the latest knowledge of the store, without blocking.
	View() View

	// Changed receives a value after View has changed. It is coalesced.
	Changed() <-chan struct{}

	// Create takes a free key with one compare-and-swap.
	// ErrConflict, as a *ConflictError: somebody has it.
	Create(ctx context.Context, key Key, attrs Attrs, ttl time.Duration) (Grant, error)

	// Renew extends the grant by its TTL, without changing the record, so
	// that nobody is woken. ErrLost: the grant has run out. A reservation
	// needs no renewal; for it Renew does nothing.
	Renew(ctx context.Context, g Grant) (Grant, error)

	// Update changes the attributes if the record is still as the grant says
	// (its ModRevision). A reservation stays one; otherwise the record goes on
	// the grant's TTL handle, or on a new one if ttl differs from the grant's or
	// the handle has run out under a record that somebody put without it.
	// ErrConflict: the record has changed. ErrLost: it is gone.
	Update(ctx context.Context, g Grant, attrs Attrs, ttl time.Duration) (Grant, error)

	// Release deletes the record if it is still as the grant says, otherwise
	// does nothing. Nobody's else record is ever touched.
	Release(ctx context.Context, g Grant) error
}

// View is what a store knows at a moment.
type View struct {
	// Snapshot is nil until the first complete read.
	Snapshot *Snapshot
	// Synced means that the snapshot follows the store as it changes. While
	// the store is unreachable it is false and the snapshot is the last one.
	Synced bool
	// Err says why Synced is false.
	Err error
	// Assigned is not nil if the datastore hands the subnets out itself. Then
	// no node chooses one: Create is given Assigned.Key, and makes the record
	// say what it is told whatever it said before, which is nobody else's
	// business. Such leases are reservations.
	Assigned *Assigned
}

// Grant is the right to a subnet, as its owner knows it.
type Grant struct {
	Lease
	// TTL as the store granted it; 0 for a reservation.
	TTL time.Duration
	// Expires is when the store may give the subnet to somebody else, by the
	// clock that the caller measures with: the time before the last
	// successful request, plus TTL. Zero for a reservation, and when unknown.
	Expires time.Time
}

// The errors with a meaning. Others mean "unknown outcome".
var (
	ErrConflict = errors.New("record belongs to somebody else or has changed")
	ErrLost     = errors.New("lease has run out or was deleted")
)

// ConflictError is ErrConflict with the store revision at which it was seen:
// only a snapshot at least that new can show who has the key.
type ConflictError struct {
	Key      Key
	Revision int64
}

// Error names the key and the revision.
func (e *ConflictError) Error() string {
	return "subnet " + e.Key.String() + ": " + ErrConflict.Error()
}

// Unwrap makes errors.Is(err, ErrConflict) hold.
func (e *ConflictError) Unwrap() error { return ErrConflict }
