package aws_test

import (
	"net/netip"
	"testing"

	"github.com/flanneld/flannel/drivers/cloud"
	"github.com/flanneld/flannel/drivers/cloud/aws"
	"github.com/flanneld/flannel/drivers/cloud/cloudtest"
)

func TestCases(t *testing.T) {
	t.Run("keys", func(t *testing.T) {
		cloudtest.Run(t, func() cloudtest.Fake { return cloudtest.NewAWS() }, aws.New)
	})
	t.Run("role", func(t *testing.T) {
		cloudtest.Run(t, func() cloudtest.Fake {
			f := cloudtest.NewAWS()
			f.Role = true
			return f
		}, aws.New)
	})
	t.Run("two tables", func(t *testing.T) {
		cloudtest.Run(t, func() cloudtest.Fake {
			f := cloudtest.NewAWS()
			f.AddTable("rtb-2")
			return f
		}, aws.New)
	})
}

func run(t *testing.T, f *cloudtest.AWS, check func(t *testing.T, s *cloudtest.Suite)) {
	cloudtest.Case(t, f, aws.New, check)
}

func TestMainTable(t *testing.T) {
	f := cloudtest.NewAWS()
	f.Main = true
	run(t, f, func(t *testing.T, s *cloudtest.Suite) {
		if err := s.Create(t, cloudtest.Subnet(3)); err != nil {
			t.Fatal(err)
		}
	})
}

func TestTablesOfTheConfig(t *testing.T) {
	f := cloudtest.NewAWS()
	f.AddTable("rtb-2")
	run(t, f, func(t *testing.T, s *cloudtest.Suite) {
		o := f.Options()
		o.RouteTableIDs = []string{"rtb-1", "rtb-2", "rtb-1"}
		s.Client = s.OpenWith(t, o)
		if n := len(s.Routes(t)); n != 2 {
			t.Errorf("two tables have %d routes", n)
		}
		if err := s.Client.Create(cloudtest.Context(t), "rtb-2", cloudtest.Subnet(3)); err != nil {
			t.Fatal(err)
		}
		if stored := s.Cloud.Stored(cloudtest.Subnet(3)); len(stored) != 1 || stored[0].Table != "rtb-2" {
			t.Errorf("the provider has %+v", stored)
		}
	})
}

func TestATableOfTheConfigThatDoesNotExist(t *testing.T) {
	f := cloudtest.NewAWS()
	run(t, f, func(t *testing.T, s *cloudtest.Suite) {
		o := f.Options()
		o.RouteTableIDs = []string{"rtb-1", "rtb-9"}
		_, err := s.OpenWith(t, o).Routes(cloudtest.Context(t))
		cloudtest.Wants(t, err, nil, "rtb-9")
	})
}

func TestATableIsMissingInTheAnswer(t *testing.T) {
	f := cloudtest.NewAWS()
	f.AddTable("rtb-2")
	f.Omitted = "rtb-2"
	run(t, f, func(t *testing.T, s *cloudtest.Suite) {
		_, err := s.Client.Routes(cloudtest.Context(t))
		cloudtest.Wants(t, err, nil, "rtb-2")
	})
}

func TestSourceDestinationCheck(t *testing.T) {
	f := cloudtest.NewAWS()
	run(t, f, func(t *testing.T, s *cloudtest.Suite) {
		p := s.Client.(cloud.Preparer)
		for range 2 {
			if err := p.Prepare(cloudtest.Context(t)); err != nil {
				t.Fatal(err)
			}
		}
		if f.Checked {
			t.Error("the check is on")
		}
		if n := s.Cloud.Calls("ModifyNetworkInterfaceAttribute"); n != 1 {
			t.Errorf("it was switched off %d times", n)
		}
		f.Checked = true // an operator switches it on again
		if err := p.Prepare(cloudtest.Context(t)); err != nil || f.Checked {
			t.Errorf("the check is on: %v, error %v", f.Checked, err)
		}
	})
}

func TestNoInterfaceHasTheAddress(t *testing.T) {
	f := cloudtest.NewAWS()
	run(t, f, func(t *testing.T, s *cloudtest.Suite) {
		o := f.Options()
		o.Uplink = netip.MustParseAddr("10.0.1.99")
		_, err := s.OpenWith(t, o).Routes(cloudtest.Context(t))
		cloudtest.Wants(t, err, cloud.ErrNoIdentity, "10.0.1.99")
	})
}

func TestAnotherInterfaceAfterAFailure(t *testing.T) {
	f := cloudtest.NewAWS()
	run(t, f, func(t *testing.T, s *cloudtest.Suite) {
		s.Routes(t)
		s.Cloud.Self = "eni-0new"
		s.Cloud.Trouble = func(action string, _ int) cloudtest.Trouble {
			if action == s.Cloud.Names.Create {
				return cloudtest.Invalid
			}
			return cloudtest.Fine
		}
		if err := s.Create(t, cloudtest.Subnet(3)); err == nil {
			t.Error("no error")
		}
		s.Cloud.Trouble = nil
		if err := s.Create(t, cloudtest.Subnet(3)); err != nil {
			t.Fatal(err)
		}
		if stored := s.Cloud.Stored(cloudtest.Subnet(3)); len(stored) != 1 || stored[0].Hop != "eni-0new" {
			t.Errorf("the provider has %+v", stored)
		}
	})
}

func TestARegionIsNoHost(t *testing.T) {
	for _, region := range []string{"", "evil.example/", "eu-west-1.evil.example", "eu-west-1@evil", "../x-1"} {
		f := cloudtest.NewAWS()
		f.Region = region
		cloudtest.Case(t, f, aws.New, func(t *testing.T, s *cloudtest.Suite) {
			_, err := s.Client.Routes(cloudtest.Context(t))
			cloudtest.Wants(t, err, cloud.ErrNoIdentity)
			if n := s.Cloud.Calls("DescribeInstances"); n != 0 {
				t.Errorf("region %q gets %d signed requests", region, n)
			}
		})
	}
}

func TestChina(t *testing.T) {
	f := cloudtest.NewAWS()
	f.Region = "cn-north-1"
	run(t, f, func(t *testing.T, s *cloudtest.Suite) { s.Routes(t) })
}

// A request that EC2 throttles or fails is sent five times (interop 6.9), each time after a longer wait, and then the
// caller learns why.
func TestFiveAttempts(t *testing.T) {
	for trouble, class := range map[cloudtest.Trouble]error{cloudtest.Throttle: cloud.ErrThrottled, cloudtest.Fail: nil} {
		run(t, cloudtest.NewAWS(), func(t *testing.T, s *cloudtest.Suite) {
			s.Routes(t)
			s.Cloud.Trouble = func(action string, _ int) cloudtest.Trouble {
				if action == s.Cloud.Names.Create {
					return trouble
				}
				return cloudtest.Fine
			}
			cloudtest.Wants(t, s.Create(t, cloudtest.Subnet(3)), class, s.Cloud.Names.Create)
			if n := s.Cloud.Calls(s.Cloud.Names.Create); n != 5 {
				t.Errorf("%s: the client sent %d requests", trouble, n)
			}
		})
	}
}
