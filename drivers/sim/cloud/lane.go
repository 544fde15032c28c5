package cloud

import (
	"context"
	"fmt"
	"time"

	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/driver"
	"github.com/flanneld/flannel/drivers/sim/world"
)

// Lane is the lane of the instance that a host is.
type Lane struct {
	cloud *Cloud
	host  string
}

var _ driver.Lane = Lane{}

// Lane returns the lane of a host.
func (c *Cloud) Lane(host string) Lane { return Lane{c, host} }

// Look implements [driver.Lane].
func (l Lane) Look(_ context.Context, extent dataplane.Extent) (driver.Observation, error) {
	if l.cloud == nil {
		return driver.Observation{}, fmt.Errorf("this host is no instance of %s", extent.Provider.Name)
	}
	if err := l.admit(); err != nil {
		return driver.Observation{}, err
	}
	facts := driver.CloudFacts{Tables: l.cloud.tables}
	return driver.Observation{State: l.cloud.stateOf(l.host, l.cloud.read()), Facts: facts}, nil
}

// admit returns an error if the provider refuses a request.
func (l Lane) admit() error {
	f := l.cloud.faults
	if f.Throttled > 0 && world.Chance(l.cloud.world.Rand("cloud/throttled/"+l.host), f.Throttled) {
		return fmt.Errorf("too many requests: %w", driver.ErrBusy)
	}
	return nil
}

// Apply implements [driver.Lane].
func (l Lane) Apply(_ context.Context, ops []dataplane.Op) []error {
	return driver.ApplyEach(ops, l.apply)
}

func (l Lane) apply(op dataplane.Op) error {
	r, is := op.Object.(dataplane.CloudRoute)
	if !is || l.cloud == nil {
		return driver.ErrUnsupported
	}
	if err := l.admit(); err != nil {
		return err
	}
	if l.cloud.faults.Denied {
		return fmt.Errorf("the access key may not change routes: %w", driver.ErrDenied)
	}
	switch op.Verb {
	case dataplane.Create:
		return l.cloud.create(l.host, key{r.Table, r.Dst})
	case dataplane.Delete:
		return l.cloud.remove(r)
	}
	return driver.ErrUnsupported
}

// Hints implements [driver.Lane]: a provider gives none.
func (Lane) Hints() <-chan struct{} { return nil }

// Slower returns how much longer a request takes.
func (l Lane) Slower() time.Duration {
	if l.cloud == nil {
		return 0
	}
	return l.cloud.faults.Slow
}
