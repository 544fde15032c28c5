package planted

import (
	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/scenarios/search"
)

// ipip is the option of a search for defects of ipip.
var ipip = search.Options{Backend: "ipip", Nodes: 4}

// device is the key of links of type ipip, and of no other link.
func device(l dataplane.Link) string {
	if _, tunnel := l.Params.(dataplane.IPIP); !tunnel {
		return ""
	}
	return l.Name
}

// hop is the key of routes that go through a next hop, and of no other route.
func hop(r dataplane.Route) string {
	if !r.Via.IsValid() {
		return ""
	}
	return r.Dst.String()
}

// hops selects the routes to peers.
func hops(o dataplane.Object) bool {
	r, is := o.(dataplane.Route)
	return is && hop(r) != ""
}

// The defects.
func oldLocal(l *dataplane.Link, first dataplane.Link) { l.Params = first.Params }
func wholeMTU(l *dataplane.Link, _ dataplane.Link)     { l.MTU += 20 }
func oldHop(r *dataplane.Route, first dataplane.Route) { r.Via = first.Via }
func noOnLink(r *dataplane.Route, _ dataplane.Route)   { r.OnLink = false }
