package tencent_test

import (
	"net/netip"
	"testing"

	"github.com/flanneld/flannel/drivers/cloud"
	"github.com/flanneld/flannel/drivers/cloud/api"
	"github.com/flanneld/flannel/drivers/cloud/cloudtest"
	"github.com/flanneld/flannel/drivers/cloud/tencent"
)

func TestCases(t *testing.T) {
	t.Run("ids", func(t *testing.T) {
		cloudtest.Run(t, func() cloudtest.Fake { return cloudtest.NewTencent() }, tencent.New)
	})
	t.Run("numbers", func(t *testing.T) {
		cloudtest.Run(t, func() cloudtest.Fake {
			f := cloudtest.NewTencent()
			f.Numbers = true
			return f
		}, tencent.New)
	})
	t.Run("no local route", func(t *testing.T) {
		cloudtest.Run(t, func() cloudtest.Fake {
			f := cloudtest.NewTencent()
			f.NoLocal = true
			return f
		}, tencent.New)
	})
}

func TestWhatIsMissing(t *testing.T) {
	_, err := tencent.New(api.Options{AccessKeySecret: "secret"})
	cloudtest.Wants(t, err, cloud.ErrDenied, "ACCESS_KEY_ID")
	_, err = tencent.New(api.Options{AccessKeyID: "id", AccessKeySecret: "secret"})
	cloudtest.Wants(t, err, nil, "IPv4")
	six := api.Options{AccessKeyID: "id", AccessKeySecret: "secret", PublicIP: netip.MustParseAddr("2001:db8::1")}
	_, err = tencent.New(six)
	cloudtest.Wants(t, err, nil, "IPv4")
}

func TestADisabledRoute(t *testing.T) {
	cloudtest.Case(t, cloudtest.NewTencent(), tencent.New, func(t *testing.T, s *cloudtest.Suite) {
		s.Cloud.Put(cloudtest.Entry{ID: "77", Dst: cloudtest.Subnet(3), Hop: s.Cloud.Self, State: cloud.Broken})
		r := s.Find(t, cloudtest.Subnet(3))
		if !r.Self || r.State != cloud.Broken {
			t.Errorf("the route is %+v", r)
		}
		if err := s.Client.Delete(cloudtest.Context(t), r); err != nil {
			t.Fatal(err)
		}
		if err := s.Create(t, cloudtest.Subnet(3)); err != nil {
			t.Fatal(err)
		}
	})
}
