package main

import (
	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/drivers/cloud"
	"github.com/flanneld/flannel/drivers/cloud/api"
	"github.com/flanneld/flannel/drivers/cloud/clients"
)

// cloudClient opens the client of a provider. Credentials that the config lacks are those
// of the environment.
func (o *options) cloudClient(p dataplane.Provider) (cloud.Client, error) {
	return clients.New(p.Name, o.cloudOptions(p))
}

func (o *options) cloudOptions(p dataplane.Provider) api.Options {
	return clients.WithEnvironment(p.Name, api.Options{
		Uplink:          p.Addr,
		PublicIP:        p.Public,
		RouteTableIDs:   p.Tables,
		AccessKeyID:     p.KeyID.Reveal(),
		AccessKeySecret: p.KeySecret.Reveal(),
	}, o.getenv)
}
