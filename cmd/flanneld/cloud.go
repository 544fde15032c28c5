package main

import (
	"fmt"

	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/drivers/cloud"
)

// cloudClients returns the function that opens the client of each provider, by the type of
// the backend.
func cloudClients() map[string]func(dataplane.Provider) (cloud.Client, error) {
	return map[string]func(dataplane.Provider) (cloud.Client, error){}
}

// cloudClient opens the client of a provider. Credentials that the config lacks are those
// of the environment.
func (o *options) cloudClient(p dataplane.Provider) (cloud.Client, error) {
	open, known := cloudClients()[p.Name]
	if !known {
		return nil, fmt.Errorf("this build has no client for the route tables of %s", p.Name)
	}
	return open(o.withKeys(p))
}

// withKeys adds the access key of the environment to a provider without one. The clients of
// providers whose config has none know their own variables.
func (o *options) withKeys(p dataplane.Provider) dataplane.Provider {
	if p.KeyID == (dataplane.Passphrase{}) && p.KeySecret == (dataplane.Passphrase{}) {
		p.KeyID = dataplane.NewPassphrase(o.getenv("ACCESS_KEY_ID"))
		p.KeySecret = dataplane.NewPassphrase(o.getenv("ACCESS_KEY_SECRET"))
	}
	return p
}
