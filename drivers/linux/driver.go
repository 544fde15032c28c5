package linux

import (
	"context"
	"errors"

	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/driver"
	"github.com/flanneld/flannel/drivers/linux/internal/namespace"
	"github.com/flanneld/flannel/drivers/linux/internal/nl"
	"github.com/flanneld/flannel/drivers/linux/wireguard"
)

// Driver is one network namespace. Its sockets belong to that namespace, so
// that it may be called from any thread; calls are made one at a time.
type Driver struct {
	ns       namespace.Namespace
	bulk     *nl.Conn // dumps and batches
	query    *nl.Conn // single requests, also while a dump or batch is in progress
	hints    *hints
	proxies  *proxies
	wg       *wireguards
	policies policies
	peers    int              // how many routes the last look saw, to size a list of them
	last     *dataplane.State // which the last look returned
	routes   *routeMemory     // nil: the next look reads the tables of routes
	memory   *lookMemory      // nil: the next look reads everything

	noNextHops bool // the kernel has no next-hop objects
}

var _ driver.Lane = (*Driver)(nil)

// New opens the driver of the network namespace that the process is in. Secrets
// may be nil if no object names one.
func New(ctx context.Context, secrets driver.Secrets) (*Driver, error) {
	return open(ctx, namespace.Current(), secrets)
}

// Open opens the driver of the given network namespace, of which it keeps a
// handle of its own.
func Open(ctx context.Context, ns netns.NsHandle, secrets driver.Secrets) (*Driver, error) {
	own, err := namespace.Keep(ns)
	if err != nil {
		return nil, err
	}
	d, err := open(ctx, own, secrets)
	if err != nil {
		return nil, errors.Join(err, own.Close())
	}
	return d, nil
}

func open(ctx context.Context, ns namespace.Namespace, secrets driver.Secrets) (*Driver, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	d := &Driver{ns: ns}
	err := ns.Do(func() (err error) {
		d.bulk, err = nl.Open(unix.NETLINK_ROUTE)
		if err != nil {
			return err
		}
		d.query, err = nl.Open(unix.NETLINK_ROUTE)
		if err != nil {
			return errors.Join(err, d.bulk.Close())
		}
		d.hints, err = startHints(d.bulk.Port(), d.query.Port())
		if err != nil {
			return errors.Join(err, d.bulk.Close(), d.query.Close())
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	d.proxies = newProxies(d.hints.out.Send)
	d.wg = &wireguards{ns: ns, secrets: secrets, changed: d.hints.out.Send}
	d.wg.running, d.wg.made = map[string]*wireguard.Device{}, map[string]bool{}
	return d, nil
}

// Close ends the driver's goroutines and releases what it holds.
func (d *Driver) Close() error {
	return errors.Join(d.policies.close(), d.proxies.close(), d.wg.close(), d.hints.stop(),
		d.bulk.Close(), d.query.Close(), d.ns.Close())
}

// Hints implements [driver.Lane].
func (d *Driver) Hints() <-chan struct{} { return d.hints.out }
