package lease

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"time"
)

// Store holds the leases. It hands out whole snapshots, never deltas, so a
// missed event cannot exist.
//
// Create, Renew, Update, Move and Release block until done or until ctx ends; the
// store also sets a time limit of its own. An error that wraps none of the
// errors below means that the outcome is unknown: the change may have happened.
type Store interface {
	// View returns the latest knowledge of the store, without blocking.
	View() View

	// Changed receives a value after View has changed. It is coalesced.
	Changed() <-chan struct{}

	// Create takes a free key with one compare-and-swap. If the outcome is
	// unknown, the store deletes the record in the background, unless the caller
	// finds it in a snapshot and renews, updates or moves it first.
	// ErrConflict, as a *ConflictError: the key is taken.
	Create(ctx context.Context, key Key, attrs Attrs, ttl time.Duration) (Grant, error)

	// Renew extends the grant by its TTL without changing the record, so that
	// no peer wakes. Only the record of a Create of unknown outcome changes, by
	// compare-and-swap to another TTL handle. ErrLost: the grant has run out. A
	// reservation needs no renewal; for it Renew does nothing.
	Renew(ctx context.Context, g Grant) (Grant, error)

	// Update changes the attributes if the record still has the grant's
	// ModRevision. A reservation stays one. Any other record goes on the grant's
	// TTL handle, or on a new one if ttl differs from the grant's, or if the
	// handle has run out while another program's write kept the record.
	// ErrConflict: the record has changed. ErrLost: it is gone.
	Update(ctx context.Context, g Grant, attrs Attrs, ttl time.Duration) (Grant, error)

	// Move replaces the record by one under another key, in one change: every
	// snapshot shows the one or the other. A store that assigns the subnets has no
	// use for it. ErrConflict: the record has changed, or the other key is taken.
	// ErrLost: the record is gone.
	Move(ctx context.Context, g Grant, to Key, attrs Attrs, ttl time.Duration) (Grant, error)

	// Release deletes the record if it still has the grant's ModRevision, and
	// otherwise does nothing. It never touches another node's record.
	Release(ctx context.Context, g Grant) error
}

// View is a store's knowledge at one moment.
type View struct {
	// Snapshot is nil until the first complete read.
	Snapshot *Snapshot
	// Synced means that the snapshot follows the changes of the store. It is false
	// while the store is unreachable; the snapshot is then the last one.
	Synced bool
	// Err says why Synced is false.
	Err error
	// Assigned is not nil if the datastore assigns the subnets. The node then
	// calls Create with Assigned.Key, and Create overwrites the record, since no
	// other node can own it. Such leases are reservations.
	Assigned *Assigned
	// Beside is not nil if the network has a name, and the host may run others beside
	// it (interop 1.7: multi-network mode). Such a network exists as long as the
	// datastore holds its config.
	Beside *Beside
}

// Beside holds the facts that a named network has to know of the other networks of its host.
type Beside struct {
	// Refused says why the host cannot run the config of the snapshot beside the
	// others; nil: it can.
	Refused error
	// Resumes means that the host can run the config of the network's former run instead.
	Resumes bool
	// Anew means that the network removes what it has on the host, and then begins again: it and
	// others want what the others of them have there. Refused is not nil then.
	Anew bool
	// Others is the address space of the other networks, sorted. No packet passes
	// between it and the network.
	Others []netip.Prefix
	// Devices are the names of the devices that the other networks have or are about to make, sorted.
	Devices []string
}

// Refusal returns Refused; nil for a nil Beside.
func (b *Beside) Refusal() error {
	if b == nil {
		return nil
	}
	return b.Refused
}

// Apart returns the address space of the other networks; none for a nil Beside.
func (b *Beside) Apart() []netip.Prefix {
	if b == nil {
		return nil
	}
	return b.Others
}

// HasDevice reports whether another network has a device of that name, or is about to make one; no for a
// nil Beside.
func (b *Beside) HasDevice(name string) bool {
	return b != nil && slices.Contains(b.Devices, name)
}

// Grant is the right to a subnet, as its owner knows it.
type Grant struct {
	Lease
	// TTL is the time that the store granted; 0 for a reservation.
	TTL time.Duration
	// Expires is the time, by the caller's clock, at which another node may get
	// the subnet: just before the last successful request, plus TTL. It is zero
	// for a reservation, and if unknown.
	Expires time.Time
}

// The errors with a meaning. Others mean "unknown outcome".
var (
	ErrConflict = errors.New("record belongs to another node or has changed")
	ErrLost     = errors.New("lease has run out or was deleted")
)

// ConflictError is ErrConflict with the revision of the store that showed it.
// Only a snapshot at least that new can show the owner of the key.
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
