package servers

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/flanneld/flannel/core/lease"
	"github.com/flanneld/flannel/drivers/remote"
)

// oldServer is a stand-in for a server of v0.5 to v0.7, by interop 3.9. It has one
// free subnet for each public IP, and forgets its history on demand.
type oldServer struct {
	mu      sync.Mutex
	config  string
	leases  map[string]string // the JSON of a lease by its key
	events  []string          // the JSON of each, by index from first+1
	first   int
	changed chan struct{}
	log     []string // of requests that change something
}

func startOldServer(t *testing.T) (*oldServer, string) {
	t.Helper()
	s := &oldServer{config: oldConfig, leases: map[string]string{}, first: 100, changed: make(chan struct{})}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/_/config", func(w http.ResponseWriter, _ *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		fmt.Fprint(w, s.config)
	})
	mux.HandleFunc("GET /v1/_/leases", s.watch)
	mux.HandleFunc("POST /v1/_/leases", func(w http.ResponseWriter, r *http.Request) {
		var attrs json.RawMessage
		if err := json.NewDecoder(r.Body).Decode(&attrs); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		// The subnet follows from the last number of the address.
		var a struct{ PublicIP string }
		_ = json.Unmarshal(attrs, &a)
		fmt.Fprint(w, s.put("POST", "10.5."+a.PublicIP[strings.LastIndex(a.PublicIP, ".")+1:]+".0", attrs))
	})
	mux.HandleFunc("PUT /v1/_/leases/{key}", func(w http.ResponseWriter, r *http.Request) {
		var l struct {
			Subnet string
			Attrs  json.RawMessage
		}
		if err := json.NewDecoder(r.Body).Decode(&l); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		fmt.Fprint(w, s.put("PUT", strings.TrimSuffix(l.Subnet, "/24"), l.Attrs))
	})
	mux.HandleFunc("DELETE /v1/_/leases/{key}", func(_ http.ResponseWriter, r *http.Request) {
		s.remove(r.PathValue("key"))
	})
	front := httptest.NewServer(mux)
	t.Cleanup(front.Close)
	return s, front.Listener.Addr().String()
}

// put writes a lease of a day, and returns it.
func (s *oldServer) put(method, base string, attrs json.RawMessage) string {
	text := fmt.Sprintf(`{"Subnet":"%s/24","Attrs":%s,"Expiration":"%s"}`, base, attrs,
		time.Now().Add(24*time.Hour).UTC().Format(time.RFC3339Nano))
	s.mu.Lock()
	defer s.mu.Unlock()
	s.log = append(s.log, method+" "+base)
	s.leases[base+"-24"] = text
	s.happened(fmt.Sprintf(`{"type":"added","lease":%s}`, text))
	return text
}

func (s *oldServer) remove(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.log = append(s.log, "DELETE "+key)
	if text, ok := s.leases[key]; ok {
		delete(s.leases, key)
		s.happened(fmt.Sprintf(`{"type":"removed","lease":%s}`, text))
	}
}

func (s *oldServer) happened(event string) {
	s.events = append(s.events, event)
	close(s.changed)
	s.changed = make(chan struct{})
}

// forget clears the index: clients with a cursor get a snapshot.
func (s *oldServer) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.first += len(s.events) + 10
	s.events = nil
	clear(s.leases)
	s.leases["10.5.200.0-24"] = `{"Subnet":"10.5.200.0/24","Attrs":` + attrs2 + `,` + never + `}`
	close(s.changed)
	s.changed = make(chan struct{})
}

func (s *oldServer) watch(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	next := r.URL.Query().Get("next")
	at, err := strconv.Atoi(next)
	for next != "" && err == nil && at == s.first+len(s.events) {
		changed := s.changed
		s.mu.Unlock()
		select {
		case <-changed:
		case <-r.Context().Done():
		}
		s.mu.Lock()
		if r.Context().Err() != nil {
			return
		}
	}
	if next != "" && err == nil && at >= s.first && at < s.first+len(s.events) {
		fmt.Fprintf(w, `{"events":[%s],"snapshot":null,"cursor":"%d"}`, s.events[at-s.first], at+1)
		return
	}
	var all []string
	for _, text := range s.leases {
		all = append(all, text)
	}
	fmt.Fprintf(w, `{"events":null,"snapshot":[%s],"cursor":"%d"}`, strings.Join(all, ","), s.first+len(s.events))
}

// requests returns the requests that changed something since the last call.
func (s *oldServer) requests() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	text := strings.Join(s.log, ", ")
	s.log = nil
	return text
}

// shows waits until a store is synced and shows these keys.
func shows(t *testing.T, s *remote.Store, want string) *lease.Snapshot {
	t.Helper()
	eventually(t, want, func() bool {
		v := s.View()
		if !v.Synced || v.Snapshot == nil {
			return false
		}
		got := ""
		for _, l := range v.Snapshot.Leases {
			got += l.Key.String() + " "
		}
		return strings.TrimSpace(got) == want
	})
	return s.View().Snapshot
}

// TestOldServer checks that our client works with an old server, which chooses the
// subnet, sends one event at a time and knows no revisions.
func TestOldServer(t *testing.T) {
	old, addr := startOldServer(t)
	s := client(t, remote.Options{Servers: []string{addr}})
	snap := shows(t, s, "")
	if string(snap.Config.Data) != oldConfig || snap.Config.Revision == 0 {
		t.Errorf("config %+v", snap.Config)
	}
	// The server does not follow the node's choice: the next snapshot shows its own.
	_, err := s.Create(t.Context(), key(t, "10.5.77.0-24"), hostGW("192.168.64.1"), time.Hour)
	conflict := new(lease.ConflictError)
	if !errors.As(err, &conflict) || conflict.Revision <= snap.Revision {
		t.Fatalf("another subnet: %v, want a conflict later than %d", err, snap.Revision)
	}
	snap = shows(t, s, "10.5.1.0-24")
	if snap.Revision < conflict.Revision || snap.Leases[0].Reserved() {
		t.Errorf("snapshot of %d with %+v", snap.Revision, snap.Leases[0])
	}
	began := time.Now()
	g, err := s.Renew(t.Context(), lease.Grant{Lease: *snap.Leases[0]})
	if err != nil || g.Expires.Before(began.Add(23*time.Hour)) || g.TTL < 23*time.Hour {
		t.Errorf("renewal: %+v, %v", g, err)
	}
	if _, err := s.Update(t.Context(), g, hostGW("192.168.64.9"), time.Hour); err != nil {
		t.Error(err)
	}
	eventually(t, "the update", func() bool {
		return s.View().Snapshot.Leases[0].Attrs.PublicIP == hostGW("192.168.64.9").PublicIP
	})
	if _, err := s.Move(t.Context(), g, key(t, "10.5.2.0-24"), g.Attrs, time.Hour); err == nil {
		t.Error("an old server moved a lease")
	}
	if err := s.Release(t.Context(), g); err != nil {
		t.Error(err)
	}
	if got := old.requests(); got != "POST 10.5.1.0, PUT 10.5.1.0, PUT 10.5.1.0" {
		t.Errorf("requests %s: the record has another owner now, which a release may not touch", got)
	}
	if err := s.Release(t.Context(), lease.Grant{Lease: *s.View().Snapshot.Leases[0]}); err != nil {
		t.Error(err)
	}
	shows(t, s, "")
	g, err = s.Create(t.Context(), key(t, "10.5.3.0-24"), hostGW("192.168.64.3"), time.Hour)
	if err != nil || g.Key != key(t, "10.5.3.0-24") || g.Reserved() {
		t.Errorf("the same subnet: %+v, %v", g, err)
	}
	shows(t, s, "10.5.3.0-24")
	old.forget()
	if snap := shows(t, s, "10.5.200.0-24"); !snap.Leases[0].Reserved() {
		t.Error("a reservation has a TTL")
	}
	old.mu.Lock()
	old.config = `{"Network":"10.6.0.0/16"}`
	old.mu.Unlock()
	eventually(t, "the config", func() bool {
		return string(s.View().Snapshot.Config.Data) == `{"Network":"10.6.0.0/16"}`
	})
}

// TestOldServerBehindACache puts a cache between our client and an old server, which answers each watch at once without
// an event. The client asks ever less often, and follows the server once the cache is gone.
func TestOldServerBehindACache(t *testing.T) {
	old, addr := startOldServer(t)
	old.put("POST", "10.5.1.0", json.RawMessage(attrs2))
	behind, err := url.Parse("http://" + addr)
	if err != nil {
		t.Fatal(err)
	}
	var cached atomic.Bool
	var watches atomic.Int64
	cached.Store(true)
	pass := httputil.NewSingleHostReverseProxy(behind)
	cache := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Has("next") && cached.Load() {
			watches.Add(1)
			r.URL.RawQuery = "" // the snapshot of its last answer
		}
		pass.ServeHTTP(w, r)
	}))
	t.Cleanup(cache.Close)
	began := time.Now()
	s := client(t, remote.Options{Servers: []string{cache.Listener.Addr().String()}})
	shows(t, s, "10.5.1.0-24")
	eventually(t, "a few watches", func() bool { return watches.Load() >= 4 })
	// Waits of 0.1 s and twice as long each time, less a fifth: after n watches, 0.08 s * (2^(n-1) - 1) have passed.
	// A slow machine only adds to that.
	n := watches.Load()
	passed := time.Since(began)
	if least := 80 * time.Millisecond * (1<<min(n-1, 6) - 1); passed < least {
		t.Fatalf("%d watches within %s, want no more than in %s", n, passed, least)
	}
	cached.Store(false)
	old.put("POST", "10.5.2.0", json.RawMessage(attrs2))
	shows(t, s, "10.5.1.0-24 10.5.2.0-24")
}
