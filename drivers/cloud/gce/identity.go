package gce

import (
	"context"
	"errors"
	"strings"

	"github.com/flanneld/flannel/drivers/cloud"
	"github.com/flanneld/flannel/drivers/cloud/api"
)

// metadataBase is the address of the metadata service on every instance.
const metadataBase = "http://169.254.169.254/computeMetadata/v1"

// identify asks the metadata service who the instance is. Its name is the first
// label of the host's name (interop 6.9), unless the service knows it better: an
// operator may have set another host's name.
func (c *Client) identify(ctx context.Context) (*self, error) {
	network, err := c.metadata.Get(ctx, "/instance/network-interfaces/0/network")
	if err != nil {
		return nil, err
	}
	project, err := c.metadata.Get(ctx, "/project/project-id")
	if err != nil {
		return nil, err
	}
	zone, err := c.metadata.Get(ctx, "/instance/zone")
	if err != nil {
		return nil, err
	}
	name, err := c.metadata.Get(ctx, "/instance/name")
	if isMissing(err) {
		var host string
		host, err = c.metadata.Get(ctx, "/instance/hostname")
		name = strings.SplitN(host, ".", 2)[0]
	}
	if err != nil {
		return nil, err
	}
	me := &self{project: project, zone: last(zone), name: name, network: last(network)}
	for _, part := range []string{me.project, me.zone, me.name, me.network} {
		if part == "" || strings.Contains(part, "/") {
			return nil, &api.Fault{Class: cloud.ErrNoIdentity, Doing: "gce: asking the metadata service",
				Text: "it tells no project, zone, name or network"}
		}
	}
	return me, nil
}

func isMissing(err error) bool {
	var f *api.Fault
	return errors.As(err, &f) && f.Code == api.StatusCode(404)
}

// last returns the last part of a path such as "projects/1/zones/europe-west1-b".
func last(path string) string { return path[strings.LastIndexByte(path, '/')+1:] }

// path is the instance as the next hop of a route.
func (s *self) path() string {
	return "projects/" + s.project + "/zones/" + s.zone + "/instances/" + s.name
}
