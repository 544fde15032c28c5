package driver

import (
	"context"
	"errors"

	"github.com/flanneld/flannel/core/dataplane"
)

// Lane reads and changes one part of a host, such as the kernel's network
// tables or the firewall. No object belongs to two lanes, so each lane works at
// a pace of its own, and a lane that waits for a lock holds up no other.
//
// The calls to one lane are made one at a time.
type Lane interface {
	// Look reads this part of the host once: the objects within the extent,
	// and the facts of the same moment. See [dataplane.Extent] for which
	// objects these are.
	Look(ctx context.Context, extent dataplane.Extent) (Observation, error)

	// Apply performs all ops in order, also after a failed one, and returns one
	// error for each op, nil for a success. Errors name the object and wrap one
	// of the classes below if one fits.
	Apply(ctx context.Context, ops []dataplane.Op) []error

	// Hints receives a value when this part of the host may have changed.
	// Hints are lossy and coalesced: a reason to look again, never information.
	Hints() <-chan struct{}
}

// ApplyEach performs the ops of a lane one by one, in order, also after a failed one.
func ApplyEach(ops []dataplane.Op, apply func(dataplane.Op) error) []error {
	errs := make([]error, len(ops))
	for i, op := range ops {
		errs[i] = apply(op)
	}
	return errs
}

// Observation is the result of one look.
type Observation struct {
	State *dataplane.State // the objects within the extent
	Facts Facts            // nil if the lane has none
}

// Facts describe a lane's part of the host besides the objects that flannel
// owns: [HostFacts], [FirewallFacts] or [CloudFacts].
type Facts interface{ laneFacts() }

func (HostFacts) laneFacts()     {}
func (FirewallFacts) laneFacts() {}
func (CloudFacts) laneFacts()    {}

// The classes of errors that Apply returns, by what the caller can do about them.
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
