package kube

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"

	"github.com/flanneld/flannel/drivers/kube/kubetest"
	"github.com/flanneld/flannel/internal/pause"
)

// pipes is a listener whose connections are pipes, which live in virtual time.
type pipes struct {
	conns chan net.Conn
	once  sync.Once
	done  chan struct{}
}

func newPipes() *pipes { return &pipes{conns: make(chan net.Conn), done: make(chan struct{})} }

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error   { p.once.Do(func() { close(p.done) }); return nil }
func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipe"} }

func (p *pipes) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	ours, theirs := net.Pipe()
	select {
	case p.conns <- theirs:
		return ours, nil
	case <-p.done:
		return nil, errors.New("connection refused")
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// misbehave serves one request badly, or returns false to let the good server
// serve it.
type misbehave func(w http.ResponseWriter, r *http.Request) bool

// ofResumed limits a misbehaviour to watches that resume at a revision.
func ofResumed(bad misbehave) misbehave {
	return func(w http.ResponseWriter, r *http.Request) bool {
		q := r.URL.Query()
		return q.Get("watch") == "true" && q.Get("resourceVersion") != "" && bad(w, r)
	}
}

// cleanEnd answers a watch and ends it.
func cleanEnd(w http.ResponseWriter, _ *http.Request) bool {
	w.WriteHeader(http.StatusOK)
	return true
}

// goneAfter tells a watch after a while that its revision is too old.
func goneAfter(d time.Duration) misbehave {
	return func(w http.ResponseWriter, r *http.Request) bool {
		w.WriteHeader(http.StatusOK)
		w.(http.Flusher).Flush()
		pause.For(r.Context(), d)
		_, _ = w.Write(kubetest.Gone())
		return true
	}
}

// hangUp breaks the connection in the middle of an answer.
func hangUp(w http.ResponseWriter, _ *http.Request) bool {
	w.WriteHeader(http.StatusOK)
	_, _ = w.Write([]byte{0, 0, 1})
	w.(http.Flusher).Flush()
	panic(http.ErrAbortHandler)
}

// garbage answers with random bytes.
func garbage(w http.ResponseWriter, _ *http.Request) bool {
	_, _ = io.WriteString(w, "<html>please log in</html>")
	return true
}

// refused answers with an HTTP status, and says when to come back.
func refused(code int, retryAfter time.Duration) misbehave {
	return func(w http.ResponseWriter, _ *http.Request) bool {
		if retryAfter > 0 {
			w.Header().Set("Retry-After", strconv.Itoa(int(retryAfter/time.Second)))
		}
		http.Error(w, "no", code)
		return true
	}
}

// TestRequestsAMinute lets a server end each request badly, and limits the requests
// of each minute: the store must retry with a growing delay.
func TestRequestsAMinute(t *testing.T) {
	for name, c := range map[string]struct {
		bad         misbehave
		first, then int // requests in the first minute, and in each later one
	}{
		"every watch ends cleanly at once":    {ofResumed(cleanEnd), 20, 8},
		"a watch begins with 410":             {ofResumed(goneAfter(0)), 40, 16},
		"410 after a second":                  {ofResumed(goneAfter(time.Second)), 40, 16},
		"410 after ten seconds":               {ofResumed(goneAfter(10 * time.Second)), 20, 12},
		"hang-up in the middle of an event":   {ofResumed(hangUp), 20, 8},
		"hang-up in the middle of any answer": {hangUp, 40, 16},
		"a watch of garbage":                  {ofResumed(garbage), 20, 8},
		"nothing but garbage":                 {garbage, 40, 16},
		"status 500":                          {refused(http.StatusInternalServerError, 0), 20, 8},
		"status 500 for watches":              {ofResumed(refused(http.StatusInternalServerError, 0)), 20, 8},
		"status 429, come back in 20 s":       {refused(http.StatusTooManyRequests, 20*time.Second), 3, 3},
		"status 429 for watches, 20 s":        {ofResumed(refused(http.StatusTooManyRequests, 20*time.Second)), 6, 3},
		"status 503, come back in a day":      {refused(http.StatusServiceUnavailable, 24*time.Hour), 2, 2},
	} {
		for _, older := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, older=%t", name, older), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					total := 0
					for minute, n := range requestsOf(t, c.bad, older, 10) {
						most := c.then
						if minute == 0 {
							most = c.first
						}
						if n > most {
							t.Errorf("minute %d: %d requests, want at most %d", minute, n, most)
						}
						total += n
					}
					if total < 5 {
						t.Errorf("%d requests in ten minutes: the store has given up", total)
					}
				})
			})
		}
	}
}

// TestReadsThatFail lets each read of a single node fail while the own node changes every ten seconds: other nodes are
// followed all the same, and the store asks for little.
func TestReadsThatFail(t *testing.T) {
	hang := func(_ http.ResponseWriter, r *http.Request) bool { <-r.Context().Done(); return true }
	for name, bad := range map[string]misbehave{
		"none": nil, "status 500": refused(http.StatusInternalServerError, 0),
		"status 403": refused(http.StatusForbidden, 0),
		"status 429": refused(http.StatusTooManyRequests, time.Second), "garbage": garbage,
		"hang-up": hangUp, "silence": hang,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				reads, others := readsThatFail(t, bad, 10)
				most := 70 // the own node changes 60 times
				if bad != nil {
					most = 20
				}
				if reads > most || others > 8 {
					t.Errorf("%d reads of single nodes and %d other requests in ten minutes", reads, others)
				}
			})
		})
	}
}

// readsThatFail counts the requests of one store in that many minutes, in each of which a peer gets another address.
func readsThatFail(t *testing.T, bad misbehave, minutes int) (reads, others int) {
	api := kubetest.New()
	api.Put(plain("n1", "10.244.1.0/24"))
	api.Put(peer(2))
	listener := newPipes()
	var mu sync.Mutex
	web := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		isRead := strings.HasPrefix(r.URL.Path, "/api/v1/nodes/")
		mu.Lock()
		if isRead {
			reads++
		} else {
			others++
		}
		mu.Unlock()
		if !isRead || bad == nil || !bad(w, r) {
			api.ServeHTTP(w, r)
		}
	})}
	var work sync.WaitGroup
	work.Go(func() { _ = web.Serve(listener) })
	s := overPipes(t.Context(), t, listener)
	for minute := range minutes {
		address := fmt.Sprintf("192.168.65.%d", minute+1)
		for range 6 {
			pause.For(t.Context(), 10*time.Second)
			api.Change("n1", func(n *corev1.Node) { n.Labels = map[string]string{"now": time.Now().String()} })
		}
		api.Change("n2", func(n *corev1.Node) { n.Annotations[annotationPrefix+"public-ip"] = address })
		pause.For(t.Context(), 15*time.Second) // a silent read ends after ten
		v := s.View()
		if !v.Synced || len(v.Snapshot.Leases) != 1 || v.Snapshot.Leases[0].Attrs.PublicIP.String() != address {
			t.Fatalf("minute %d: synced %t (%v), the peer's address is not %s", minute, v.Synced, v.Err, address)
		}
	}
	s.Close()
	_ = web.Close()
	api.Break()
	work.Wait()
	return reads, others
}

// tooMany ends a hot loop, in which virtual time would stand still.
const tooMany = 1000

// requestsOf counts the requests of one store to a server, a minute.
func requestsOf(t *testing.T, bad misbehave, older bool, minutes int) []int {
	api := kubetest.New()
	api.Put(plain("n1", "10.244.1.0/24"))
	api.Put(peer(2))
	if older {
		api.WithoutStreaming()
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	began := time.Now()
	counts := make([]int, minutes)
	var mu sync.Mutex
	count := func() {
		mu.Lock()
		defer mu.Unlock()
		minute := min(int(time.Since(began)/time.Minute), minutes-1)
		counts[minute]++
		if counts[minute] >= tooMany {
			cancel()
		}
	}
	listener := newPipes()
	web := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		count()
		if bad(w, r) {
			return
		}
		if isList(r.URL.RawQuery) { // the revision with which a watch begins; the next one resumes where it ends
			time.AfterFunc(time.Second, api.Break)
		}
		api.ServeHTTP(w, r)
	})}
	var work sync.WaitGroup
	work.Go(func() { _ = web.Serve(listener) })
	s := overPipes(ctx, t, listener)
	pause.For(ctx, time.Duration(minutes)*time.Minute-time.Nanosecond)
	s.Close()
	_ = web.Close()
	api.Break()
	work.Wait()
	return counts
}

// overPipes opens a store whose connections are pipes.
func overPipes(ctx context.Context, t *testing.T, listener *pipes) *Store {
	path := filepath.Join(t.TempDir(), "net-conf.json")
	if err := os.WriteFile(path, []byte(vxlanConfig), 0o600); err != nil {
		t.Fatal(err)
	}
	o := Options{Node: "n1", ConfigFile: path}.withDefaults()
	set, err := o.setup()
	if err != nil {
		t.Fatal(err)
	}
	api, err := newServer(always(&rest.Config{Host: "http://pipe", Dial: listener.dial}), set.names)
	if err != nil {
		t.Fatal(err)
	}
	s := newStore(ctx, o, set, api)
	s.start()
	return s
}

// TestDelayBeginsAnew ends a watch after a long life: that is not a failure, and the
// store opens the next one at once.
func TestDelayBeginsAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bad := ofResumed(func(w http.ResponseWriter, r *http.Request) bool {
			w.WriteHeader(http.StatusOK)
			w.(http.Flusher).Flush()
			pause.For(r.Context(), 2*steady)
			return true
		})
		for minute, n := range requestsOf(t, bad, true, 10) {
			if minute > 0 && n > 1 {
				t.Errorf("minute %d: %d requests for a watch of two minutes", minute, n)
			}
		}
	})
}

// TestSilentWatch lets a watch bring nothing, not even bookmarks, after the header of its answer or without it: the
// store opens another one.
func TestSilentWatch(t *testing.T) {
	for name, header := range map[string]bool{"after the header": true, "from the beginning": false} {
		t.Run(name, func(t *testing.T) { synctest.Test(t, func(t *testing.T) { silentWatch(t, header) }) })
	}
}

func silentWatch(t *testing.T, header bool) {
	api := kubetest.New()
	api.Put(plain("n1", "10.244.1.0/24"))
	api.Put(peer(2))
	var watches atomic.Int32
	silent := ofResumed(func(w http.ResponseWriter, r *http.Request) bool {
		if watches.Add(1) > 1 {
			return false
		}
		if header {
			w.WriteHeader(http.StatusOK)
			w.(http.Flusher).Flush()
		}
		<-r.Context().Done()
		return true
	})
	listener := newPipes()
	web := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !silent(w, r) {
			api.ServeHTTP(w, r)
		}
	})}
	var work sync.WaitGroup
	work.Go(func() { _ = web.Serve(listener) })
	s := overPipes(t.Context(), t, listener)
	pause.For(t.Context(), time.Second)
	const address = "192.168.65.1"
	api.Change("n2", func(n *corev1.Node) { n.Annotations[annotationPrefix+"public-ip"] = address })
	limit := silence
	if !header {
		limit = answerLimit
	}
	pause.For(t.Context(), limit+5*time.Second) // the second one may come after a delay
	if v := s.View(); len(v.Snapshot.Leases) != 1 || v.Snapshot.Leases[0].Attrs.PublicIP.String() != address {
		t.Errorf("%d watches, and the peer's new address is not seen: %+v", watches.Load(), v.Snapshot.Leases)
	}
	pause.For(t.Context(), silence-time.Minute)
	api.Bookmark()
	pause.For(t.Context(), 100*time.Second) // so the server does not end it yet, as it does after five minutes or more
	if n := watches.Load(); n != 2 {
		t.Errorf("%d watches, want 2: the second one had a bookmark in time", n)
	}
	s.Close()
	_ = web.Close()
	api.Break()
	work.Wait()
}
