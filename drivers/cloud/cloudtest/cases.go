package cloudtest

import (
	"context"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/flanneld/flannel/drivers/cloud"
)

func cases() []kase {
	return slices.Concat(tableCases, troubleCases)
}

// tableCases are about routes.
var tableCases = []kase{
	{"a fresh table", func(t *testing.T, s *Suite) {
		tables := map[string]bool{}
		for _, r := range s.Routes(t) {
			tables[r.Table] = true
			if r.Self || r.Custom {
				t.Errorf("%+v is an instance's", r)
			}
		}
		for _, id := range s.Cloud.TableIDs {
			if !tables[id] {
				t.Errorf("no route names table %s", id)
			}
		}
	}},
	{"create", func(t *testing.T, s *Suite) {
		if err := s.Create(t, Subnet(3)); err != nil {
			t.Fatal(err)
		}
		stored := s.Cloud.Stored(Subnet(3))
		if len(stored) != 1 || stored[0].Hop != s.Cloud.Self || stored[0].Table != s.Table() {
			t.Fatalf("the provider has %+v", stored)
		}
		got := s.Find(t, Subnet(3))
		want := cloud.Route{Table: s.Table(), ID: got.ID, Dst: Subnet(3), Target: got.Target, Self: true, Custom: true,
			State: cloud.Active}
		if d := cmp.Diff(want, got, cmp.Comparer(func(a, b cloud.Route) bool { return a == b })); d != "" {
			t.Error(d)
		}
	}},
	{"create waits until the route is active", func(t *testing.T, s *Suite) {
		s.Cloud.Lag = 2
		s.Cloud.Pending = 2
		if err := s.Create(t, Subnet(3)); err != nil {
			t.Fatal(err)
		}
		if r := s.Find(t, Subnet(3)); r.State != cloud.Active {
			t.Errorf("create returned with %+v", r)
		}
	}},
	{"create gives up on a route that stays pending", func(t *testing.T, s *Suite) {
		s.Cloud.Pending = 1 << 20
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		Wants(t, s.Client.Create(ctx, s.Table(), Subnet(3)), context.DeadlineExceeded)
	}},
	{"another instance has the subnet's route", func(t *testing.T, s *Suite) {
		s.Cloud.Put(s.another(3))
		Wants(t, s.Create(t, Subnet(3)), cloud.ErrExists)
		if stored := s.Cloud.Stored(Subnet(3)); len(stored) != 1 || stored[0].Hop != s.Cloud.Other {
			t.Errorf("the provider has %+v", stored)
		}
		r := s.Find(t, Subnet(3))
		if r.Self || !r.Custom || r.Target == "" {
			t.Errorf("the other's route is %+v", r)
		}
	}},
	{"delete", func(t *testing.T, s *Suite) {
		if err := s.Create(t, Subnet(3)); err != nil {
			t.Fatal(err)
		}
		r := s.Find(t, Subnet(3))
		if err := s.Client.Delete(Context(t), r); err != nil {
			t.Fatal(err)
		}
		if stored := s.Cloud.Stored(Subnet(3)); len(stored) != 0 {
			t.Errorf("the provider has %+v", stored)
		}
		Wants(t, s.Client.Delete(Context(t), r), cloud.ErrNotFound)
	}},
	{"delete another instance's route", func(t *testing.T, s *Suite) {
		s.Cloud.Put(s.another(3))
		if err := s.Client.Delete(Context(t), s.Find(t, Subnet(3))); err != nil {
			t.Fatal(err)
		}
		if stored := s.Cloud.Stored(Subnet(3)); len(stored) != 0 {
			t.Errorf("the provider has %+v", stored)
		}
	}},
	{"delete a route that has changed hands", func(t *testing.T, s *Suite) {
		if err := s.Create(t, Subnet(3)); err != nil {
			t.Fatal(err)
		}
		r := s.Find(t, Subnet(3))
		s.Cloud.Drop(s.Table(), Subnet(3))
		s.Cloud.Put(s.another(3))
		Wants(t, s.Client.Delete(Context(t), r), cloud.ErrNotFound)
		if stored := s.Cloud.Stored(Subnet(3)); len(stored) != 1 {
			t.Errorf("the other's route is gone: %+v", stored)
		}
	}},
	{"a broken route", func(t *testing.T, s *Suite) {
		e := s.another(3)
		e.State = cloud.Broken
		e.Hop = s.Cloud.Self
		s.Cloud.Put(e)
		if r := s.Find(t, Subnet(3)); r.State != cloud.Broken {
			t.Errorf("the route is %+v", r)
		}
	}},
	{"many routes", func(t *testing.T, s *Suite) {
		s.Cloud.PageSize = 7
		for n := range byte(45) {
			s.Cloud.Put(s.another(n))
		}
		seen := map[string]bool{}
		for _, r := range s.Routes(t) {
			seen[r.Dst.String()] = true
		}
		for n := range byte(45) {
			if !seen[Subnet(n).String()] {
				t.Errorf("the client does not see the route to %s", Subnet(n))
			}
		}
		if s.Cloud.Pages && s.Cloud.Calls(s.Cloud.List) < 2 {
			t.Error("the list had one page")
		}
	}},
	{"a page is missing", func(t *testing.T, s *Suite) {
		if !s.Cloud.Pages {
			return
		}
		s.Cloud.PageSize = 7
		for n := range byte(45) {
			s.Cloud.Put(s.another(n))
		}
		s.Routes(t)
		before := s.Cloud.Calls(s.Cloud.List)
		s.Cloud.Trouble = func(action string, nth int) Trouble {
			if action == s.Cloud.List && nth > before+1 {
				return Fail
			}
			return Fine
		}
		if routes, err := s.Client.Routes(Context(t)); err == nil {
			t.Errorf("half a table is %d routes and no error", len(routes))
		}
	}},
	{"a full table", func(t *testing.T, s *Suite) {
		s.Cloud.Limit = 3
		for n := range byte(3) {
			s.Cloud.Put(s.another(n))
		}
		Wants(t, s.Create(t, Subnet(9)), cloud.ErrQuota, s.Cloud.Names.Limit)
	}},
}

// another is another instance's route to the n-th subnet.
func (s *Suite) another(n byte) Entry {
	e := Entry{Dst: Subnet(n), Hop: s.Cloud.Other}
	if namer, ok := s.Fake.(interface{ ID(Entry) string }); ok {
		e.ID = namer.ID(e)
	}
	return e
}

// realConnection creates and deletes a route through a server on the loopback.
func realConnection(t *testing.T, f Fake, open New) {
	server := httptest.NewServer(f)
	defer server.Close()
	if q, ok := f.(interface{ Quick() }); ok {
		q.Quick()
	}
	o := f.Options()
	o.Metadata = server.URL
	if m, ok := f.(interface{ MetadataPath() string }); ok {
		o.Metadata += m.MetadataPath()
	}
	o.Endpoint = server.URL
	client, err := open(o)
	if err != nil {
		t.Fatal(err)
	}
	s := &Suite{Fake: f, Cloud: f.Cloud(), Client: client}
	if err := s.Create(t, Subnet(3)); err != nil {
		t.Fatal(err)
	}
	if err := s.Client.Delete(Context(t), s.Find(t, Subnet(3))); err != nil {
		t.Fatal(err)
	}
	if stored := f.Cloud().Stored(Subnet(3)); len(stored) != 0 {
		t.Errorf("the provider has %+v", stored)
	}
}
