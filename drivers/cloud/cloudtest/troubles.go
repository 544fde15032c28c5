package cloudtest

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/flanneld/flannel/drivers/cloud"
	"github.com/flanneld/flannel/drivers/cloud/api"
)

// troubleCases are about requests that fail.
var troubleCases = []kase{
	{"throttled for a while", func(t *testing.T, s *Suite) {
		s.Cloud.Trouble = first(2, s.Cloud.List, Throttle)
		s.Routes(t)
	}},
	{"throttled", func(t *testing.T, s *Suite) {
		s.Routes(t)
		before := s.Cloud.Calls(s.Cloud.List)
		s.Cloud.Trouble = always(s.Cloud.List, Throttle)
		_, err := s.Client.Routes(Context(t))
		Wants(t, err, cloud.ErrThrottled)
		if n := s.Cloud.Calls(s.Cloud.List) - before; n != api.Attempts {
			t.Errorf("the client asked %d times", n)
		}
	}},
	{"throttled until the time is over", func(t *testing.T, s *Suite) {
		s.Cloud.Trouble = always(s.Cloud.Create, Throttle)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		Wants(t, s.Client.Create(ctx, s.Table(), Subnet(3)), cloud.ErrThrottled)
	}},
	{"failing for a while", func(t *testing.T, s *Suite) {
		s.Cloud.Trouble = first(2, s.Cloud.Create, Fail)
		if err := s.Create(t, Subnet(3)); err != nil {
			t.Error(err)
		}
	}},
	{"failing", func(t *testing.T, s *Suite) {
		s.Cloud.Trouble = always(s.Cloud.Create, Fail)
		classless(t, s.Create(t, Subnet(3)))
		if n := s.Cloud.Calls(s.Cloud.Create); n != api.Attempts {
			t.Errorf("the client asked %d times", n)
		}
	}},
	{"connections break", func(t *testing.T, s *Suite) {
		s.Cloud.Trouble = first(2, s.Cloud.List, Drop)
		s.Routes(t)
	}},
	{"the answer to create is lost", func(t *testing.T, s *Suite) {
		s.Cloud.Trouble = first(1, s.Cloud.Create, Lose)
		if err := s.Create(t, Subnet(3)); err != nil {
			Wants(t, err, cloud.ErrExists)
		}
		if r := s.Find(t, Subnet(3)); !r.Self {
			t.Errorf("the route is %+v", r)
		}
		if stored := s.Cloud.Stored(Subnet(3)); len(stored) != 1 {
			t.Errorf("the provider has %+v", stored)
		}
	}},
	{"the answer to delete is lost", func(t *testing.T, s *Suite) {
		if err := s.Create(t, Subnet(3)); err != nil {
			t.Fatal(err)
		}
		s.Cloud.Trouble = first(1, s.Cloud.Delete, Lose)
		if err := s.Client.Delete(Context(t), s.Find(t, Subnet(3))); err != nil {
			Wants(t, err, cloud.ErrNotFound)
		}
		if stored := s.Cloud.Stored(Subnet(3)); len(stored) != 0 {
			t.Errorf("the provider has %+v", stored)
		}
	}},
	{"no answer", func(t *testing.T, s *Suite) {
		for _, action := range []string{s.Cloud.List, s.Cloud.Names.Probe} {
			s.Cloud.Trouble = always(action, Hang)
			begin := time.Now()
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			_, err := s.Open(t).Routes(ctx)
			cancel()
			Wants(t, err, context.DeadlineExceeded)
			if d := time.Since(begin); d != 2*time.Second {
				t.Errorf("%s: the client waited %s", action, d)
			}
		}
	}},
	{"no answer once", func(t *testing.T, s *Suite) {
		s.Cloud.Trouble = first(1, s.Cloud.List, Hang)
		s.Routes(t)
	}},
	{"an answer that is none", func(t *testing.T, s *Suite) {
		s.Cloud.Trouble = always(s.Cloud.List, Garbage)
		_, err := s.Client.Routes(Context(t))
		classless(t, err)
		s.Cloud.Trouble = always(s.Cloud.Create, Garbage)
		begin := time.Now()
		classless(t, s.Create(t, Subnet(3)))
		if d := time.Since(begin); d != 0 {
			t.Errorf("the client waited %s for a route that it did not make", d)
		}
	}},
	{"a right is missing", func(t *testing.T, s *Suite) {
		if err := s.Create(t, Subnet(3)); err != nil {
			t.Fatal(err)
		}
		r := s.Find(t, Subnet(3))
		s.Cloud.Trouble = always(s.Cloud.Create, Deny)
		Wants(t, s.Create(t, Subnet(4)), cloud.ErrDenied, s.Cloud.Rights[s.Cloud.Create])
		s.Cloud.Trouble = always(s.Cloud.Delete, Deny)
		Wants(t, s.Client.Delete(Context(t), r), cloud.ErrDenied, s.Cloud.Rights[s.Cloud.Delete])
		s.Cloud.Trouble = always(s.Cloud.List, Deny)
		_, err := s.Client.Routes(Context(t))
		Wants(t, err, cloud.ErrDenied, s.Cloud.Rights[s.Cloud.List])
	}},
	{"the credentials are wrong", func(t *testing.T, s *Suite) {
		s.Cloud.Trouble = always(s.Cloud.List, BadKeys)
		_, err := s.Client.Routes(Context(t))
		Wants(t, err, cloud.ErrDenied)
	}},
	{"the secret is wrong", func(t *testing.T, s *Suite) {
		o := s.Fake.Options()
		if o.AccessKeySecret == "" {
			return
		}
		o.AccessKeySecret += "x"
		_, err := s.OpenWith(t, o).Routes(Context(t))
		Wants(t, err, cloud.ErrDenied)
		if strings.Contains(err.Error(), o.AccessKeySecret) {
			t.Errorf("the error shows the secret: %v", err)
		}
	}},
	{"no instance of the provider", func(t *testing.T, s *Suite) {
		s.Cloud.Gone = true
		_, err := s.Client.Routes(Context(t))
		Wants(t, err, cloud.ErrNoIdentity)
		Wants(t, s.Create(t, Subnet(3)), cloud.ErrNoIdentity)
		s.Cloud.Gone = false
		s.Routes(t)
	}},
	{"the metadata service tells rubbish", func(t *testing.T, s *Suite) {
		s.Cloud.Rubbish = true
		_, err := s.Client.Routes(Context(t))
		Wants(t, err, cloud.ErrNoIdentity)
		s.noSecret(t, err)
	}},
	{"the metadata service fails for a while", func(t *testing.T, s *Suite) {
		s.Cloud.Trouble = first(1, s.Cloud.Names.Probe, Fail)
		s.Routes(t)
	}},
	{"no credential is in an error", func(t *testing.T, s *Suite) {
		s.Cloud.Echo = true
		if err := s.Create(t, Subnet(3)); err != nil {
			t.Fatal(err)
		}
		r := s.Find(t, Subnet(3))
		for _, action := range []string{s.Cloud.List, s.Cloud.Create, s.Cloud.Delete, s.Cloud.Names.Probe} {
			for _, trouble := range []Trouble{Throttle, Fail, Deny, BadKeys, Full, Busy, Invalid, Drop, Hang, Garbage} {
				s.Cloud.Trouble = always(action, trouble)
				s.Client = s.Open(t)
				_, listed := s.Client.Routes(Context(t))
				s.noSecret(t, listed)
				s.noSecret(t, s.Create(t, Subnet(5)))
				s.noSecret(t, s.Client.Delete(Context(t), r))
			}
		}
	}},
}

// noSecret checks that an error shows no credential.
func (s *Suite) noSecret(t *testing.T, err error) {
	t.Helper()
	if err == nil {
		return
	}
	for _, secret := range s.Cloud.Secrets() {
		if strings.Contains(err.Error(), secret) {
			t.Errorf("the error shows %q: %v", secret, err)
		}
	}
}
