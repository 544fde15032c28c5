package dockeropts

import (
	"fmt"
	"net"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/flanneld/flannel/internal/wholedump"
)

// CheckRoutes returns an error if the main table has a route by a gateway to exactly
// this subnet: then its addresses are on another host.
func (s Subnet) CheckRoutes() error {
	_, subnet, err := net.ParseCIDR(s.Address)
	if err != nil {
		return fmt.Errorf("FLANNEL_SUBNET=%s is no address with a prefix length", s.Address)
	}
	wanted := &netlink.Route{Dst: subnet, Table: unix.RT_TABLE_MAIN}
	const fields = netlink.RT_FILTER_DST | netlink.RT_FILTER_TABLE
	routes, err := wholedump.Here.RouteListFiltered(netlink.FAMILY_V4, wanted, fields)
	if err != nil {
		return fmt.Errorf("list the routes to %s: %w", s.Address, err)
	}
	for _, route := range routes {
		if viaGateway(route) {
			return fmt.Errorf("the subnet %s has a route by a gateway, so its addresses are on another host: %v",
				s.Address, route)
		}
	}
	return nil
}

func viaGateway(route netlink.Route) bool {
	if route.Gw != nil || route.Via != nil {
		return true
	}
	for _, hop := range route.MultiPath {
		if hop.Gw != nil || hop.Via != nil {
			return true
		}
	}
	return false
}
