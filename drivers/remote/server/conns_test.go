package server

import (
	"net"
	"net/netip"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/flanneld/flannel/core/lease"
)

// fakeConn counts how often it is closed.
type fakeConn struct {
	net.Conn
	closed int
}

func (c *fakeConn) Close() error {
	c.closed++
	return nil
}

// TestClients checks who counts as one client.
func TestClients(t *testing.T) {
	of := func(addr string) client { return clientAt(addrOf(addr)) }
	for _, c := range []struct {
		one, other string
		same       bool
	}{
		{"192.0.2.1:1", "192.0.2.1:2", true},
		{"192.0.2.1:1", "[::ffff:192.0.2.1]:2", true},
		{"192.0.2.1:1", "192.0.2.2:1", false},
		{"[2001:db8:0:1::1]:1", "[2001:db8:0:1:ffff::2]:1", true},
		{"[2001:db8:0:1::1]:1", "[2001:db8:0:2::1]:1", false},
		{"[fe80::1%eth0]:1", "[fe80::2%eth0]:1", true},
	} {
		if got := of(c.one) == of(c.other); got != c.same {
			t.Errorf("%s and %s are one client: %t", c.one, c.other, got)
		}
	}
	if got := of("[2001:db8::1]:1").String(); got != "2001:db8::/64" {
		t.Error(got)
	}
}

// TestCrowd checks which connection makes room for another one.
func TestCrowd(t *testing.T) {
	w := newCrowd(3, 5)
	a, b := clientAt(netip.MustParseAddr("192.0.2.1")), clientAt(netip.MustParseAddr("2001:db8::1"))
	var all []*conn
	enter := func(of client) bool {
		c := &conn{Conn: &fakeConn{}}
		all = append(all, c)
		return w.enter(c, of)
	}
	want := func(what string, left ...int) {
		t.Helper()
		var got []int
		for i, c := range all {
			if c.Conn.(*fakeConn).closed == 0 {
				got = append(got, i)
			}
		}
		if diff := cmp.Diff(left, got); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", what, diff)
		}
		inside := slices.DeleteFunc(slices.Clone(all), func(c *conn) bool { return !c.inside })
		if len(inside) != len(left) || w.all.open != len(left) {
			t.Errorf("%s: %d connections count, and the crowd says %d", what, len(inside), w.all.open)
		}
	}
	for range 4 {
		enter(a)
	}
	want("the oldest one of the client", 1, 2, 3)
	w.answer(all[1])
	enter(a)
	want("the oldest one that is not being answered", 1, 3, 4)
	w.answer(all[3])
	w.answer(all[4])
	if enter(a) {
		t.Error("a client has more than its share, all of them being answered")
	}
	all = all[:5]
	enter(b)
	enter(b)
	enter(b)
	want("the oldest one in all", 1, 3, 4, 6, 7)
	w.wait(all[4])
	w.wait(all[1])
	enter(b)
	want("the one that has waited longest in all", 1, 3, 4, 7, 8)
	if w.answer(all[6]) {
		t.Error("a connection that had to make room is being answered")
	}
	for _, c := range all {
		_ = c.Close()
		_ = c.Close()
	}
	if w.all.open != 0 || w.all.waiting.Len() != 0 || len(w.clients) != 0 {
		t.Errorf("after the end of all: %+v", w)
	}
}

// TestLists checks that the clients of the oldest list are cut off above the bound, and those of the newest one never.
func TestLists(t *testing.T) {
	l := &lists{most: 25}
	over := func() *conn { return &conn{Conn: &fakeConn{}} }
	closed := func(c *conn) bool { return c.Conn.(*fakeConn).closed > 0 }
	var texts []*text
	for _, size := range []int{10, 10, 10, 30} {
		texts = append(texts, &text{bytes: make([]byte, size)})
	}
	conns := []*conn{over(), over(), over(), over(), over()}
	l.begin(texts[0], conns[0])
	l.begin(texts[0], conns[1])
	l.begin(texts[1], conns[2])
	if l.held != 20 || closed(conns[0]) {
		t.Errorf("two lists of 10 bytes: %d held", l.held)
	}
	l.begin(texts[2], conns[3])
	if l.held != 20 || !closed(conns[0]) || !closed(conns[1]) || closed(conns[2]) {
		t.Errorf("three lists of 10 bytes: %d held", l.held)
	}
	l.end(texts[1], conns[2])
	l.begin(texts[3], conns[4])
	if l.held != 30 || !closed(conns[3]) || closed(conns[2]) || closed(conns[4]) {
		t.Errorf("a list above the bound: %d held", l.held)
	}
	for i, t := range []*text{texts[0], texts[0], nil, texts[2], texts[3]} {
		if t != nil {
			l.end(t, conns[i])
		}
	}
	if l.held != 0 || l.sent.Len() != 0 {
		t.Errorf("after the end: %d held, %d lists", l.held, l.sent.Len())
	}
}

// TestListsAreShared checks that a list is encoded once a revision.
func TestListsAreShared(t *testing.T) {
	m := newMemory(3)
	var l listing
	encoded := 0
	get := func() *text {
		t.Helper()
		got, err := l.get(m.View().Snapshot, func(*lease.Snapshot) ([]byte, error) {
			encoded++
			return []byte("x"), nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	first := get()
	if get() != first || encoded != 1 {
		t.Errorf("encoded %d times at one revision", encoded)
	}
	m.touch(1)
	if get() == first || encoded != 2 {
		t.Errorf("encoded %d times at two revisions", encoded)
	}
}

// TestLimiterForgets checks that the limiter's memory is bounded, whatever comes.
func TestLimiterForgets(t *testing.T) {
	l := limiter{limits: Options{}.withDefaults().Limits}
	for i := range 3 * manyClients {
		of := clientAt(netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)}))
		if !l.enter(of) {
			t.Fatalf("client %d is refused", i)
		}
		if i > 0 { // the first one has a request open
			l.leave(of)
		}
		if len(l.clients) > manyClients {
			t.Fatalf("%d clients", len(l.clients))
		}
	}
	if first := l.clients[clientAt(netip.MustParseAddr("10.0.0.0"))]; first == nil || first.open != 1 {
		t.Errorf("the client with an open request: %+v", first)
	}
}
