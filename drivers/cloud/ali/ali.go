package ali

import (
	"context"
	"net/http"
	"net/netip"
	"regexp"
	"strings"

	"github.com/flanneld/flannel/drivers/cloud"
	"github.com/flanneld/flannel/drivers/cloud/api"
)

// limit is told when a table is full. An operator can have it raised.
const limit = "a route table holds 50 custom entries by default, or 200 in newer accounts"

// Client changes one route table on behalf of one instance.
type Client struct {
	http     *http.Client
	metadata *api.Metadata
	secrets  api.Secrets
	id       string
	secret   string
	endpoint string          // if not the region's
	self     api.Known[self] // nil after a failure
}

// self is the instance.
type self struct{ region, instance, vpc, table string }

// New returns a client. It makes no request.
func New(o api.Options) (cloud.Client, error) {
	c := &Client{
		http: api.HTTP(o), metadata: api.NewMetadata(o, metadataBase, nil, nil), secrets: api.Secrets{},
		id: o.AccessKeyID, secret: o.AccessKeySecret, endpoint: o.Endpoint,
	}
	c.secrets.Add(o.AccessKeyID, o.AccessKeySecret)
	if c.id == "" || c.secret == "" {
		return nil, &api.Fault{Class: cloud.ErrDenied, Doing: "ali: credentials",
			Advice: api.NoKeys}
	}
	return c, nil
}

// Routes returns the IPv4 routes of the VPC's first table.
func (c *Client) Routes(ctx context.Context) ([]cloud.Route, error) {
	var routes []cloud.Route
	err := c.as(ctx, func(me *self) error {
		entries, err := c.entries(ctx, me)
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

// Create makes an entry to the instance. Its token makes Alibaba carry the request
// out once, however often it arrives.
func (c *Client) Create(ctx context.Context, table string, dst netip.Prefix) error {
	return c.as(ctx, func(me *self) error {
		_, err := c.ask(ctx, me, "CreateRouteEntry", map[string]string{
			"RouteTableId": table, "DestinationCidrBlock": dst.String(), "NextHopType": "Instance",
			"NextHopId": me.instance, "ClientToken": nonce(),
		})
		if err != nil {
			return err
		}
		return api.Await(ctx, c, "ali: CreateRouteEntry in "+table, table, dst)
	})
}

// Delete removes the entry. The request names the next hop, so it removes no entry
// that another instance has made meanwhile.
func (c *Client) Delete(ctx context.Context, route cloud.Route) error {
	routes, err := c.Routes(ctx)
	if err != nil {
		return err
	}
	if _, err := api.Check(routes, route); err != nil {
		return err
	}
	return c.as(ctx, func(me *self) error {
		params := map[string]string{"RouteTableId": route.Table, "DestinationCidrBlock": route.Dst.String()}
		if !strings.Contains(route.Target, ",") {
			params["NextHopId"] = route.Target
		}
		if route.ID != "" {
			params["RouteEntryId"] = route.ID
		}
		_, err := c.ask(ctx, me, "DeleteRouteEntry", params)
		return err
	})
}

// as calls f with the instance. It finds out the instance anew after a failure.
func (c *Client) as(ctx context.Context, f func(*self) error) error {
	return c.self.With(ctx, c.identify, f)
}

// metadataBase is the address of the metadata service on every instance.
const metadataBase = "http://100.100.100.200/latest/meta-data"

// regionForm is the form of a region's name, which becomes part of the host that
// gets signed requests.
var regionForm = regexp.MustCompile(`^[a-z]{2}(-[a-z0-9]{1,16}){1,4}$`)

// identify finds out the instance, its VPC and the first table of the VPC's router.
func (c *Client) identify(ctx context.Context) (*self, error) {
	me := &self{}
	for path, value := range map[string]*string{
		"/region-id": &me.region, "/instance-id": &me.instance, "/vpc-id": &me.vpc,
	} {
		var err error
		*value, err = c.metadata.Get(ctx, path)
		if err != nil {
			return nil, err
		}
	}
	if !regionForm.MatchString(me.region) {
		return nil, &api.Fault{Class: cloud.ErrNoIdentity, Doing: "ali: asking the metadata service",
			Text: "the answer is no region"}
	}
	var err error
	me.table, err = c.tableOf(ctx, me)
	return me, err
}
