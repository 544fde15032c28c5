package remote

import (
	"io"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flanneld/flannel/core/lease"
	"github.com/flanneld/flannel/drivers/remote/api"
	"github.com/flanneld/flannel/internal/following"
	"github.com/flanneld/flannel/internal/wake"
)

// node is a store whose server is played by a test, in virtual time.
type node struct {
	*Store
	t       *testing.T
	answers chan string // to changes; each request takes one
	deleted []int64     // the revisions that the store has asked to delete
}

var (
	here  = lease.Key{V4: netip.MustParsePrefix("10.5.1.0/24")}
	there = lease.Key{V4: netip.MustParsePrefix("10.5.2.0/24")}
	own   = lease.Attrs{PublicIP: netip.MustParseAddr("192.168.64.1")}
)

// The answers of the server.
const (
	none    = "none" // the answer gets lost
	done    = "done"
	taken   = "taken"
	doneOld = "done by an old server"
)

func newNode(t *testing.T) *node {
	n := &node{t: t, answers: make(chan string)}
	n.Store = &Store{
		o: Options{Timeout: time.Hour}.withDefaults(), bases: []string{"http://server/v1/_"},
		client: &http.Client{Transport: n}, changed: wake.NewSignal(),
	}
	n.conns.Addrs = func() ([]net.Addr, error) { return nil, nil }
	n.work = following.NewWork(t.Context())
	n.ctx = n.work.Context()
	t.Cleanup(n.Close)
	return n
}

// RoundTrip implements http.RoundTripper.
func (n *node) RoundTrip(r *http.Request) (*http.Response, error) {
	terms, err := api.ParseTerms(r.Header.Get(api.Header))
	if err != nil {
		return nil, err
	}
	resp := &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: http.NoBody}
	resp.Header.Set(api.Header, terms.String())
	if r.Method == http.MethodDelete {
		n.deleted = append(n.deleted, terms.Mod)
		return resp, nil
	}
	if terms.Op == api.Move {
		terms.Key = terms.To
	}
	terms.Mod = 9
	resp.Header.Set(api.Header, terms.String())
	switch <-n.answers {
	case none:
		resp.StatusCode = http.StatusBadGateway
		resp.Header.Del(api.Header)
	case taken:
		resp.StatusCode = http.StatusConflict
	case doneOld:
		resp.Header.Del(api.Header)
		text := `{"Subnet":"10.5.1.0/24","Attrs":{"PublicIP":"192.168.64.1"},"Expiration":"2100-01-01T00:00:00Z"}`
		resp.Body = io.NopCloser(strings.NewReader(text))
	}
	return resp, nil
}

// create asks for the key here, and returns once the request is under way.
func (n *node) create() {
	go func() { _, _ = n.Create(n.t.Context(), here, own, time.Hour) }()
	synctest.Wait()
}

// move asks to move a lease here, and returns once the request is under way.
func (n *node) move() {
	g := lease.Grant{Lease: lease.Lease{Key: there, Attrs: own, ModRevision: 2, ID: 2}, TTL: time.Hour}
	go func() { _, _ = n.Move(n.t.Context(), g, here, own, time.Hour) }()
	synctest.Wait()
}

func (n *node) answer(a string) {
	n.answers <- a
	synctest.Wait()
}

// shows lets the node see its record under the key here.
func (n *node) shows(revision int64) {
	l := &lease.Lease{Key: here, Attrs: own, ModRevision: revision, ID: revision}
	n.update(func() {
		n.table = &table{
			entries:  []entry{{name: here.String(), lease: l}},
			snapshot: &lease.Snapshot{Revision: revision, Leases: []*lease.Lease{l}},
		}
	})
}

// pass lets time pass.
func (n *node) pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// doubtCases are what a node does after a Create without an answer, and the
// revisions that the cleanup deletes.
var doubtCases = map[string]struct {
	then func(n *node)
	want []int64
}{
	"nothing": {func(n *node) { n.shows(3) }, []int64{3}},
	"a second create with an answer": {func(n *node) {
		n.create()
		n.shows(4)
		n.pass(30 * time.Second)
		n.answer(done)
	}, nil},
	"a second create without an answer": {func(n *node) {
		n.create()
		n.shows(4)
		n.pass(30 * time.Second)
		n.answer(none)
	}, []int64{4}},
	"a second create that is refused": {func(n *node) {
		n.create()
		n.shows(3)
		n.pass(30 * time.Second)
		n.answer(taken)
	}, []int64{3}},
	"a second create at an old server": {func(n *node) {
		n.update(func() { n.old = true })
		n.create()
		n.answer(doneOld)
		n.shows(4)
	}, nil},
	"a move with an answer": {func(n *node) {
		n.move()
		n.shows(4)
		n.pass(30 * time.Second)
		n.answer(done)
	}, nil},
	"a move without an answer": {func(n *node) {
		n.move()
		n.answer(none)
		n.shows(4)
	}, nil},
	"a move that is refused": {func(n *node) {
		n.move()
		n.shows(3)
		n.pass(30 * time.Second)
		n.answer(taken)
	}, []int64{3}},
	"a doubt that began later": {func(n *node) {
		n.create()
		n.answer(done)
		n.pass(50 * time.Second)
		n.create()
		n.answer(none)
		n.pass(20 * time.Second) // the first search is over
		n.shows(5)
	}, []int64{5}},
}

// TestDoubts checks which records the cleanup deletes after a Create without an
// answer.
func TestDoubts(t *testing.T) {
	for name, c := range doubtCases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNode(t)
				n.create()
				n.answer(none)
				c.then(n)
				n.pass(2 * doubtTimeout)
				if !slices.Equal(n.deleted, c.want) {
					t.Errorf("deleted the records of the revisions %v, want %v", n.deleted, c.want)
				}
				if len(n.doubts.keys) != 0 || len(n.doubts.asked) != 0 {
					t.Errorf("left doubts %v and requests %v", n.doubts.keys, n.doubts.asked)
				}
			})
		})
	}
}
