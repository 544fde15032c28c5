package gce

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/http"
	"net/netip"
	"strings"

	"github.com/flanneld/flannel/drivers/cloud"
	"github.com/flanneld/flannel/drivers/cloud/api"
)

// limit is told when the project is full. An operator can have it raised.
const limit = "a project holds 100 routes by default (quota \"Routes\")"

// Client changes the routes of one network on behalf of one instance.
type Client struct {
	http     *http.Client
	metadata *api.Metadata
	tokens   tokens
	secrets  api.Secrets
	base     string
	self     api.Known[self] // nil after a failure
}

// self is the instance.
type self struct{ project, zone, name, network string }

// New returns a client. It makes no request.
func New(o api.Options) (cloud.Client, error) {
	flavor := http.Header{"Metadata-Flavor": {"Google"}}
	c := &Client{
		http:     api.HTTP(o),
		metadata: api.NewMetadata(o, metadataBase, flavor, flavor),
		secrets:  api.Secrets{},
		base:     "https://compute.googleapis.com",
	}
	if o.Endpoint != "" {
		c.base = strings.TrimSuffix(o.Endpoint, "/")
	}
	var err error
	c.tokens, err = tokensOf(o, c)
	return c, err
}

// Routes returns the IPv4 routes of the instance's network.
func (c *Client) Routes(ctx context.Context) ([]cloud.Route, error) {
	var routes []cloud.Route
	err := c.as(ctx, func(me *self) error {
		entries, err := c.list(ctx, me)
		for _, e := range entries {
			if r, ok := e.route(me); ok {
				routes = append(routes, r)
			}
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return routes, nil
}

// Name returns the name of the route to a subnet (interop 6.9: the route key).
func Name(dst netip.Prefix) string {
	return "flannel-" + strings.NewReplacer(".", "-", "/", "-").Replace(dst.String())
}

// Create makes a route to the instance. The number of the request makes Google
// carry it out once, however often it arrives.
func (c *Client) Create(ctx context.Context, _ string, dst netip.Prefix) error {
	return c.as(ctx, func(me *self) error {
		doing := "gce: creating the route " + Name(dst)
		entry := entry{
			Name: Name(dst), Network: "projects/" + me.project + "/global/networks/" + me.network, Dst: dst.String(),
			Priority: 1000, Instance: me.path(),
		}
		err := c.change(ctx, me, doing, "compute.routes.create", http.MethodPost, "/global/routes?requestId="+number(), entry)
		if err != nil {
			return err
		}
		return api.Await(ctx, c, doing, me.network, dst)
	})
}

// Delete removes the route if it still leads where the caller saw it lead.
func (c *Client) Delete(ctx context.Context, route cloud.Route) error {
	routes, err := c.Routes(ctx)
	if err != nil {
		return err
	}
	if _, err := api.Check(routes, route); err != nil {
		return err
	}
	return c.as(ctx, func(me *self) error {
		doing := "gce: deleting the route " + route.ID
		return c.change(ctx, me, doing, "compute.routes.delete", http.MethodDelete,
			"/global/routes/"+route.ID+"?requestId="+number(), nil)
	})
}

// Prepare checks that the instance may forward packets. Only who makes the
// instance can allow it.
func (c *Client) Prepare(ctx context.Context) error {
	return c.as(ctx, func(me *self) error {
		doing := "gce: reading the instance " + me.name
		var instance struct {
			CanForward bool `json:"canIpForward"`
		}
		err := c.ask(ctx, doing, "compute.instances.get", http.MethodGet,
			"/projects/"+me.project+"/zones/"+me.zone+"/instances/"+me.name, nil, &instance)
		if err == nil && !instance.CanForward {
			err = &api.Fault{Doing: doing, Text: "it must not forward packets: create it with --can-ip-forward"}
		}
		return err
	})
}

// as calls f with the instance. It finds out the instance anew after a failure.
func (c *Client) as(ctx context.Context, f func(*self) error) error {
	return c.self.With(ctx, c.identify, f)
}

// number returns a random UUID.
func number() string {
	var b [16]byte
	rand.Read(b[:])
	b[6] = b[6]&0x0f | 0x40
	b[8] = b[8]&0x3f | 0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}
