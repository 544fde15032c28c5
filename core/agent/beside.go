package agent

import (
	"context"
	"sync"

	"github.com/flanneld/flannel/core/driver"
	"github.com/flanneld/flannel/core/lease"
	"github.com/flanneld/flannel/core/networks"
	"github.com/flanneld/flannel/internal/wake"
)

// beside is the store of a named network. Its view tells what the node has to know of
// the other networks of the host.
type beside struct {
	lease.Store
	host    *networks.Host
	name    string
	others  wake.Signal // one of the other networks has changed
	changed wake.Signal
}

// Beside returns the store of a network that may run on a host with others. It follows
// the store and the other networks until ctx ends.
func Beside(ctx context.Context, host *networks.Host, name string, store lease.Store) lease.Store {
	b := beside{store, host, name, wake.NewSignal(), wake.NewSignal()}
	host.Follow(name, b.others.Send)
	go b.follow(ctx)
	return b
}

// View implements [lease.Store].
func (b beside) View() lease.View { return b.host.View(b.name, b.Store.View()) }

// Changed implements [lease.Store].
func (b beside) Changed() <-chan struct{} { return b.changed }

// follow tells the host each change of the network, even while its node is busy: the
// others may wait for it.
func (b beside) follow(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-b.Store.Changed():
			b.View()
		case <-b.others:
		}
		b.changed.Send()
	}
}

// SharedFilter is a packet filter that several networks use, which may come and go.
type SharedFilter struct {
	filter *networks.Filter

	mu    sync.Mutex
	hints map[string]wake.Signal // of each network
}

// ShareFilter returns a packet filter for several networks. It passes the hints on to all of them until
// ctx ends.
func ShareFilter(ctx context.Context, lane driver.Lane) *SharedFilter {
	f := &SharedFilter{filter: networks.NewFilter(lane), hints: map[string]wake.Signal{}}
	go func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-lane.Hints():
				f.pass()
			}
		}
	}()
	return f
}

func (f *SharedFilter) pass() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, hint := range f.hints {
		hint.Send()
	}
}

// Join returns the lane of a network.
func (f *SharedFilter) Join(name string) driver.Lane {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.hints[name] = wake.NewSignal()
	return f.filter.Join(name, f.hints[name])
}

// Leave ends the part of a network.
func (f *SharedFilter) Leave(name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.hints, name)
	f.filter.Leave(name)
}
