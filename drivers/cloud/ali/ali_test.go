package ali_test

import (
	"testing"
	"time"

	"github.com/flanneld/flannel/drivers/cloud"
	"github.com/flanneld/flannel/drivers/cloud/ali"
	"github.com/flanneld/flannel/drivers/cloud/api"
	"github.com/flanneld/flannel/drivers/cloud/cloudtest"
)

func TestCases(t *testing.T) {
	cloudtest.Run(t, func() cloudtest.Fake { return cloudtest.NewAli() }, ali.New)
}

func TestABusyTable(t *testing.T) {
	f := cloudtest.NewAli()
	cloudtest.Case(t, f, ali.New, func(t *testing.T, s *cloudtest.Suite) {
		s.Cloud.Trouble = func(action string, nth int) cloudtest.Trouble {
			if action == s.Cloud.Names.Create && nth < 3 {
				return cloudtest.Busy
			}
			return cloudtest.Fine
		}
		if err := s.Create(t, cloudtest.Subnet(3)); err != nil {
			t.Error(err)
		}
	})
}

// The client waits a minute for an entry that the provider is still making, and then says in which state it is
// (interop 6.9: up to 60 s until the entries are available).
func TestWaitsForTheEntry(t *testing.T) {
	for _, lists := range []int{50, 1 << 20} {
		cloudtest.Case(t, cloudtest.NewAli(), ali.New, func(t *testing.T, s *cloudtest.Suite) {
			s.Routes(t)
			s.Cloud.Pending = lists
			begin := time.Now()
			err := s.Create(t, cloudtest.Subnet(3))
			took := time.Since(begin)
			if lists == 50 && (err != nil || took != 50*time.Second) {
				t.Errorf("an entry that takes 50 s: %v after %s", err, took)
			}
			if lists > 50 {
				cloudtest.Wants(t, err, nil, "has not finished", string(cloud.Pending))
				if took != 59*time.Second {
					t.Errorf("the client asked for %s", took)
				}
			}
		})
	}
}

func TestSeveralNextHops(t *testing.T) {
	f := cloudtest.NewAli()
	cloudtest.Case(t, f, ali.New, func(t *testing.T, s *cloudtest.Suite) {
		s.Cloud.Put(cloudtest.Entry{ID: "rte-ecmp", Dst: cloudtest.Subnet(3), Hop: s.Cloud.Self + "," + s.Cloud.Other})
		r := s.Find(t, cloudtest.Subnet(3))
		if r.Self {
			t.Errorf("%+v is the instance's", r)
		}
		if err := s.Client.Delete(cloudtest.Context(t), r); err != nil {
			t.Error(err)
		}
	})
}

func TestNoCredentials(t *testing.T) {
	_, err := ali.New(api.Options{AccessKeyID: "only-the-id"})
	cloudtest.Wants(t, err, cloud.ErrDenied, "ACCESS_KEY_SECRET")
}

func TestARegionIsNoHost(t *testing.T) {
	for _, region := range []string{"evil.example/", "cn-hangzhou.evil.example", "cn", "cn-x/y"} {
		f := cloudtest.NewAli()
		f.Region = region
		cloudtest.Case(t, f, ali.New, func(t *testing.T, s *cloudtest.Suite) {
			_, err := s.Client.Routes(cloudtest.Context(t))
			cloudtest.Wants(t, err, cloud.ErrNoIdentity)
			if n := s.Cloud.Calls("DescribeVpcs"); n != 0 {
				t.Errorf("region %q gets %d signed requests", region, n)
			}
		})
	}
}

// TestARequestThatArrivesTwice loses the answer to a create. The request's number
// makes the provider carry it out once and answer the second like the first.
func TestARequestThatArrivesTwice(t *testing.T) {
	cloudtest.Case(t, cloudtest.NewAli(), ali.New, func(t *testing.T, s *cloudtest.Suite) {
		s.Cloud.Trouble = func(action string, nth int) cloudtest.Trouble {
			if action == s.Cloud.Names.Create && nth == 1 {
				return cloudtest.Lose
			}
			return cloudtest.Fine
		}
		if err := s.Create(t, cloudtest.Subnet(3)); err != nil {
			t.Error(err)
		}
	})
}
