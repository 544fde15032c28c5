package uplink

import (
	"net/netip"

	"github.com/flanneld/flannel/core/driver"
)

// Lookup finds the route to dst by longest prefix, then lowest metric, then
// order in the list.
func Lookup(routes []driver.Route, dst netip.Addr) (driver.Route, bool) {
	var found *driver.Route
	for i := range routes {
		r := &routes[i]
		if !r.Dst.Contains(dst) {
			continue
		}
		if found == nil || r.Dst.Bits() > found.Dst.Bits() ||
			r.Dst.Bits() == found.Dst.Bits() && r.Metric < found.Metric {
			found = r
		}
	}
	if found == nil {
		return driver.Route{}, false
	}
	return *found, true
}
