package gce_test

import (
	"crypto/rand"
	"crypto/rsa"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/flanneld/flannel/drivers/cloud"
	"github.com/flanneld/flannel/drivers/cloud/api"
	"github.com/flanneld/flannel/drivers/cloud/cloudtest"
	"github.com/flanneld/flannel/drivers/cloud/gce"
)

// write writes a file of credentials.
func write(t *testing.T, content []byte) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "key.json")
	if err := os.WriteFile(name, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

func newKey(t *testing.T) *rsa.PrivateKey {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func TestCredentialsFile(t *testing.T) {
	f := cloudtest.NewGCE()
	f.NoAccount = true
	f.Key = newKey(t)
	file := write(t, f.KeyFile())
	run(t, f, func(t *testing.T, s *cloudtest.Suite) {
		s.Client = s.OpenWith(t, api.Options{CredentialsFile: file})
		if err := s.Create(t, cloudtest.Subnet(3)); err != nil {
			t.Fatal(err)
		}
		if n := s.Cloud.Calls("/token"); n != 1 {
			t.Errorf("the client took %d tokens", n)
		}
	})
}

func TestAKeyThatTheAccountDoesNotHave(t *testing.T) {
	f := cloudtest.NewGCE()
	f.Key = newKey(t)
	content := f.KeyFile()
	file := write(t, content)
	f.Key = newKey(t)
	run(t, f, func(t *testing.T, s *cloudtest.Suite) {
		_, err := s.OpenWith(t, api.Options{CredentialsFile: file}).Routes(cloudtest.Context(t))
		cloudtest.Wants(t, err, cloud.ErrDenied, "status 400")
	})
}

func TestFilesThatHoldNoCredentials(t *testing.T) {
	const secret = "BEGIN PRIVATE KEY"
	for _, content := range []string{"", "{", secret, `{"type":"gdch_service_account","private_key":"` + secret + `"}`} {
		_, err := gce.New(api.Options{CredentialsFile: write(t, []byte(content))})
		if err == nil || strings.Contains(err.Error(), secret) {
			t.Errorf("%q: %v", content, err)
		}
	}
	if _, err := gce.New(api.Options{CredentialsFile: "/nowhere/key.json"}); err == nil {
		t.Error("no error for a file that does not exist")
	}
}
