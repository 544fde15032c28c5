package main

import (
	"testing"

	"github.com/flanneld/flannel/core/dataplane"
)

// A provider without a client is refused by name.
func TestCloudWithoutClient(t *testing.T) {
	o := &options{getenv: func(string) string { return "" }}
	_, err := o.cloudClient(dataplane.Provider{Name: "pigeon"})
	if err == nil || err.Error() != "this build has no client for the route tables of pigeon" {
		t.Errorf("error %v", err)
	}
}

// The access key is that of the config, or else that of the environment; never a mixture
// (interop 1.3).
func TestAccessKeys(t *testing.T) {
	o := &options{getenv: func(name string) string {
		return map[string]string{"ACCESS_KEY_ID": "env-id", "ACCESS_KEY_SECRET": "env-secret"}[name]
	}}
	keys := func(p dataplane.Provider) string { return p.KeyID.Reveal() + " " + p.KeySecret.Reveal() }
	if got := keys(o.withKeys(dataplane.Provider{})); got != "env-id env-secret" {
		t.Errorf("without a config: %s", got)
	}
	given := dataplane.Provider{KeyID: dataplane.NewPassphrase("id"), KeySecret: dataplane.NewPassphrase("secret")}
	if got := keys(o.withKeys(given)); got != "id secret" {
		t.Errorf("with a config: %s", got)
	}
}
