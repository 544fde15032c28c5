package aws

import (
	"cmp"
	"context"
	"encoding/xml"
	"net/netip"
	"net/url"

	"github.com/flanneld/flannel/drivers/cloud"
	"github.com/flanneld/flannel/drivers/cloud/api"
)

// table is a route table in an answer.
type table struct {
	ID     string  `xml:"routeTableId"`
	Routes []route `xml:"routeSet>item"`
}

// route is an entry of a table. One of the ids is the next hop.
type route struct {
	Dst    string `xml:"destinationCidrBlock"`
	ENI    string `xml:"networkInterfaceId"`
	State  string `xml:"state"`
	Origin string `xml:"origin"`

	Instance      string `xml:"instanceId"`
	Gateway       string `xml:"gatewayId"`
	NAT           string `xml:"natGatewayId"`
	Transit       string `xml:"transitGatewayId"`
	Peering       string `xml:"vpcPeeringConnectionId"`
	Local         string `xml:"localGatewayId"`
	Carrier       string `xml:"carrierGatewayId"`
	EgressGateway string `xml:"egressOnlyInternetGatewayId"`
	Core          string `xml:"coreNetworkArn"`
}

// networkInterface is a network interface of the instance.
type networkInterface struct {
	ID        string `xml:"networkInterfaceId"`
	Subnet    string `xml:"subnetId"`
	VPC       string `xml:"vpcId"`
	Check     bool   `xml:"sourceDestCheck"`
	Address   string `xml:"privateIpAddress"`
	Addresses []struct {
		Address string `xml:"privateIpAddress"`
	} `xml:"privateIpAddressesSet>item"`
}

// page is an answer with a list. Of the two lists it has one.
type page struct {
	Tables     []table            `xml:"routeTableSet>item"`
	Interfaces []networkInterface `xml:"reservationSet>item>instancesSet>item>networkInterfaceSet>item"`
	Next       string             `xml:"nextToken"`
}

func parsePage(body []byte) (page, error) {
	var p page
	err := xml.Unmarshal(body, &p)
	return p, err
}

// parseError returns the code and the text of an error, or two empty strings.
func parseError(body []byte) (code, text string) {
	var answer struct {
		Code    string `xml:"Errors>Error>Code"`
		Message string `xml:"Errors>Error>Message"`
	}
	if xml.Unmarshal(body, &answer) != nil {
		return "", ""
	}
	return answer.Code, answer.Message
}

// parseChange reads the answer to a change.
func parseChange(body []byte) (bool, error) {
	var answer struct {
		Return bool `xml:"return"`
	}
	err := xml.Unmarshal(body, &answer)
	return answer.Return, err
}

// routes returns the table's IPv4 routes. Entries to lists of prefixes and to
// IPv6 have another key.
func (t table) routes(eni string) []cloud.Route {
	var routes []cloud.Route
	for _, r := range t.Routes {
		dst, err := netip.ParsePrefix(r.Dst)
		if err != nil || !dst.Addr().Is4() {
			continue
		}
		state := cloud.Active
		if r.State != "active" {
			state = cloud.Broken
		}
		routes = append(routes, cloud.Route{
			Table: t.ID, Dst: dst.Masked(), Target: r.target(), Self: r.ENI == eni && eni != "",
			Custom: r.Origin == "CreateRoute", State: state,
		})
	}
	return routes
}

// target returns the next hop. A route to an instance names its interface, too.
func (r route) target() string {
	return cmp.Or(r.ENI, r.Instance, r.Gateway, r.NAT, r.Transit, r.Peering, r.Local, r.Carrier, r.EgressGateway, r.Core)
}

// change makes a change with the rights of the instance.
func (c *Client) change(ctx context.Context, me *self, action string, params url.Values) error {
	body, err := c.call(ctx, me.region, action, params)
	if err != nil {
		return err
	}
	if ok, err := parseChange(body); err != nil || !ok {
		return &api.Fault{Doing: "aws: " + action, Text: "the answer does not say that it was done"}
	}
	return nil
}

// pages calls see with each page of a list.
func (c *Client) pages(ctx context.Context, me *self, action string, params url.Values, see func(page)) error {
	walk := api.Pages{Doing: "aws: " + action}
	for {
		body, err := c.call(ctx, me.region, action, params)
		if err != nil {
			return err
		}
		p, err := parsePage(body)
		if err != nil {
			return &api.Fault{Doing: walk.Doing, Text: "the answer does not parse: " + c.secrets.Clean(err.Error())}
		}
		see(p)
		if more, err := walk.Next(p.Next); err != nil || !more {
			return err
		}
		params.Set("NextToken", p.Next)
	}
}

// tables lists route tables.
func (c *Client) tables(ctx context.Context, me *self, params url.Values) ([]table, error) {
	var tables []table
	err := c.pages(ctx, me, "DescribeRouteTables", params, func(p page) {
		tables = append(tables, p.Tables...)
	})
	return tables, err
}

// networkInterface finds the interface of the instance that has the uplink's address.
func (c *Client) networkInterface(ctx context.Context, me *self) (networkInterface, error) {
	var found networkInterface
	err := c.pages(ctx, me, "DescribeInstances", listed("InstanceId", []string{me.instance}), func(p page) {
		for _, eni := range p.Interfaces {
			if eni.has(c.uplink) {
				found = eni
			}
		}
	})
	if err == nil && found.ID == "" {
		err = &api.Fault{Class: cloud.ErrNoIdentity, Doing: "aws: DescribeInstances",
			Text: "no network interface of " + me.instance + " has the address " + c.uplink.String()}
	}
	return found, err
}

func (n networkInterface) has(addr netip.Addr) bool {
	text := addr.String()
	if n.Address == text {
		return true
	}
	for _, a := range n.Addresses {
		if a.Address == text {
			return true
		}
	}
	return false
}

// tableOf finds the table that the interface's subnet uses: its own, or else the
// main table of the VPC.
func (c *Client) tableOf(ctx context.Context, me *self) ([]string, error) {
	for _, filters := range []url.Values{
		filter("association.subnet-id", me.eni.Subnet),
		filter("association.main", "true", "vpc-id", me.eni.VPC),
	} {
		tables, err := c.tables(ctx, me, filters)
		if err != nil {
			return nil, err
		}
		if len(tables) > 0 {
			return []string{tables[0].ID}, nil
		}
	}
	return nil, &api.Fault{Doing: "aws: DescribeRouteTables",
		Text: "neither subnet " + me.eni.Subnet + " nor " + me.eni.VPC + " has a route table"}
}

// filter returns the parameters of filters, from names and values in turn.
func filter(pairs ...string) url.Values {
	params := url.Values{}
	for i := 0; i+1 < len(pairs); i += 2 {
		at := "Filter." + string(rune('1'+i/2))
		params.Set(at+".Name", pairs[i])
		params.Set(at+".Value.1", pairs[i+1])
	}
	return params
}
