package tencent

import (
	"context"
	"encoding/json"
	"net/http"
	"net/netip"
	"regexp"

	"github.com/flanneld/flannel/drivers/cloud"
	"github.com/flanneld/flannel/drivers/cloud/api"
)

// limit is told when a table is full. An operator can have it raised.
const limit = "a route table holds 50 routes by default"

// Client changes one route table on behalf of one instance.
type Client struct {
	transport http.RoundTripper
	metadata  *api.Metadata
	secrets   api.Secrets
	id        string
	secret    string
	endpoint  string          // if not Tencent's
	address   string          // of the instance, as the next hop
	self      api.Known[self] // nil after a failure
}

// self is the instance.
type self struct{ region, vpc, table string }

// New returns a client. It makes no request.
func New(o api.Options) (cloud.Client, error) {
	c := &Client{
		transport: api.HTTP(o).Transport, metadata: api.NewMetadata(o, metadataBase, nil, nil), secrets: api.Secrets{},
		id: o.AccessKeyID, secret: o.AccessKeySecret, endpoint: o.Endpoint,
	}
	c.secrets.Add(o.AccessKeyID, o.AccessKeySecret)
	if c.id == "" || c.secret == "" {
		return nil, &api.Fault{Class: cloud.ErrDenied, Doing: "tencent: credentials",
			Advice: api.NoKeys}
	}
	if !o.PublicIP.Unmap().Is4() {
		return nil, &api.Fault{Doing: "tencent: next hop", Text: "the node has no public IPv4 address"}
	}
	c.address = o.PublicIP.Unmap().String()
	return c, nil
}

// Routes returns the IPv4 routes of the VPC's first table.
func (c *Client) Routes(ctx context.Context) ([]cloud.Route, error) {
	var routes []cloud.Route
	err := c.as(ctx, func(me *self) error {
		var out tables
		params := map[string]any{"RouteTableIds": []string{me.table}}
		err := c.call(ctx, me.region, "DescribeRouteTables", me.table, params, &out)
		if err != nil {
			return err
		}
		for _, t := range out.Tables {
			if t.ID == me.table {
				routes = t.routes(c.address)
				return nil
			}
		}
		return &api.Fault{Doing: "tencent: DescribeRouteTables", Text: "the answer lacks table " + me.table}
	})
	if err != nil {
		return nil, err
	}
	return routes, nil
}

// Create makes a route to the instance's address.
func (c *Client) Create(ctx context.Context, table string, dst netip.Prefix) error {
	return c.as(ctx, func(me *self) error {
		err := c.call(ctx, me.region, "CreateRoutes", table, map[string]any{
			"RouteTableId": table,
			"Routes": []any{map[string]any{
				"DestinationCidrBlock": dst.String(), "GatewayType": gatewayType, "GatewayId": c.address,
				"RouteType": "USER", "Enabled": true, "RouteDescription": "flannel",
			}},
		}, &tables{})
		if err != nil {
			return err
		}
		return api.Await(ctx, c, "tencent: CreateRoutes in "+table+" to "+dst.String(), table, dst)
	})
}

// Delete removes the route by its id, which no later route has.
func (c *Client) Delete(ctx context.Context, route cloud.Route) error {
	routes, err := c.Routes(ctx)
	if err != nil {
		return err
	}
	present, err := api.Check(routes, route)
	if err != nil {
		return err
	}
	key := map[string]any{"RouteItemId": present.ID}
	if number.MatchString(present.ID) {
		key = map[string]any{"RouteId": json.Number(present.ID)}
	}
	return c.as(ctx, func(me *self) error {
		return c.call(ctx, me.region, "DeleteRoutes", route.Table, map[string]any{
			"RouteTableId": route.Table, "Routes": []any{key},
		}, &tables{})
	})
}

// as calls f with the instance. It finds out the instance anew after a failure.
func (c *Client) as(ctx context.Context, f func(*self) error) error {
	return c.self.With(ctx, c.identify, f)
}

// metadataBase is the address of the metadata service on every instance.
const metadataBase = "http://metadata.tencentyun.com/latest/meta-data"

// The forms of the facts.
var (
	regionForm = regexp.MustCompile(`^[a-z]{2,5}(-[a-z0-9]{1,16}){1,4}$`)
	macForm    = regexp.MustCompile(`^([0-9A-Fa-f]{2}:){5}[0-9A-Fa-f]{2}$`)
	number     = regexp.MustCompile(`^[0-9]{1,19}$`)
)

// identify finds out the instance's VPC, and the first table of it.
func (c *Client) identify(ctx context.Context) (*self, error) {
	me := &self{}
	region, err := c.metadata.Get(ctx, "/placement/region")
	if err != nil {
		return nil, err
	}
	mac, err := c.metadata.Get(ctx, "/mac")
	if err != nil {
		return nil, err
	}
	if !regionForm.MatchString(region) || !macForm.MatchString(mac) {
		return nil, &api.Fault{Class: cloud.ErrNoIdentity, Doing: "tencent: asking the metadata service",
			Text: "the answer is no region or no MAC"}
	}
	me.region = region
	me.vpc, err = c.metadata.Get(ctx, "/network/interfaces/macs/"+mac+"/vpc-id")
	if err != nil {
		return nil, err
	}
	var out tables
	err = c.call(ctx, me.region, "DescribeRouteTables", "of "+me.vpc, map[string]any{
		"Filters": []any{map[string]any{"Name": "vpc-id", "Values": []string{me.vpc}}}, "Limit": "1", "Offset": "0",
	}, &out)
	if err != nil {
		return nil, err
	}
	if len(out.Tables) == 0 || out.Tables[0].ID == "" {
		return nil, &api.Fault{Doing: "tencent: DescribeRouteTables", Text: me.vpc + " has no route table"}
	}
	me.table = out.Tables[0].ID
	return me, nil
}
