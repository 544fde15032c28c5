package driver

import (
	"context"
	"errors"

	"github.com/flanneld/flannel/core/dataplane"
)

// Driver reads and changes one host. Calls are made one at a time.
type Driver interface {
	// Facts reads the parts of the host flannel depends on but does not own.
	Facts(ctx context.Context) (Facts, error)

	// Observe reads what is really there, within the extent. See
	// [dataplane.Extent] for what that is.
	Observe(ctx context.Context, extent dataplane.Extent) (dataplane.State, error)

	// Apply performs the ops in order and returns one error for each, nil
	// where it was done. A failed op does not stop the ones behind it.
	// Errors wrap one of the classes below where one fits, and name the object.
	Apply(ctx context.Context, ops []dataplane.Op) []error

	// Hints receives a value when something on the host may have changed.
	// It is lossy and coalesced: a reason to look again, never information.
	Hints() <-chan struct{}
}

// The classes of errors Apply returns, by what the caller can do about them.
var (
	ErrExists      = errors.New("already exists")          // EEXIST
	ErrNotFound    = errors.New("not found")               // ENOENT, ESRCH, ENODEV, ENXIO, EADDRNOTAVAIL
	ErrLinkDown    = errors.New("link is down")            // ENETDOWN
	ErrUnreachable = errors.New("gateway is unreachable")  // ENETUNREACH, EHOSTUNREACH
	ErrUnsupported = errors.New("not supported by kernel") // EOPNOTSUPP, EAFNOSUPPORT
	ErrBusy        = errors.New("busy")                    // EBUSY, ENOBUFS, EAGAIN, ENOMEM
	ErrInvalid     = errors.New("invalid")                 // EINVAL, ERANGE
	ErrDenied      = errors.New("permission denied")       // EPERM, EACCES
)
