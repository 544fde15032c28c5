package server

import (
	"context"
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/flanneld/flannel/core/lease"
)

// quietStore is a datastore of which nothing is known yet. It counts how many are open.
type quietStore struct {
	Store
	open *atomic.Int32
}

func (s quietStore) View() lease.View         { return lease.View{} }
func (s quietStore) Changed() <-chan struct{} { return nil }
func (s quietStore) Close()                   { s.open.Add(-1) }

func newQuiet(t *testing.T) (*Server, *atomic.Int32) {
	t.Helper()
	open := new(atomic.Int32)
	s, err := New(context.Background(), Options{Open: func(string) (Store, error) {
		open.Add(1)
		return quietStore{open: open}, nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if left := open.Load(); left != 0 {
			t.Errorf("%d datastores are still open", left)
		}
	})
	return s, open
}

// A network keeps its feed while it has no config. Only our own clients find it, to watch and
// to release.
func TestFormerNetwork(t *testing.T) {
	s, open := newQuiet(t)
	first, err := s.open("blue")
	if err != nil {
		t.Fatal(err)
	}
	s.retire("blue")
	if _, err := s.feedOf("blue"); err == nil {
		t.Error("it still exists for old clients")
	}
	for _, method := range []string{http.MethodGet, http.MethodDelete} {
		if f, err := s.formerFeed("blue", method); f != first || err != nil {
			t.Errorf("%s: %p, %v, want %p", method, f, err, first)
		}
	}
	for _, method := range []string{http.MethodPost, http.MethodPut} {
		if _, err := s.formerFeed("blue", method); err == nil {
			t.Errorf("%s is served", method)
		}
	}
	if f, err := s.open("blue"); f != first || err != nil {
		t.Errorf("with a config again: %p, %v, want %p", f, err, first)
	}
	if n := open.Load(); n != 2 {
		t.Errorf("%d datastores are open, want that of the unnamed network and its own", n)
	}
	for _, name := range []string{"", "_", "subnets", "../blue"} {
		if _, err := s.formerFeed(name, http.MethodGet); err == nil {
			t.Errorf("the name %q is served", name)
		}
	}
}

// Names that clients make up cost a bounded number of watches. Those without a client make room.
func TestMostFormerNetworks(t *testing.T) {
	s, open := newQuiet(t)
	for i := range mostFormer + 10 {
		f, err := s.formerFeed(fmt.Sprintf("n%d", i), http.MethodGet)
		if err != nil {
			t.Fatal(err)
		}
		if i >= 10 {
			f.mu.Lock()
			f.watchers++
			f.mu.Unlock()
		}
	}
	if _, err := s.formerFeed("more", http.MethodGet); err == nil {
		t.Error("another one is followed although all are watched")
	}
	s.work.Wait() // for those that were closed
	if n := open.Load(); n != mostFormer+1 {
		t.Errorf("%d datastores are open, want %d and that of the unnamed network", n, mostFormer)
	}
}

// Names that clients make up take no room from a network that the server has served: its nodes learn that its config is
// gone.
func TestFormerNetworkBesideInventedOnes(t *testing.T) {
	s, _ := newQuiet(t)
	first, err := s.open("blue")
	if err != nil {
		t.Fatal(err)
	}
	for i := range mostFormer {
		f, err := s.formerFeed(fmt.Sprintf("n%d", i), http.MethodGet)
		if err != nil {
			t.Fatal(err)
		}
		f.mu.Lock()
		f.watchers++
		f.mu.Unlock()
	}
	s.retire("blue")
	if f, err := s.formerFeed("blue", http.MethodGet); f != first || err != nil {
		t.Errorf("%p, %v, want the feed %p that its nodes watch", f, err, first)
	}
}

// A feed that was closed to make room takes no client, and a closed server opens none.
func TestClosedFormerFeed(t *testing.T) {
	s, open := newQuiet(t)
	f, err := s.formerFeed("blue", http.MethodGet)
	if err != nil {
		t.Fatal(err)
	}
	s.mu.Lock()
	delete(s.absent, "blue")
	s.mu.Unlock()
	f.close()
	f.mu.Lock()
	f.view.Synced, f.sent = true, &lease.Snapshot{} // as after its last frame
	f.mu.Unlock()
	if _, _, err := f.join(""); err == nil {
		t.Error("a client joins a closed feed")
	}
	s.cancel() // as Close begins
	if _, err := s.formerFeed("late", http.MethodGet); err == nil || open.Load() != 1 {
		t.Errorf("of a closed server: error %v, %d datastores open besides the unnamed network's", err, open.Load()-1)
	}
}
