package gce_test

import (
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/flanneld/flannel/drivers/cloud"
	"github.com/flanneld/flannel/drivers/cloud/cloudtest"
	"github.com/flanneld/flannel/drivers/cloud/gce"
)

func TestCases(t *testing.T) {
	t.Run("name", func(t *testing.T) {
		cloudtest.Run(t, func() cloudtest.Fake { return cloudtest.NewGCE() }, gce.New)
	})
	t.Run("hostname", func(t *testing.T) {
		cloudtest.Run(t, func() cloudtest.Fake {
			f := cloudtest.NewGCE()
			f.Hostname = "node-7.c.my-project.internal"
			f.Slow = 3
			return f
		}, gce.New)
	})
}

func run(t *testing.T, f *cloudtest.GCE, check func(t *testing.T, s *cloudtest.Suite)) {
	cloudtest.Case(t, f, gce.New, check)
}

func TestNameOfARoute(t *testing.T) {
	if name := gce.Name(cloudtest.Subnet(3)); name != "flannel-10-40-3-0-24" {
		t.Error(name)
	}
}

// A route is for all instances, and has the priority of the old releases (interop 6.9: 1000, no tags).
func TestPriorityAndTags(t *testing.T) {
	f := cloudtest.NewGCE()
	run(t, f, func(t *testing.T, s *cloudtest.Suite) {
		if err := s.Create(t, cloudtest.Subnet(3)); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(f.Priorities, []int{1000}) || len(f.Tags) > 0 {
			t.Errorf("priorities %d, tags %q", f.Priorities, f.Tags)
		}
	})
}

func TestOperationsAreAskedAHundredTimes(t *testing.T) {
	f := cloudtest.NewGCE()
	f.Slow = 1 << 20
	run(t, f, func(t *testing.T, s *cloudtest.Suite) {
		s.Routes(t)
		begin := time.Now()
		cloudtest.Wants(t, s.Create(t, cloudtest.Subnet(3)), nil, "flannel-10-40-3-0-24")
		if d := time.Since(begin); d != 99*time.Second {
			t.Errorf("the client asked for %s", d)
		}
		if n := s.Cloud.Calls("operations"); n != 100 {
			t.Errorf("the client asked %d times", n)
		}
	})
}

func TestOperationsThatFail(t *testing.T) {
	for trouble, class := range map[cloudtest.Trouble]error{
		cloudtest.Full: cloud.ErrQuota, cloudtest.Deny: cloud.ErrDenied, cloudtest.Throttle: cloud.ErrThrottled,
		cloudtest.Exists: cloud.ErrExists,
	} {
		f := cloudtest.NewGCE()
		f.Refuse = trouble
		run(t, f, func(t *testing.T, s *cloudtest.Suite) {
			cloudtest.Wants(t, s.Create(t, cloudtest.Subnet(3)), class)
		})
	}
}

func TestForwarding(t *testing.T) {
	f := cloudtest.NewGCE()
	run(t, f, func(t *testing.T, s *cloudtest.Suite) {
		p := s.Client.(cloud.Preparer)
		if err := p.Prepare(cloudtest.Context(t)); err != nil {
			t.Fatal(err)
		}
		f.CanForward = false
		cloudtest.Wants(t, p.Prepare(cloudtest.Context(t)), nil, "--can-ip-forward")
	})
}

func TestNoServiceAccount(t *testing.T) {
	f := cloudtest.NewGCE()
	f.NoAccount = true
	run(t, f, func(t *testing.T, s *cloudtest.Suite) {
		_, err := s.Client.Routes(cloudtest.Context(t))
		cloudtest.Wants(t, err, cloud.ErrDenied, "service account")
	})
}

func TestTokensAreReplaced(t *testing.T) {
	const path = "/computeMetadata/v1/instance/service-accounts/default/token"
	f := cloudtest.NewGCE()
	f.TokenLife = 10 * time.Minute
	run(t, f, func(t *testing.T, s *cloudtest.Suite) {
		s.Routes(t)
		s.Routes(t)
		if n := s.Cloud.Calls(path); n != 1 {
			t.Errorf("two lists took %d tokens", n)
		}
		time.Sleep(9*time.Minute + 30*time.Second)
		s.Routes(t)
		if n := s.Cloud.Calls(path); n != 2 {
			t.Errorf("after nine and a half minutes of ten the client has had %d tokens", n)
		}
	})
}

// notGoogle answers like a web server that happens to have the address.
type notGoogle struct{ *cloudtest.GCE }

func (n notGoogle) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Write([]byte("projects/1/zones/z"))
}

func TestTheMetadataServiceIsGoogles(t *testing.T) {
	cloudtest.Case(t, notGoogle{cloudtest.NewGCE()}, gce.New, func(t *testing.T, s *cloudtest.Suite) {
		_, err := s.Client.Routes(cloudtest.Context(t))
		cloudtest.Wants(t, err, cloud.ErrNoIdentity, "Metadata-Flavor")
	})
}

// TestARequestThatArrivesTwice loses the answer to a create. The request's number
// makes the provider carry it out once and answer the second like the first.
func TestARequestThatArrivesTwice(t *testing.T) {
	cloudtest.Case(t, cloudtest.NewGCE(), gce.New, func(t *testing.T, s *cloudtest.Suite) {
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
