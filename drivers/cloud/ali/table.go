package ali

import (
	"context"
	"encoding/json"
	"net/netip"
	"strings"

	"github.com/flanneld/flannel/drivers/cloud"
	"github.com/flanneld/flannel/drivers/cloud/api"
)

// answer is an answer with a list. Of the lists it has one.
type answer struct {
	VPCs struct {
		VPC []struct {
			ID     string `json:"VpcId"`
			Router string `json:"VRouterId"`
		} `json:"Vpc"`
	} `json:"Vpcs"`
	Routers struct {
		Router []struct {
			ID     string `json:"VRouterId"`
			Tables struct {
				IDs []string `json:"RouteTableId"`
			} `json:"RouteTableIds"`
		} `json:"VRouter"`
	} `json:"VRouters"`
	Entries struct {
		Entry []entry `json:"RouteEntry"`
	} `json:"RouteEntrys"`
	Next string `json:"NextToken"`
}

// entry is an entry of a route table.
type entry struct {
	ID     string `json:"RouteEntryId"`
	Table  string `json:"RouteTableId"`
	Dst    string `json:"DestinationCidrBlock"`
	Type   string `json:"Type"`
	Status string `json:"Status"`
	HopID  string `json:"InstanceId"`
	Hops   struct {
		Hop []struct {
			ID string `json:"NextHopId"`
		} `json:"NextHop"`
	} `json:"NextHops"`
}

// ask calls and parses.
func (c *Client) ask(ctx context.Context, me *self, action string, params map[string]string) (answer, error) {
	var out answer
	body, err := c.call(ctx, me.region, action, params)
	if err != nil {
		return out, err
	}
	if err := json.Unmarshal(body, &out); err != nil {
		return out, &api.Fault{Doing: "ali: " + action, Text: "the answer does not parse: " + c.secrets.Clean(err.Error())}
	}
	return out, nil
}

// tableOf finds the first table of the VPC's router.
func (c *Client) tableOf(ctx context.Context, me *self) (string, error) {
	vpcs, err := c.ask(ctx, me, "DescribeVpcs", map[string]string{"VpcId": me.vpc})
	if err != nil {
		return "", err
	}
	for _, vpc := range vpcs.VPCs.VPC {
		if vpc.ID != me.vpc || vpc.Router == "" {
			continue
		}
		routers, err := c.ask(ctx, me, "DescribeVRouters", map[string]string{"VRouterId": vpc.Router})
		if err != nil {
			return "", err
		}
		for _, router := range routers.Routers.Router {
			if router.ID == vpc.Router && len(router.Tables.IDs) > 0 && router.Tables.IDs[0] != "" {
				return router.Tables.IDs[0], nil
			}
		}
	}
	return "", &api.Fault{Doing: "ali: DescribeVRouters", Text: "the router of " + me.vpc + " has no route table"}
}

// entries reads the whole table. DescribeRouteTables, which older flannels called,
// is deprecated and has no pages for the entries of a table.
func (c *Client) entries(ctx context.Context, me *self) ([]entry, error) {
	const action = "DescribeRouteEntryList"
	walk := api.Pages{Doing: "ali: " + action}
	params := map[string]string{"RouteTableId": me.table, "MaxResult": "100"}
	var entries []entry
	for {
		page, err := c.ask(ctx, me, action, params)
		if err != nil {
			return nil, err
		}
		entries = append(entries, page.Entries.Entry...)
		if more, err := walk.Next(page.Next); err != nil || !more {
			return entries, err
		}
		params["NextToken"] = page.Next
	}
}

// route returns an entry as a route. An entry with several next hops is not the
// instance's, even if it is one of them.
func (e entry) route(me *self) (cloud.Route, bool) {
	dst, err := netip.ParsePrefix(e.Dst)
	if err != nil || !dst.Addr().Is4() {
		return cloud.Route{}, false
	}
	var hops []string
	for _, hop := range e.Hops.Hop {
		if hop.ID != "" {
			hops = append(hops, hop.ID)
		}
	}
	if len(hops) == 0 && e.HopID != "" {
		hops = []string{e.HopID}
	}
	target := strings.Join(hops, ",")
	r := cloud.Route{
		Table: me.table, ID: e.ID, Dst: dst.Masked(), Target: target, Self: target == me.instance && target != "",
		Custom: e.Type == "Custom", State: cloud.Broken,
	}
	switch e.Status {
	case "Available", "Created":
		r.State = cloud.Active
	case "Pending", "Creating", "Modifying":
		r.State = cloud.Pending
	}
	return r, true
}
