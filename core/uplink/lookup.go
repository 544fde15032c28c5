package uplink

import (
	"net/netip"

	"github.com/flanneld/flannel/core/driver"
)

// lookup returns the route to dst with the longest prefix, then the lowest
// metric, then the first place in the list.
func lookup(routes []driver.Route, dst netip.Addr) (driver.Route, bool) {
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
