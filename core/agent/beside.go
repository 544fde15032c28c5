package agent

import (
	"context"

	"github.com/flanneld/flannel/core/driver"
	"github.com/flanneld/flannel/core/lease"
	"github.com/flanneld/flannel/core/networks"
)

// beside is the store of a named network. Its view tells what the node has to know of
// the other networks of the host.
type beside struct {
	lease.Store
	host    *networks.Host
	name    string
	others  signal // one of the other networks has changed
	changed signal
}

// signal receives a value when something has changed, and holds one at most.
type signal chan struct{}

func (s signal) send() {
	select {
	case s <- struct{}{}:
	default: // the last one has not yet been taken
	}
}

// Beside returns the store of a network that may run on a host with others. It follows
// the store and the other networks until ctx ends.
func Beside(ctx context.Context, host *networks.Host, name string, store lease.Store) lease.Store {
	b := beside{store, host, name, make(signal, 1), make(signal, 1)}
	host.Follow(name, b.others.send)
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
		b.changed.send()
	}
}

// ShareFilter returns the lane of each network in one packet filter, and passes its
// hints on to all of them until ctx ends.
func ShareFilter(ctx context.Context, lane driver.Lane, names []string) map[string]driver.Lane {
	filter := networks.NewFilter(lane, names)
	lanes := map[string]driver.Lane{}
	hints := make([]signal, len(names))
	for i, name := range names {
		hints[i] = make(signal, 1)
		lanes[name] = filter.Lane(name, hints[i])
	}
	go func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-lane.Hints():
				for _, hint := range hints {
					hint.send()
				}
			}
		}
	}()
	return lanes
}
