package cloudtest

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flanneld/flannel/drivers/cloud"
	"github.com/flanneld/flannel/drivers/cloud/api"
)

// New makes the client under test.
type New func(api.Options) (cloud.Client, error)

// kase is one case.
type kase struct {
	name string
	run  func(t *testing.T, s *Suite)
}

// Run runs all cases in virtual time, each on a fake of its own.
func Run(t *testing.T, fake func() Fake, open New) {
	for _, k := range cases() {
		t.Run(k.name, func(t *testing.T) { Case(t, fake(), open, k.run) })
	}
	t.Run("over a real connection", func(t *testing.T) { realConnection(t, fake(), open) })
}

// Case runs one case in virtual time. In the end no request may have been wrong.
func Case(t *testing.T, f Fake, open New, run func(t *testing.T, s *Suite)) {
	synctest.Test(t, func(t *testing.T) {
		s := &Suite{Fake: f, Cloud: f.Cloud(), open: open}
		s.Client = s.Open(t)
		run(t, s)
		for _, complaint := range s.Cloud.Wrong() {
			t.Error(complaint)
		}
	})
}

// Suite is the fake and the client of one case.
type Suite struct {
	Fake   Fake
	Cloud  *Cloud
	Client cloud.Client
	open   New
}

// Open returns a client of its own, as a daemon that starts has.
func (s *Suite) Open(t *testing.T) cloud.Client {
	t.Helper()
	return s.OpenWith(t, s.Fake.Options())
}

// OpenWith returns a client with other options.
func (s *Suite) OpenWith(t *testing.T, o api.Options) cloud.Client {
	t.Helper()
	o.Transport = Transport{s.Fake}
	c, err := s.open(o)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// Patience is the time that a call gets.
const Patience = 5 * time.Minute

// Context is the context of a call.
func Context(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), Patience)
	t.Cleanup(cancel)
	return ctx
}

// Subnet returns the n-th subnet of the cluster.
func Subnet(n byte) netip.Prefix {
	return netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 40, n, 0}), 24)
}

// Table is the first table that routes belong in.
func (s *Suite) Table() string { return s.Cloud.TableIDs[0] }

// Routes returns what the client sees.
func (s *Suite) Routes(t *testing.T) []cloud.Route {
	t.Helper()
	routes, err := s.Client.Routes(Context(t))
	if err != nil {
		t.Fatal(err)
	}
	return routes
}

// Find returns the route to dst in the first table that the client sees.
func (s *Suite) Find(t *testing.T, dst netip.Prefix) cloud.Route {
	t.Helper()
	for _, r := range s.Routes(t) {
		if r.Dst == dst && r.Table == s.Table() {
			return r
		}
	}
	t.Fatalf("the client sees no route to %s", dst)
	return cloud.Route{}
}

// Create makes the route to dst in the first table.
func (s *Suite) Create(t *testing.T, dst netip.Prefix) error {
	t.Helper()
	return s.Client.Create(Context(t), s.Table(), dst)
}

// always is the same trouble with each request of an action.
func always(action string, trouble Trouble) func(string, int) Trouble {
	return func(asked string, _ int) Trouble {
		if asked == action {
			return trouble
		}
		return Fine
	}
}

// first is trouble with the first n requests of an action.
func first(n int, action string, trouble Trouble) func(string, int) Trouble {
	return func(asked string, nth int) Trouble {
		if asked == action && nth <= n {
			return trouble
		}
		return Fine
	}
}

// Wants checks an error's class and words. No class stands for any error.
func Wants(t *testing.T, err, class error, words ...string) {
	t.Helper()
	if err == nil || class != nil && !errors.Is(err, class) {
		t.Errorf("the error is %v and not of the class %q", err, class)
	}
	for _, word := range words {
		if err == nil || !strings.Contains(err.Error(), word) {
			t.Errorf("the error %v lacks the word %q", err, word)
		}
	}
}

// classless checks that an error exists and has no class.
func classless(t *testing.T, err error) {
	t.Helper()
	if err == nil {
		t.Error("no error")
	}
	for _, class := range []error{
		cloud.ErrThrottled, cloud.ErrQuota, cloud.ErrDenied, cloud.ErrExists, cloud.ErrNotFound, cloud.ErrNoIdentity,
	} {
		if errors.Is(err, class) {
			t.Errorf("the error %v has the class %q", err, class)
		}
	}
}
