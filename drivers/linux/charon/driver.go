package charon

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/strongswan/govici/vici"
	"github.com/vishvananda/netlink"

	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/driver"
	"github.com/flanneld/flannel/internal/wake"
	"github.com/flanneld/flannel/internal/wholedump"
)

// DefaultURI is the control socket of charon (interop 6.6).
const DefaultURI = "unix:///var/run/charon.vici"

// Options say how to run charon.
type Options struct {
	Exec   string    // path of the program; "": search the usual places
	URI    string    // of the control socket
	Config string    // path of the configuration file, which the driver writes
	Log    io.Writer // gets the program's messages

	// Kernel says why the kernel cannot do what charon needs; nil: it is not asked.
	Kernel func() error
}

// Driver runs charon. Its calls are made one at a time, except that Close may be called at any time.
type Driver struct {
	opts   Options
	socket string
	hints  wake.Signal

	// kernelKeys lists the ESP keys in the kernel, and dropKey removes one.
	kernelKeys func() ([]netlink.XfrmState, error)
	dropKey    func(*netlink.XfrmState) error

	// Close ends closing, which ends the call under way, and then waits for calls.
	closing context.Context
	refuse  context.CancelFunc
	calls   sync.Mutex

	child      *child
	session    *vici.Session
	conns      map[dataplane.ConnKey]dataplane.Conn           // loaded into the child
	shared     map[dataplane.SharedKeyKey]dataplane.SharedKey // of the last look, with what was loaded since
	keyless    map[dataplane.ConnKey]bool                     // by the last look, charon has a tunnel whose keys are gone
	former     map[dataplane.FormerKey][]netlink.XfrmState
	passphrase dataplane.Passphrase // of the last look
	watching   sync.WaitGroup
}

var _ driver.Lane = (*Driver)(nil)

// New returns the driver without a running charon.
func New(opts Options) (*Driver, error) {
	socket, ok := strings.CutPrefix(opts.URI, "unix://")
	if !ok || !strings.HasPrefix(socket, "/") {
		return nil, fmt.Errorf("--charon-vici-uri %q: want unix:// and the path of a socket, such as %s",
			opts.URI, DefaultURI)
	}
	keys := func() ([]netlink.XfrmState, error) { return wholedump.Here.XfrmStateList(netlink.FAMILY_V4) }
	closing, refuse := context.WithCancel(context.Background())
	return &Driver{
		opts: opts, socket: socket, hints: wake.NewSignal(), kernelKeys: keys, dropKey: wholedump.Here.XfrmStateDel,
		closing: closing, refuse: refuse,
	}, nil
}

// Hints implements [driver.Lane].
func (d *Driver) Hints() <-chan struct{} { return d.hints }

// Close ends charon in order, also beside a call that the daemon waits for no longer. That call ends first, as if
// its context were cancelled, and later calls do nothing.
func (d *Driver) Close() error {
	d.refuse()
	d.calls.Lock()
	defer d.calls.Unlock()
	d.end()
	return nil
}

// begin begins a call, whose context Close ends too. Call done at its end.
func (d *Driver) begin(ctx context.Context) (call context.Context, done func()) {
	d.calls.Lock()
	call, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(d.closing, cancel)
	return call, func() {
		stop()
		cancel()
		d.calls.Unlock()
	}
}

// end ends charon, if it runs, and forgets what it was loaded with.
func (d *Driver) end() {
	if d.child != nil {
		d.child.stop()
	}
	d.release()
}

// release closes the session with a charon that has ended.
func (d *Driver) release() {
	if d.session != nil {
		_ = d.session.Close() // the other end is gone
	}
	d.child = nil
	d.session = nil
	d.conns = nil
	d.shared = nil
	d.keyless = nil
	d.former = nil
	d.watching.Wait()
}

// running reports whether charon runs.
func (d *Driver) running() bool {
	if d.child != nil && !d.child.alive() {
		d.release()
	}
	return d.child != nil
}

// Look implements [driver.Lane].
func (d *Driver) Look(ctx context.Context, extent dataplane.Extent) (driver.Observation, error) {
	ctx, done := d.begin(ctx)
	defer done()
	d.passphrase = extent.Passphrase
	state := dataplane.NewState()
	if !d.running() {
		return driver.Observation{State: state}, ctx.Err()
	}
	state.Put(dataplane.IKEDaemon{Name: dataplane.Charon})
	err := d.within(ctx, func() error { return d.observe(state) })
	if isBroken(err) { // charon has died or is about to
		d.end()
		return driver.Observation{State: dataplane.NewState()}, ctx.Err()
	}
	if err != nil {
		return driver.Observation{}, fmt.Errorf("ask charon at %s: %w", d.socket, err)
	}
	return driver.Observation{State: state}, nil
}

// isBroken reports whether the connection to charon has ended.
func isBroken(err error) bool {
	return errors.Is(err, io.EOF) || errors.As(err, new(*net.OpError))
}

// within calls do, and ends charon if the context ends first. The calls of package vici know no context, and closing
// their session waits for an answer too, so only the end of charon ends a request.
func (d *Driver) within(ctx context.Context, do func() error) error {
	stop := context.AfterFunc(ctx, d.child.stop)
	err := do()
	if !stop() {
		d.end()
		return errors.Join(ctx.Err(), err)
	}
	return err
}

// Apply implements [driver.Lane].
func (d *Driver) Apply(ctx context.Context, ops []dataplane.Op) []error {
	ctx, done := d.begin(ctx)
	defer done()
	return driver.ApplyEach(ops, func(op dataplane.Op) error { return d.apply(ctx, op) })
}

func (d *Driver) apply(ctx context.Context, op dataplane.Op) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if o, ok := op.Object.(dataplane.IKEDaemon); ok {
		return d.applyDaemon(ctx, op.Verb, o)
	}
	if !d.running() {
		return fmt.Errorf("charon does not run: %w", driver.ErrNotFound)
	}
	if deadline, limited := ctx.Deadline(); limited && time.Until(deadline) < grace {
		return fmt.Errorf("the plan's time is over: %w", context.DeadlineExceeded)
	}
	return d.within(ctx, func() error { return d.applyLoaded(op) })
}

// grace is how long before the end of its plan a request must begin, so each request has that time at least. Charon
// may be busy with the keys of thousands of tunnels: then a plan runs out of time between two requests, and the next
// plan goes on where it ended. Only a charon that leaves one request without an answer is ended. A request does not
// outlast the plan's deadline instead, because a context that has ended no longer shows that the daemon stops.
const grace = 10 * time.Second

func (d *Driver) applyDaemon(ctx context.Context, verb dataplane.Verb, o dataplane.IKEDaemon) error {
	switch {
	case o.Name != dataplane.Charon:
		return fmt.Errorf("unknown IKE daemon: %w", driver.ErrUnsupported)
	case verb == dataplane.Delete && !d.running():
		return driver.ErrNotFound
	case verb == dataplane.Delete:
		d.end()
		return nil
	case d.running() && verb == dataplane.Create:
		return driver.ErrExists
	case d.running():
		return nil
	}
	return d.start(ctx)
}

// start starts charon and waits until it answers.
func (d *Driver) start(ctx context.Context) error {
	if d.opts.Kernel != nil {
		if err := d.opts.Kernel(); err != nil {
			return err
		}
	}
	path, err := Find(d.opts.Exec)
	if err != nil {
		return err
	}
	other, err := net.DialTimeout("unix", d.socket, time.Second)
	if err == nil {
		return errors.Join(fmt.Errorf("another IKE daemon answers at %s: "+
			"end it, or name another socket with --charon-vici-uri: %w", d.socket, driver.ErrBusy), other.Close())
	}
	if !isAbsent(err) {
		return err
	}
	if err := writeConfig(d.opts.Config, d.socket); err != nil {
		return fmt.Errorf("write the configuration of charon: %w", err)
	}
	c, err := start(path, d.opts.Config, d.opts.Log)
	if err != nil {
		return err
	}
	err = c.until(ctx, func() (err error) {
		d.session, err = vici.NewSession(vici.WithSocketPath(d.socket))
		return err
	})
	if err != nil {
		c.stop()
		return err
	}
	d.child, d.conns = c, map[dataplane.ConnKey]dataplane.Conn{}
	d.shared = map[dataplane.SharedKeyKey]dataplane.SharedKey{}
	return d.watch(ctx, c, d.session)
}

// watch hints when charon ends, or a tunnel comes or goes.
func (d *Driver) watch(ctx context.Context, c *child, session *vici.Session) error {
	err := d.within(ctx, func() error { return session.Subscribe("ike-updown", "child-updown") })
	if err != nil {
		d.end()
		return fmt.Errorf("listen to charon: %w", err)
	}
	events := make(chan vici.Event, 16)
	session.NotifyEvents(events)
	d.watching.Add(1)
	go func() {
		defer d.watching.Done()
		for {
			select {
			case _, open := <-events:
				if !open { // the session has ended
					events = nil
				}
				d.hints.Send()
			case <-c.ended:
				d.hints.Send()
				return
			}
		}
	}()
	return nil
}
