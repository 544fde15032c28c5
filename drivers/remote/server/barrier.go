package server

import (
	"context"
	"time"
)

// firstWait bounds how long a new client waits for the datastore, before it gets
// an error and asks another server.
const firstWait = 2 * time.Second

// round is one read of the datastore's revision for all clients that wait for it.
type round struct {
	done chan struct{}
	err  error
}

// catchUp returns once the feed shows everything that was written before the call.
// So a client that turns to another server never sees less than before. Calls that
// come during a read share the next one.
func (f *feed) catchUp(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, firstWait)
	defer cancel()
	f.mu.Lock()
	r := f.round
	if r == nil {
		r = &round{done: make(chan struct{})}
		f.round = r
		f.work.Go(func() { f.read(r) })
	}
	f.mu.Unlock()
	select {
	case <-r.done:
	case <-ctx.Done():
		return unavailable(ctx.Err())
	}
	if r.err != nil {
		return unavailable(r.err)
	}
	return nil
}

// read carries a round out, after the present one.
func (f *feed) read(r *round) {
	f.reading.Lock()
	defer f.reading.Unlock()
	defer close(r.done)
	f.mu.Lock()
	f.round = nil // a client that comes now may have seen more than this read will show
	f.mu.Unlock()
	ctx, cancel := context.WithTimeout(f.ctx, firstWait)
	defer cancel()
	r.err = f.store.CatchUp(ctx)
	f.look()
	if _, due := f.due(); due {
		f.send()
	}
}
