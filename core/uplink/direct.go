package uplink

import (
	"net/netip"

	"github.com/flanneld/flannel/core/driver"
)

// Direct returns the link that reaches dst without a gateway. A multipath route
// does not count, because its hops may differ (interop 6.0).
func Direct(routes []driver.Route, dst netip.Addr) (link string, ok bool) {
	r, ok := lookup(routes, dst)
	if !ok || len(r.Hops) != 1 || r.Hops[0].Via.IsValid() {
		return "", false
	}
	return r.Hops[0].Link, true
}
