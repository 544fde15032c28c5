package tencent

import (
	"encoding/json"
	"net/netip"

	"github.com/flanneld/flannel/drivers/cloud"
)

// gatewayType is the type of a next hop that is an instance.
const gatewayType = "NORMAL_CVM"

// tables is an answer with route tables.
type tables struct {
	Tables []table `json:"RouteTableSet"`
}

// table is a route table.
type table struct {
	ID     string  `json:"RouteTableId"`
	Routes []route `json:"RouteSet"`
}

// route is an entry of a table.
type route struct {
	Dst         string      `json:"DestinationCidrBlock"`
	Number      json.Number `json:"RouteId"`
	ID          string      `json:"RouteItemId"`
	GatewayType string      `json:"GatewayType"`
	Gateway     string      `json:"GatewayId"`
	Type        string      `json:"RouteType"`
	Enabled     bool        `json:"Enabled"`
}

// routes returns the table's IPv4 routes. Each table has a route of its VPC, which
// Tencent may not list: a table without any gets one for the address, so that the
// caller learns of the table.
func (t table) routes(address string) []cloud.Route {
	var routes []cloud.Route
	for _, e := range t.Routes {
		dst, err := netip.ParsePrefix(e.Dst)
		if err != nil || !dst.Addr().Is4() {
			continue
		}
		r := cloud.Route{
			Table: t.ID, ID: e.ID, Dst: dst.Masked(), Target: e.GatewayType + "/" + e.Gateway,
			Self: e.GatewayType == gatewayType && e.Gateway == address && address != "", Custom: e.Type == "USER",
			State: cloud.Active,
		}
		if r.ID == "" {
			r.ID = e.Number.String()
		}
		if !e.Enabled {
			r.State = cloud.Broken
		}
		routes = append(routes, r)
	}
	if own, err := netip.ParseAddr(address); err == nil && len(routes) == 0 {
		routes = append(routes, cloud.Route{
			Table: t.ID, Dst: netip.PrefixFrom(own, own.BitLen()), Target: "LOCAL/", State: cloud.Active,
		})
	}
	return routes
}
