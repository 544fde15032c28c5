package server

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/flanneld/flannel/core/lease"
	"github.com/flanneld/flannel/drivers/remote/api"
)

const (
	// perWatcher is the time between two frames for each watching client: with
	// 5,000 of them, changes of a quarter of a second travel together.
	perWatcher = 50 * time.Microsecond
	mostGap    = time.Second
	// memory is how many frames, and steps for old clients, a feed remembers.
	memory = 1024
)

// feed follows one network, and hands its changes out to all watching clients.
// They walk a list to which the feed appends, so a change is encoded once.
type feed struct {
	store  Store
	ctx    context.Context
	cancel context.CancelFunc
	work   sync.WaitGroup

	mu       sync.Mutex
	view     lease.View // the latest
	sent     *lease.Snapshot
	state    string   // of sent
	whole    *text    // the frame of sent as a whole; nil until a client needs it
	last     *frame   // the newest
	frames   []*frame // remembered, oldest first
	watchers int
	steps    steps
	moved    chan struct{} // closed when the view changes
	round    *round        // the next read of the datastore's revision; nil: none
	reading  sync.Mutex    // held by the present one

	config, leases, reservations listing // for old clients
}

// frame is one line of the stream, and the way to the next.
type frame struct {
	line  []byte
	state string // after the line
	end   bool   // streams end with it

	ready chan struct{} // closed once next is set
	next  *frame
}

func newFeed(ctx context.Context, store Store) *feed {
	ctx, cancel := context.WithCancel(ctx)
	f := &feed{
		store: store, ctx: ctx, cancel: cancel,
		last: &frame{ready: make(chan struct{})}, moved: make(chan struct{}),
	}
	f.steps.start()
	f.work.Go(func() { f.run(ctx) })
	return f
}

// close ends the feed and its store.
func (f *feed) close() {
	f.cancel()
	f.work.Wait()
	f.store.Close()
}

// run follows the store's changes. It looks at each of them, and sends them in
// frames with a pause in between.
func (f *feed) run(ctx context.Context) {
	var last time.Time
	var send <-chan time.Time // nil while nothing is to be sent
	for {
		f.look()
		if gap, due := f.due(); due && send == nil {
			send = time.After(gap - time.Since(last))
		}
		select {
		case <-ctx.Done():
			f.mu.Lock()
			f.endLocked(errors.New("the server shuts down"))
			f.mu.Unlock()
			return
		case <-f.store.Changed():
		case last = <-send:
			send = nil
			f.send()
		}
	}
}

// due returns the pause between two frames, and whether there is a frame to send.
func (f *feed) due() (gap time.Duration, due bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	due = f.view.Synced && f.view.Snapshot != f.sent || !f.view.Synced && f.sent != nil && !f.last.end
	return min(time.Duration(f.watchers)*perWatcher, mostGap), due
}

// look reads the store's present view, and adds a step for old clients.
func (f *feed) look() {
	v := f.store.View()
	f.mu.Lock()
	defer f.mu.Unlock()
	if v.Snapshot == f.view.Snapshot && v.Synced == f.view.Synced {
		return
	}
	before := f.view
	f.view = v
	if v.Snapshot != nil && v.Snapshot != before.Snapshot {
		f.step(before.Snapshot, v.Snapshot)
	}
	close(f.moved)
	f.moved = make(chan struct{})
}

// send appends a frame with what has changed since the last one.
func (f *feed) send() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.view.Synced {
		f.endLocked(f.reason())
		return
	}
	now, before := f.view.Snapshot, f.sent
	state := stateOf(now)
	f.sent = now
	if state == f.state {
		return
	}
	fr := api.Frame{State: state, Revision: now.Revision, History: now.History}
	if before != nil && before.History == now.History {
		changes(&fr, before, now)
	} else {
		whole(&fr, now)
	}
	f.append(&frame{line: fr.Line(), state: state})
	f.state, f.whole = state, nil
}

// changes fills the frame with the difference between two snapshots.
func changes(fr *api.Frame, before, now *lease.Snapshot) {
	if now.Config.Revision != before.Config.Revision || now.Config.Deleted != before.Config.Deleted {
		fr.Config = api.DocumentOf(now.Config)
	}
	if !slices.Equal(now.Quarantined, before.Quarantined) {
		fr.Quarantined = api.QuarantinedOf(now.Quarantined)
	}
	added, removed := diff(before, now)
	for _, l := range added {
		fr.Leases = append(fr.Leases, shown(l))
	}
	for _, l := range removed {
		fr.Removed = append(fr.Removed, l.Key.String())
	}
}

// whole fills the frame with a whole snapshot.
func whole(fr *api.Frame, snap *lease.Snapshot) {
	fr.Whole = true
	fr.Config = api.DocumentOf(snap.Config)
	fr.Quarantined = api.QuarantinedOf(snap.Quarantined)
	fr.Leases = make([]api.Record, 0, len(snap.Leases))
	for _, l := range snap.Leases {
		fr.Leases = append(fr.Leases, shown(l))
	}
}

// shown returns a lease as clients see it, without the creator, which only servers need.
func shown(l *lease.Lease) api.Record {
	if l.Attrs.Creator == "" {
		return api.RecordOf(l)
	}
	plain := *l
	plain.Attrs.Creator = ""
	return api.RecordOf(&plain)
}

// append adds a frame to the list.
func (f *feed) append(next *frame) {
	next.ready = make(chan struct{})
	f.last.next = next
	close(f.last.ready)
	f.last = next
	f.frames = append(f.frames, next)
	if len(f.frames) > memory {
		f.frames = slices.Clone(f.frames[len(f.frames)-memory/2:])
	}
}

// endLocked ends all streams. The next client gets a whole snapshot, or continues at
// a remembered state.
func (f *feed) endLocked(why error) {
	if f.last.end {
		return
	}
	f.append(&frame{line: api.Frame{Error: why.Error()}.Line(), end: true})
}

// reason says why the view is not synced.
func (f *feed) reason() error {
	if f.view.Err != nil {
		return f.view.Err
	}
	return errUnread
}

// join returns the place in the list at which a client with a state continues, and the
// line that it has to read first. The caller calls leave when the client is gone.
func (f *feed) join(state string) (at *frame, first *text, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ctx.Err() != nil { // it made room for another network since the client asked
		return nil, nil, unavailable(errors.New("the network is no longer followed: ask again"))
	}
	if !f.view.Synced || f.sent == nil {
		return nil, nil, unavailable(f.reason())
	}
	if f.last.end { // synced again
		f.append(&frame{line: api.Frame{}.Line(), state: f.state})
	}
	f.watchers++
	nothing := &text{bytes: api.Frame{}.Line()}
	if state == f.state {
		return f.last, nothing, nil
	}
	for i, fr := range slices.Backward(f.frames) {
		if fr.end {
			break // streams may not pass it
		}
		if fr.state == state {
			return f.frames[i], nothing, nil
		}
	}
	if f.whole == nil {
		fr := api.Frame{State: f.state, Revision: f.sent.Revision, History: f.sent.History}
		whole(&fr, f.sent)
		f.whole = &text{bytes: fr.Line()}
	}
	return f.last, f.whole, nil
}

func (f *feed) leave() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.watchers--
}

// now returns the latest view, and a channel that closes when it changes.
func (f *feed) now() (lease.View, <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.view, f.moved
}

// stateOf returns a text that identifies the content of a snapshot. All servers agree
// on it.
func stateOf(snap *lease.Snapshot) string {
	h := sha256.New()
	var buf []byte
	number := func(n int64) { buf = binary.BigEndian.AppendUint64(buf, uint64(n)) }
	text := func(s string) {
		number(int64(len(s)))
		buf = append(buf, s...)
	}
	number(int64(snap.History))
	number(snap.Config.Revision)
	for _, l := range snap.Leases {
		buf = appendPrefix(buf, l.Key)
		number(l.ModRevision)
	}
	number(-1)
	for _, q := range snap.Quarantined {
		text(q.Raw)
		text(q.Reason)
		number(q.OverwroteAt)
	}
	h.Write(buf)
	return base64.RawURLEncoding.EncodeToString(h.Sum(nil)[:18])
}

func appendPrefix(buf []byte, key lease.Key) []byte {
	buf, _ = key.V4.AppendBinary(buf) // it never fails
	buf = append(buf, '&')
	buf, _ = key.V6.AppendBinary(buf)
	return append(buf, '/')
}

// diff returns the leases of now that are not among those before, and those
// before whose key is gone. Unchanged leases share their pointer.
func diff(before, now *lease.Snapshot) (added, removed []*lease.Lease) {
	var was []*lease.Lease
	if before != nil {
		was = before.Leases
	}
	is := now.Leases
	for len(was) > 0 || len(is) > 0 {
		order := 0
		switch {
		case len(was) == 0:
			order = 1
		case len(is) == 0:
			order = -1
		case was[0] != is[0]:
			order = was[0].Key.Compare(is[0].Key)
		}
		switch {
		case order < 0:
			removed, was = append(removed, was[0]), was[1:]
		case order > 0:
			added, is = append(added, is[0]), is[1:]
		default:
			if was[0] != is[0] && was[0].ModRevision != is[0].ModRevision {
				added = append(added, is[0])
			}
			was, is = was[1:], is[1:]
		}
	}
	return added, removed
}
