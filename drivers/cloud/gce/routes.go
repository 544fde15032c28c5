package gce

import (
	"cmp"
	"context"
	"net/http"
	"net/netip"
	"net/url"
	"strings"

	"github.com/flanneld/flannel/drivers/cloud"
	"github.com/flanneld/flannel/drivers/cloud/api"
)

// entry is a route in requests and answers.
type entry struct {
	Name     string `json:"name"`
	Network  string `json:"network"`
	Dst      string `json:"destRange"`
	Priority int    `json:"priority"`
	Instance string `json:"nextHopInstance,omitempty"`

	Tags        []string `json:"tags,omitempty"`
	IP          string   `json:"nextHopIp,omitempty"`
	Gateway     string   `json:"nextHopGateway,omitempty"`
	Subnets     string   `json:"nextHopNetwork,omitempty"`
	Peering     string   `json:"nextHopPeering,omitempty"`
	Tunnel      string   `json:"nextHopVpnTunnel,omitempty"`
	LoadBalance string   `json:"nextHopIlb,omitempty"`
	Hub         string   `json:"nextHopHub,omitempty"`
	Attachment  string   `json:"nextHopInterconnectAttachment,omitempty"`
	Type        string   `json:"routeType,omitempty"`
	Status      string   `json:"routeStatus,omitempty"`
	Warnings    []struct {
		Code string `json:"code"`
	} `json:"warnings,omitempty"`
}

// page is a page of the list.
type page struct {
	Items []entry `json:"items"`
	Next  string  `json:"nextPageToken"`
}

// list reads all routes of the project.
func (c *Client) list(ctx context.Context, me *self) ([]entry, error) {
	walk := api.Pages{Doing: "gce: listing the routes of " + me.project}
	var entries []entry
	query := url.Values{"maxResults": {"500"}}
	for {
		var p page
		err := c.ask(ctx, walk.Doing, "compute.routes.list", http.MethodGet,
			"/projects/"+me.project+"/global/routes?"+query.Encode(), nil, &p)
		if err != nil {
			return nil, err
		}
		entries = append(entries, p.Items...)
		if more, err := walk.Next(p.Next); err != nil || !more {
			return entries, err
		}
		query.Set("pageToken", p.Next)
	}
}

// route returns an entry of the instance's network. Routes for tagged instances
// only are no routes of the network.
func (e entry) route(me *self) (cloud.Route, bool) {
	dst, err := netip.ParsePrefix(e.Dst)
	if err != nil || !dst.Addr().Is4() || last(e.Network) != me.network || len(e.Tags) > 0 || !isName(e.Name) {
		return cloud.Route{}, false
	}
	r := cloud.Route{
		Table: me.network, ID: e.Name, Dst: dst.Masked(), Target: e.target(), Self: project(e.Instance) == me.path(),
		Custom: e.custom(), State: cloud.Broken,
	}
	switch e.Status {
	case "", "ACTIVE":
		r.State = cloud.Active
	case "PENDING":
		r.State = cloud.Pending
	}
	for _, w := range e.Warnings {
		if strings.HasPrefix(w.Code, "NEXT_HOP_") {
			r.State = cloud.Broken // such as NEXT_HOP_CANNOT_IP_FORWARD
		}
	}
	return r, true
}

// project returns a resource's path from its project on: Google writes the same
// resource with several hosts.
func project(link string) string {
	if at := strings.Index(link, "projects/"); at >= 0 {
		return link[at:]
	}
	return link
}

func (e entry) target() string {
	return cmp.Or(project(e.Instance), e.IP, e.Gateway, e.Subnets, e.Peering, e.Tunnel, e.LoadBalance, e.Hub, e.Attachment)
}

// custom reports whether an operator or a program has made the route. Google makes
// those of subnets, of peered networks and of routers.
func (e entry) custom() bool {
	if e.Type != "" && e.Type != "STATIC" {
		return false
	}
	return e.Subnets == "" && e.Peering == "" && e.Hub == "" && !strings.HasPrefix(e.Name, "default-route-")
}
