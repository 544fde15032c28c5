package store

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// Faults holds the probability of each fault, between 0 and 1. The store draws
// for each request, answer or batch of changes.
type Faults struct {
	LoseRequest float64       // the request never reaches the server; the client waits in vain
	LoseAnswer  float64       // the server carries out the request, but the client never learns of it
	Slow        float64       // request or answer take up to SlowBy longer
	SlowBy      time.Duration // may exceed the client's timeout: the server then still carries out the request
	StaleList   float64       // a full read returns the state before the last change

	WatchDelay     time.Duration // each batch takes up to this much longer
	WatchLose      float64       // a batch is lost; the client notices the gap at the next one, or by its ping
	WatchDuplicate float64       // a batch comes twice
	WatchReorder   float64       // a batch is overtaken by the next one
	WatchBreak     float64       // the stream ends instead of delivering the batch
}

// Fate is the outcome of one request, for tests and scenarios that need a
// certain one.
type Fate uint8

// The fates of a request.
const (
	FateDraw        Fate = iota // drawn by the probabilities of Faults
	FateDone                    // done and answered
	FateLoseRequest             // never done, never answered
	FateLoseAnswer              // done, never answered
	FateLate                    // reaches the server only after the client has given up
)

// Errors of a failing store. To a node all mean that the outcome is unknown.
var (
	errStoreNoAnswer    = errors.New("no answer in time")
	errStoreUnreachable = errors.New("datastore is unreachable")
	errStoreRefused     = errors.New("connection refused")
	errStoreNoLeader    = errors.New("datastore has no leader")
	errStoreDenied      = errors.New("permission denied")
	errStoreToken       = errors.New("invalid auth token")
	errStoreStarting    = errors.New("watch is not yet established")
	errStoreCompacted   = errors.New("required revision has been compacted")
	errStoreBroken      = errors.New("watch stream broke")
	errStoreHistory     = errors.New("the datastore holds another history")
	errStoreGap         = errors.New("watch stream has a gap")
	errStoreClosed      = errors.New("client is closed")
)

// Faults returns the present probabilities of all faults.
func (s *Store) Faults() Faults { return s.faults }

// SetFaults replaces the probabilities of all faults from now on.
func (s *Store) SetFaults(f Faults) {
	s.faults = f
	s.world.Note("store: faults", fmt.Sprintf("%+v", f))
}

// Deny revokes the permission of all clients of a name, present and future, or
// restores it.
func (s *Store) Deny(client string, on bool) {
	s.denied[client] = on
	s.world.Note(client+": store denied", fmt.Sprint(on))
	streams := slices.Clone(s.streams)
	for _, srv := range s.servers {
		streams = append(streams, srv.streams...)
	}
	for _, st := range streams {
		if on && st.client.name == client {
			s.endStream(st)
			st.end(errStoreDenied)
		}
	}
}

// LoseLeader leaves the store without a leader for d: every request fails,
// every stream ends, no TTL expires. The next leader restarts all TTLs.
func (s *Store) LoseLeader(d time.Duration) {
	if s.leaderless || s.stopped {
		return
	}
	s.leaderless = true
	s.world.Note("store: leader lost", d.String())
	s.holdTTLs()
	s.breakStreams(errStoreNoLeader)
	s.election = s.world.After(d, "store: leader elected", s.ElectLeader)
}

// ElectLeader ends the outage of LoseLeader early.
func (s *Store) ElectLeader() {
	if !s.leaderless {
		return
	}
	s.election.Cancel()
	s.leaderless = false
	s.world.Note("store: leader elected", "")
	if !s.stopped {
		s.resumeTTLs()
	}
}

// Stop ends the server; its data stays.
func (s *Store) Stop() {
	if s.stopped {
		return
	}
	s.stopped = true
	s.world.Note("store: stop", "")
	s.holdTTLs()
	s.breakStreams(errStoreRefused)
}

// Start begins the server again; like a new leader it restarts all TTLs.
func (s *Store) Start() {
	if !s.stopped {
		return
	}
	s.stopped = false
	s.world.Note("store: start", "")
	if !s.leaderless {
		s.resumeTTLs()
	}
}

// Unavailable returns the reason why the server can do nothing at present, or
// nil.
func (s *Store) Unavailable() error {
	switch {
	case s.stopped:
		return errStoreRefused
	case s.leaderless:
		return errStoreNoLeader
	}
	return nil
}

func (s *Store) breakStreams(reason error) {
	streams := s.streams
	s.streams = nil
	for _, st := range streams {
		st.end(reason)
	}
}
