package hostgw

import (
	"fmt"
	"math/rand/v2"
	"net/netip"

	"github.com/flanneld/flannel/core/backend"
	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/config"
	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/lease"
)

// Type is the backend's name in configs and leases.
const Type = "host-gw"

// Spec describes the backend, which has no options (interop 6.3).
func Spec() backend.Spec {
	return backend.Spec{
		Type: Type, Summary: "plain routes between hosts on one segment", Carries: backend.EveryFamily,
		New: func(config.Network) (backend.Backend, error) { return Backend{}, nil },
	}
}

// Backend renders host-gw.
type Backend struct{}

var _ backend.Backend = Backend{}

// Type implements [backend.Backend].
func (Backend) Type() string { return Type }

// Extent implements [backend.Backend]: it owns routes only.
func (Backend) Extent() dataplane.Extent { return dataplane.Extent{} }

// Reach implements [backend.Reacher]. The kernel accepts a peer as a gateway if
// a route leads to it directly, so a change of that route is a reason to try a
// refused peer again.
func (Backend) Reach(network config.Network, peers []*lease.Lease) []netip.Addr {
	return backend.PublicAddrs(network, peers)
}

// MTU implements [backend.Backend]. The backend adds nothing to a packet.
func (Backend) MTU(env backend.Env) int { return env.Uplink.MTU }

// Attrs implements [backend.Backend]. Peers use the public address as a gateway
// on the segment, so the backend cannot work behind NAT, in either family
// (interop F8: upstream checks IPv4 only).
func (Backend) Attrs(env backend.Env, _ lease.Attrs, _ *dataplane.State, _ *rand.Rand) (lease.Attrs, error) {
	for _, f := range cidr.Families {
		if pub, own := env.Uplink.Public(f), env.Uplink.Addr(f); pub != own {
			return lease.Attrs{}, fmt.Errorf("host-gw: the public %s address %s is not the address %s of %s; "+
				"peers could not use it as a gateway", f, pub, own, env.Uplink.Link)
		}
	}
	return lease.Attrs{PublicIP: env.Uplink.PublicIP, PublicIPv6: env.Uplink.PublicIPv6, BackendType: Type}, nil
}

// Render implements [backend.Backend].
func (Backend) Render(env backend.Env, self backend.Self, peers []*lease.Lease) (*dataplane.State, []backend.Problem) {
	state := dataplane.NewState()
	var problems []backend.Problem
	for _, f := range cidr.Families {
		served, refused := backend.Peers(env, self, Type, f, peers)
		problems = append(problems, refused...)
		for _, p := range served {
			state.AddRoute(dataplane.Route{
				RouteKey: dataplane.RouteKey{Dst: p.Subnet},
				Link:     env.Uplink.Link, Via: p.IP, Protocol: dataplane.Protocol,
			})
		}
	}
	return state, problems
}
