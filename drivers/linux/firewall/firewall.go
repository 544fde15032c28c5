package firewall

import (
	"context"
	"errors"
	"fmt"

	"github.com/vishvananda/netns"

	"github.com/flanneld/flannel/core/driver"
	"github.com/flanneld/flannel/drivers/linux/internal/namespace"
)

// Firewall is the packet filter of one network namespace. It may be called
// from any goroutine, one call at a time.
type Firewall struct {
	ns    namespace.Namespace
	nft   *nftables
	hints *hints
	tools *toolbox
	seen  cache
	wait  int // seconds for the lock of iptables
}

var _ driver.Lane = (*Firewall)(nil)

// New opens the packet filter of the network namespace that the process is in.
func New(ctx context.Context) (*Firewall, error) {
	return open(ctx, namespace.Current())
}

// Open opens the packet filter of the given network namespace, of which it
// keeps a handle of its own.
func Open(ctx context.Context, ns netns.NsHandle) (*Firewall, error) {
	own, err := namespace.Keep(ns)
	if err != nil {
		return nil, err
	}
	f, err := open(ctx, own)
	if err != nil {
		return nil, errors.Join(err, own.Close())
	}
	return f, nil
}

func open(ctx context.Context, ns namespace.Namespace) (*Firewall, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	f := &Firewall{ns: ns, wait: lockWait}
	var err error
	f.nft, err = openNFTables(ns)
	if err != nil {
		return nil, fmt.Errorf("open packet filter: %w", err)
	}
	f.hints, err = startHints(ns)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open packet filter: %w", err), f.nft.close())
	}
	return f, nil
}

// Close ends the goroutine of the hints and releases the sockets. The chains
// stay.
func (f *Firewall) Close() error {
	return errors.Join(f.nft.close(), f.hints.stop(), f.ns.Close())
}

// Hints implements [driver.Lane]. The kernel does not announce changes of
// iptables-legacy.
func (f *Firewall) Hints() <-chan struct{} { return f.hints.out }
