package server

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/flanneld/flannel/core/networks"
)

// mostFormer bounds the networks without a config that a server follows: those that it has served, and as
// many that only clients name, which so cannot take the room of the others.
const mostFormer = 100

// formerFeed returns the feed of a network that has no config. By it a node learns that the
// config is gone, and removes the network from its host. Such a feed serves no changes
// except the release of a lease.
func (s *Server) formerFeed(name, method string) (*feed, error) {
	if err := networks.CheckName(name); err != nil {
		return nil, bad(err)
	}
	if method != http.MethodGet && method != http.MethodDelete {
		return nil, fmt.Errorf("network %q has no config", name)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ctx.Err() != nil {
		return nil, unavailable(errors.New("the server shuts down"))
	}
	// It may have come meanwhile.
	for _, feeds := range []map[string]*feed{s.feeds, s.former, s.absent} {
		if f := feeds[name]; f != nil {
			return f, nil
		}
	}
	if !s.roomLocked(s.absent) {
		return nil, unavailable(errors.New("too many networks without a config are watched"))
	}
	f, err := s.newFeedOf(name)
	if err == nil {
		s.absent[name] = f
	}
	return f, err
}

// roomLocked reports whether there is room for another network. It closes one that
// no client watches, if it must.
func (s *Server) roomLocked(feeds map[string]*feed) bool {
	if len(feeds) < mostFormer {
		return true
	}
	for name, f := range feeds {
		if f.unwatched() {
			delete(feeds, name)
			s.work.Go(f.close)
			return true
		}
	}
	return false
}

// retire keeps the feed of a network whose config has gone, if there is room.
func (s *Server) retire(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.feeds[name]
	delete(s.feeds, name)
	switch {
	case f == nil:
		return
	case s.roomLocked(s.former):
		s.former[name] = f
	default:
		s.work.Go(f.close)
	}
}

// unwatched reports whether no client watches.
func (f *feed) unwatched() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.watchers == 0
}
