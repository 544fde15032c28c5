package aws

import (
	"context"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/feature/ec2/imds"

	"github.com/flanneld/flannel/drivers/cloud"
	"github.com/flanneld/flannel/drivers/cloud/api"
)

// limit is told when a table is full. An operator can have it raised.
const limit = "a route table holds 50 routes by default (quota \"Routes per route table\")"

// Client changes route tables on behalf of one network interface.
type Client struct {
	http        *http.Client
	metadata    *imds.Client
	credentials aws.CredentialsProvider
	secrets     api.Secrets
	endpoint    string // if not the region's
	uplink      netip.Addr
	configured  []string        // tables
	self        api.Known[self] // nil after a failure
}

// self is the instance.
type self struct {
	region   string
	instance string
	eni      networkInterface
	tables   []string
}

// New returns a client. It makes no request.
func New(o api.Options) (cloud.Client, error) {
	c := &Client{
		http: api.HTTP(o), secrets: api.Secrets{}, endpoint: o.Endpoint, uplink: o.Uplink.Unmap(), configured: o.Tables(),
	}
	c.secrets.Add(o.AccessKeyID, o.AccessKeySecret, o.SecurityToken)
	c.metadata = metadata(o)
	c.credentials = credentialsOf(o, c.metadata)
	return c, nil
}

// Routes returns the routes of the configured tables, or else of the table that
// the subnet of the network interface uses.
func (c *Client) Routes(ctx context.Context) ([]cloud.Route, error) {
	var routes []cloud.Route
	err := c.as(ctx, func(me *self) error {
		tables, err := c.tables(ctx, me, listed("RouteTableId", me.tables))
		if err != nil {
			return err
		}
		found := map[string]table{}
		for _, t := range tables {
			found[t.ID] = t
		}
		for _, id := range me.tables {
			t, ok := found[id]
			if !ok {
				return &api.Fault{Doing: "aws: DescribeRouteTables", Text: "the answer lacks table " + id}
			}
			routes = append(routes, t.routes(me.eni.ID)...)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return routes, nil
}

// Create makes a route to the network interface.
func (c *Client) Create(ctx context.Context, table string, dst netip.Prefix) error {
	return c.as(ctx, func(me *self) error {
		err := c.change(ctx, me, "CreateRoute", url.Values{
			"RouteTableId":         {table},
			"DestinationCidrBlock": {dst.String()},
			"NetworkInterfaceId":   {me.eni.ID},
		})
		if err != nil {
			return err
		}
		return api.Await(ctx, c, "aws: CreateRoute in "+table, table, dst)
	})
}

// Delete removes the route if it still leads where the caller saw it lead. EC2
// knows no condition, so the last moment remains.
func (c *Client) Delete(ctx context.Context, route cloud.Route) error {
	routes, err := c.Routes(ctx)
	if err != nil {
		return err
	}
	if _, err := api.Check(routes, route); err != nil {
		return err
	}
	return c.as(ctx, func(me *self) error {
		return c.change(ctx, me, "DeleteRoute", url.Values{
			"RouteTableId":         {route.Table},
			"DestinationCidrBlock": {route.Dst.String()},
		})
	})
}

// Prepare switches off the check of sources and destinations, with which the
// interface would drop the packets of pods.
func (c *Client) Prepare(ctx context.Context) error {
	c.self.Forget() // the check may be on again
	return c.as(ctx, func(me *self) error {
		if !me.eni.Check {
			return nil
		}
		err := c.change(ctx, me, "ModifyNetworkInterfaceAttribute", url.Values{
			"NetworkInterfaceId":    {me.eni.ID},
			"SourceDestCheck.Value": {"false"},
		})
		if err == nil {
			me.eni.Check = false
		}
		return err
	})
}

// as calls f with the instance. It finds out the instance anew after a failure.
func (c *Client) as(ctx context.Context, f func(me *self) error) error {
	return c.self.With(ctx, c.identify, f)
}

// listed are the parameters of a list.
func listed(name string, values []string) url.Values {
	params := url.Values{}
	for i, value := range values {
		params.Set(name+"."+strconv.Itoa(i+1), value)
	}
	return params
}
