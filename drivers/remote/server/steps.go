package server

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/flanneld/flannel/drivers/remote/api"
)

// steps are the changes that old clients ask for one by one. A position is a
// revision, as a cursor names it; each has one way on.
//
// A step of more than one change has no event: between two of its changes a
// client could ask at another server, so it gets a snapshot, which is always right.
type steps struct {
	last *step
	at   map[int64]*step // the last step at a revision
	kept []int64         // the revisions in at, oldest first
}

// step is a position, and the change that led there.
type step struct {
	cursor int64
	event  *api.Event // nil: ask for a snapshot
	body   []byte     // the answer with the event

	ready chan struct{} // closed once next is set
	next  *step
}

func (s *steps) start() {
	s.last = &step{ready: make(chan struct{})}
	s.at = map[int64]*step{}
}

// forget makes all positions before the present one unknown.
func (s *steps) forget() { s.at, s.kept = map[int64]*step{}, nil }

// add appends the step to a revision, with the events that lead there.
func (s *steps) add(revision int64, events []api.Event) {
	if len(events) > 0 {
		next := &step{cursor: revision, ready: make(chan struct{})}
		if len(events) == 1 {
			next.event = &events[0]
			next.body = encode(api.Watched{Events: events, Cursor: api.Cursor(revision)})
		}
		s.last.next = next
		close(s.last.ready)
		s.last = next
	}
	if _, known := s.at[revision]; !known {
		s.kept = append(s.kept, revision)
	}
	s.at[revision] = s.last
	if len(s.kept) > memory {
		for _, old := range s.kept[:memory/2] {
			delete(s.at, old)
		}
		s.kept = slices.Clone(s.kept[memory/2:])
	}
}

// encode returns the JSON of an answer.
func encode(v any) []byte {
	text, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("an answer has no JSON form: %v", err)) // attributes are JSON once encoded
	}
	return text
}

// ahead is the time that this server has to catch up with a client that is ahead of
// it. A client that stays ahead comes from a datastore that has been wiped since.
const ahead = 5 * time.Second

// position is a list of steps that an old client asks about.
type position interface {
	find(revision int64) place
}

// place is a revision in a list of steps.
type place struct {
	step  *step           // the last one up to the revision; nil: unknown
	now   int64           // the revision that the list has reached
	moved <-chan struct{} // closed when that changes
}

// await returns the first step after a cursor that matters to the caller, or nil if
// only a snapshot can show the changes since.
func await(ctx context.Context, p position, cursor string, matters func(*step) bool) (*step, error) {
	revision, err := api.ParseCursor(cursor)
	if err != nil {
		return nil, bad(err)
	}
	place := p.find(revision)
	patience := time.NewTimer(ahead)
	defer patience.Stop()
	for place.step == nil && revision > place.now {
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-patience.C:
			return nil, nil
		case <-place.moved:
		}
		place = p.find(revision)
	}
	at := place.step
	for at != nil {
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-at.ready:
		}
		at = at.next
		if at.event == nil {
			return nil, nil
		}
		if matters(at) {
			return at, nil
		}
	}
	return nil, nil
}
