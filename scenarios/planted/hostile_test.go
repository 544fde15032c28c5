package planted

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"strings"

	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/driver"
	"github.com/flanneld/flannel/core/node"
	"github.com/flanneld/flannel/drivers/sim/daemon"
	"github.com/flanneld/flannel/scenarios/search"
	"github.com/flanneld/flannel/scenarios/simworld"
)

// hostile is the option of a search for defects that hostile records expose.
var hostile = search.Options{Backend: "wireguard", Family: "v4", Firewall: "none", Segments: 1, Hostile: true}

// onVXLANHostile is the option of a search for defects of a change to an encrypting backend.
var onVXLANHostile = search.Options{Backend: "vxlan", Family: "v4", Firewall: "none", Segments: 1, Hostile: true}

// sealing are the steps of a change to an encrypting backend that one node does not follow, until its limit is over.
var sealing = []search.Step{
	{Line: "heal"}, {Line: "settle within=2m"}, {Line: "kill M"},
	{Line: "store merge", Input: `{"Backend":{"Type":"wireguard"}}`}, {Line: "pass 70m"},
}

// opener is a lane of a daemon that opens the previous backends which records of peers name.
type opener struct {
	driver.Lane
	client daemon.Requester
	open   func(former formerBackend) []dataplane.Object
}

// formerBackend is a previous backend as a record names it.
type formerBackend struct {
	Type string
	VNI  uint32
	Port uint16
}

// opening returns a defect: it opens on the host what open returns for each previous backend of a record.
func opening(open func(formerBackend) []dataplane.Object) func() simworld.Wrap {
	return func() simworld.Wrap {
		return func(_ string, p daemon.Parts) daemon.Parts {
			p.Lanes[node.HostLane] = opener{p.Lanes[node.HostLane], p.Client, open}
			return p
		}
	}
}

// Apply also opens the previous backends.
func (o opener) Apply(ctx context.Context, ops []dataplane.Op) []error {
	errs := o.Lane.Apply(ctx, ops)
	snap := o.client.View().Snapshot
	if snap == nil {
		return errs
	}
	for _, l := range snap.Leases {
		for _, f := range l.Attrs.Ways.Former {
			var former formerBackend
			if json.Unmarshal(f.Backend, &former) != nil {
				continue
			}
			for _, object := range o.open(former) {
				_ = o.Lane.Apply(ctx, []dataplane.Op{{Verb: dataplane.Create, Object: object}}) // it may exist
			}
		}
	}
	return errs
}

// vxlanOf opens a device of vxlan.
func vxlanOf(f formerBackend) []dataplane.Object {
	if f.Type != "vxlan" {
		return nil
	}
	vni, port := max(f.VNI, 1), f.Port
	if port == 0 {
		port = 8472
	}
	return []dataplane.Object{dataplane.Link{Name: fmt.Sprintf("flannel.%d", vni), MTU: 1400, Up: true,
		Params: dataplane.VXLAN{VNI: vni, Parent: "eth0", Port: port}}}
}

// talkative sends packets to a peer in the clear until there is a handshake with the peer.
func talkative() *body {
	b := &body{}
	plain := map[dataplane.WGPeerKey]dataplane.Route{}
	b.done = func(op dataplane.Op) {
		p, ok := op.Object.(dataplane.WGPeer)
		if !ok || op.Verb == dataplane.Delete || len(p.Allowed) == 0 || !p.Endpoint.IsValid() {
			return
		}
		if _, known := plain[p.WGPeerKey]; known {
			return
		}
		r := dataplane.Route{RouteKey: dataplane.RouteKey{Dst: p.Allowed[0]}, Via: p.Endpoint.Addr(), Link: "eth0",
			Protocol: dataplane.Protocol}
		plain[p.WGPeerKey] = r
		b.Lane.Apply(context.Background(), []dataplane.Op{{Verb: dataplane.Create, Object: r}})
	}
	b.observe = func(s *dataplane.State) *dataplane.State {
		for key, r := range plain {
			if _, met := s.Alive[key]; met {
				b.Lane.Apply(context.Background(), []dataplane.Op{{Verb: dataplane.Delete, Object: r}})
				delete(plain, key)
			}
			s.Routes.Delete(r.RouteKey)
		}
		return s
	}
	return b
}

// uncaught believes that it has made the route for the whole network into its device, and has not.
func uncaught() *body {
	var missing []dataplane.Route
	return &body{
		observe: func(s *dataplane.State) *dataplane.State {
			for _, r := range missing {
				s.Routes.Put(r)
			}
			return s
		},
		apply: func(op dataplane.Op) (dataplane.Op, bool) {
			r, ok := op.Object.(dataplane.Route)
			if !ok || !strings.HasPrefix(r.Link, "flannel-wg") || !whole(r.Dst) {
				return op, true
			}
			if op.Verb != dataplane.Delete {
				missing = append(missing, r)
			}
			return op, op.Verb == dataplane.Delete
		},
	}
}

// whole reports whether a prefix is as wide as the networks of the search.
func whole(p netip.Prefix) bool { return p.Bits() <= 16 }
