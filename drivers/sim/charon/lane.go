package charon

import (
	"context"
	"fmt"
	"net/netip"

	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/driver"
	"github.com/flanneld/flannel/drivers/sim/kernel"
)

// Lane is the lane of the IKE daemon, as one process of flanneld sees it. The daemon
// is a child of that process.
type Lane struct {
	host       *kernel.Host
	passphrase dataplane.Passphrase // of the last look
	child      *daemon              // nil: it does not run
	hint       func()
	broken     error // why the daemon cannot be started; nil: it can
}

var _ driver.Lane = (*Lane)(nil)

// New returns the lane of a process, without an IKE daemon.
func New(host *kernel.Host) *Lane { return &Lane{host: host, hint: func() {}} }

// OnHint calls fn when the daemon has ended or its tunnels have changed, until the
// function that it returns is called.
func (l *Lane) OnHint(fn func()) (end func()) {
	l.hint = fn
	return func() { l.hint = func() {} }
}

// Hints implements [driver.Lane]. Virtual time has [Lane.OnHint].
func (*Lane) Hints() <-chan struct{} { return nil }

// Break makes each start of the daemon fail, as if its program were missing; nil ends that.
func (l *Lane) Break(err error) { l.broken = err }

// Crash ends the daemon at once. Its keys stay in the kernel.
func (l *Lane) Crash() {
	if l.child != nil {
		l.child.end()
		l.child = nil
		l.hint()
	}
}

// Look implements [driver.Lane].
func (l *Lane) Look(ctx context.Context, extent dataplane.Extent) (driver.Observation, error) {
	l.passphrase = extent.Passphrase
	state := dataplane.NewState()
	l.Observe(state)
	return driver.Observation{State: state}, ctx.Err()
}

// Observe adds the objects of the daemon, if it runs.
func (l *Lane) Observe(state *dataplane.State) {
	if l.child != nil {
		l.child.observe(state)
	}
}

// Unload takes a connection from the daemon and ends its tunnel, as another program may
// do at the control socket.
func (l *Lane) Unload(k dataplane.ConnKey) error {
	if l.child == nil {
		return driver.ErrNotFound
	}
	return l.child.unload(k)
}

// Negotiating reports whether the IKE daemon has asked another host for a tunnel, and
// waits for the answer.
func (l *Lane) Negotiating(peer netip.Addr) bool {
	if l.child == nil {
		return false
	}
	for k, c := range l.child.conns {
		if k.Remote == peer && c.asking != nil {
			return true
		}
	}
	return false
}

// Apply implements [driver.Lane].
func (l *Lane) Apply(ctx context.Context, ops []dataplane.Op) []error {
	return driver.ApplyEach(ops, func(op dataplane.Op) error { return l.apply(ctx, op) })
}

func (l *Lane) apply(ctx context.Context, op dataplane.Op) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if o, ok := op.Object.(dataplane.IKEDaemon); ok {
		return l.applyDaemon(op.Verb, o)
	}
	if l.child == nil {
		return fmt.Errorf("the IKE daemon does not run: %w", driver.ErrNotFound)
	}
	remove := op.Verb == dataplane.Delete
	switch o := op.Object.(type) {
	case dataplane.SharedKey:
		return l.applyKey(remove, o)
	case dataplane.FormerKey:
		if remove {
			return l.child.dropFormer(o)
		}
	case dataplane.Conn:
		if remove {
			return l.child.unload(o.ConnKey)
		}
		l.child.load(o)
		return nil
	case dataplane.Tunnel:
		if remove {
			l.child.terminate(o.ConnKey)
			return nil
		}
		return l.child.initiate(o.ConnKey)
	}
	return fmt.Errorf("unknown kind of object: %w", driver.ErrUnsupported)
}

func (l *Lane) applyDaemon(verb dataplane.Verb, o dataplane.IKEDaemon) error {
	switch {
	case o.Name != dataplane.Charon:
		return fmt.Errorf("unknown IKE daemon: %w", driver.ErrUnsupported)
	case verb == dataplane.Delete && l.child == nil:
		return driver.ErrNotFound
	case verb == dataplane.Delete:
		l.child.stop()
		l.child = nil
		return nil
	case l.child != nil && verb == dataplane.Create:
		return driver.ErrExists
	case l.child != nil:
		return nil
	case l.broken != nil:
		return l.broken
	}
	child, err := start(l.host, func() { l.hint() })
	if err != nil {
		return err
	}
	l.child = child
	return nil
}

func (l *Lane) applyKey(remove bool, o dataplane.SharedKey) error {
	_, there := l.child.keys[o.Owner]
	switch {
	case remove && !there:
		return driver.ErrNotFound
	case remove:
		delete(l.child.keys, o.Owner)
		return nil
	case o.Secret != l.passphrase.Name():
		return fmt.Errorf("no secret of that name: %w", driver.ErrInvalid)
	}
	l.child.keys[o.Owner] = sharedKey{o.Secret, l.passphrase.Reveal()}
	return nil
}
