package clients_test

import (
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/flanneld/flannel/drivers/cloud"
	"github.com/flanneld/flannel/drivers/cloud/api"
	"github.com/flanneld/flannel/drivers/cloud/clients"
	"github.com/flanneld/flannel/drivers/cloud/cloudtest"
)

// TestEachTypeHasItsProvider creates a route at the fake of each provider.
func TestEachTypeHasItsProvider(t *testing.T) {
	fakes := map[string]cloudtest.Fake{
		"gce": cloudtest.NewGCE(), "aws-vpc": cloudtest.NewAWS(), "ali-vpc": cloudtest.NewAli(),
		"tencent-vpc": cloudtest.NewTencent(),
	}
	if d := cmp.Diff([]string{"ali-vpc", "aws-vpc", "gce", "tencent-vpc"}, clients.Types()); d != "" {
		t.Error(d)
	}
	for kind, fake := range fakes {
		open := func(o api.Options) (cloud.Client, error) { return clients.New(kind, o) }
		cloudtest.Case(t, fake, open, func(t *testing.T, s *cloudtest.Suite) {
			if err := s.Create(t, cloudtest.Subnet(3)); err != nil {
				t.Errorf("%s: %v", kind, err)
			}
		})
	}
	if _, err := clients.New("vxlan", api.Options{}); err == nil {
		t.Error("vxlan has a client")
	}
}

func TestWithEnvironment(t *testing.T) {
	env := map[string]string{
		"ACCESS_KEY_ID": "id", "ACCESS_KEY_SECRET": "secret", "AWS_ACCESS_KEY_ID": "aws-id",
		"AWS_SECRET_ACCESS_KEY": "aws-secret", "AWS_SECURITY_TOKEN": "aws-token",
		"GOOGLE_APPLICATION_CREDENTIALS": "/key.json",
	}
	config := api.Options{AccessKeyID: "config-id", AccessKeySecret: "config-secret"}
	for _, c := range []struct {
		kind     string
		in, want api.Options
	}{
		{"ali-vpc", api.Options{}, api.Options{AccessKeyID: "id", AccessKeySecret: "secret"}},
		{"tencent-vpc", api.Options{}, api.Options{AccessKeyID: "id", AccessKeySecret: "secret"}},
		{"tencent-vpc", config, config},
		{"ali-vpc", api.Options{AccessKeyID: "config-id"}, api.Options{AccessKeyID: "id", AccessKeySecret: "secret"}},
		{"aws-vpc", api.Options{},
			api.Options{AccessKeyID: "aws-id", AccessKeySecret: "aws-secret", SecurityToken: "aws-token"}},
		{"gce", api.Options{}, api.Options{CredentialsFile: "/key.json"}},
		{"gce", api.Options{CredentialsFile: "/mine.json"}, api.Options{CredentialsFile: "/mine.json"}},
	} {
		got := clients.WithEnvironment(c.kind, c.in, func(name string) string { return env[name] })
		if d := cmp.Diff(c.want, got, cmp.Comparer(func(a, b netip.Addr) bool { return a == b })); d != "" {
			t.Errorf("%s: %s", c.kind, d)
		}
	}
	none := clients.WithEnvironment("aws-vpc", api.Options{}, func(string) string { return "" })
	if none.AccessKeyID != "" || none.SecurityToken != "" {
		t.Errorf("an empty environment gives %+v", none)
	}
}
