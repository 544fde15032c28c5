package following

import (
	"cmp"
	"context"
	"log/slog"
	"sync"
	"time"
)

// Work is the goroutines of a store. All end with it.
type Work struct {
	ctx    context.Context // ends with Close
	cancel context.CancelFunc

	mu    sync.Mutex
	group sync.WaitGroup
}

// NewWork returns the work of a store that lives until Close, or the end of ctx.
func NewWork(ctx context.Context) *Work {
	w := &Work{}
	w.ctx, w.cancel = context.WithCancel(ctx)
	return w
}

// Context returns the context that ends with the store.
func (w *Work) Context() context.Context { return w.ctx }

// Start runs a piece of work until it is done. After Close it does nothing.
func (w *Work) Start(piece func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ctx.Err() == nil {
		w.group.Go(piece)
	}
}

// Close ends all work and waits for it.
func (w *Work) Close() {
	w.mu.Lock()
	w.cancel() // from here on, Start refuses
	w.mu.Unlock()
	w.group.Wait()
}

// Options are the options of every store that follows a datastore. The zero ones have defaults.
type Options struct {
	Timeout   *time.Duration // of every call: 5 s
	Heartbeat *time.Duration // the interval of signs of life: 10 s
	Now       *func() time.Time
	Log       **slog.Logger // discards
}

// SetDefaults fills in the defaults.
func (o Options) SetDefaults() {
	*o.Timeout = cmp.Or(*o.Timeout, 5*time.Second)
	*o.Heartbeat = cmp.Or(*o.Heartbeat, 10*time.Second)
	if *o.Now == nil {
		*o.Now = time.Now
	}
	if *o.Log == nil {
		*o.Log = slog.New(slog.DiscardHandler)
	}
}
