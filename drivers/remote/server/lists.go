package server

import (
	"container/list"
	"net/http"
	"sync"
	"time"

	"github.com/flanneld/flannel/core/lease"
)

// lists bounds the long answers that are being sent, in bytes. All clients that ask at one state of the
// datastore share one, so only clients that read slowly while the datastore changes keep several alive.
// Above the bound, the clients of the oldest one are cut off.
type lists struct {
	most int

	mu   sync.Mutex
	held int
	sent list.List // of *text, the oldest first
}

// text is a long answer. Its bytes never change.
type text struct {
	bytes []byte
	at    *list.Element // in lists.sent, while it counts
	to    map[*conn]int // how many answers each client is reading
}

// begin counts an answer that is about to be sent over a connection.
func (l *lists) begin(t *text, over *conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if t.to == nil {
		t.to = map[*conn]int{}
	}
	t.to[over]++
	if t.at == nil {
		t.at = l.sent.PushBack(t)
		l.held += len(t.bytes)
	}
	for l.held > l.most && l.sent.Front() != t.at {
		oldest := l.sent.Front().Value.(*text)
		l.dropLocked(oldest)
		for c := range oldest.to {
			c.cut()
		}
	}
}

func (l *lists) end(t *text, over *conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	t.to[over]--
	if t.to[over] == 0 {
		delete(t.to, over)
	}
	if len(t.to) == 0 && t.at != nil {
		l.dropLocked(t)
	}
}

func (l *lists) dropLocked(t *text) {
	l.sent.Remove(t.at)
	t.at = nil
	l.held -= len(t.bytes)
}

// freshness is how long a list may be shared: it names a time a day ahead.
const freshness = time.Hour

// listing is a kind of list about a network.
type listing struct {
	mu   sync.Mutex // held while one is encoded: the others wait for it
	of   *lease.Snapshot
	made time.Time
	text *text
}

// get returns the list of a snapshot. It encodes a list once.
func (l *listing) get(snap *lease.Snapshot, encode func(*lease.Snapshot) ([]byte, error)) (*text, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.of == snap && time.Since(l.made) < freshness {
		return l.text, nil
	}
	body, err := encode(snap)
	if err != nil {
		return nil, err
	}
	l.of, l.made = snap, time.Now()
	l.text = &text{bytes: body}
	return l.text, nil
}

// list answers with a list of the present snapshot.
func (s *Server) list(
	w http.ResponseWriter, c call, l *listing, encode func(*lease.Snapshot) ([]byte, error),
) error {
	snap, err := c.feed.synced()
	if err != nil {
		return err
	}
	t, err := l.get(snap, encode)
	if err != nil {
		return err
	}
	over := connIn(c.Context())
	s.lists.begin(t, over)
	defer s.lists.end(t, over)
	return reply(w, t.bytes)
}
