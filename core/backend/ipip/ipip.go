package ipip

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/netip"

	"github.com/flanneld/flannel/core/backend"
	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/config"
	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/lease"
	"github.com/flanneld/flannel/core/uplink"
)

// Type is the backend's name in configs and leases.
const Type = "ipip"

// device is the tunnel device's name (interop 6.0).
const device = "flannel.ipip"

// overhead is the size of the outer IPv4 header, in bytes.
const overhead = 20

// Spec describes the backend and its options (interop 6.4).
func Spec() backend.Spec {
	return backend.Spec{
		Type: Type, Summary: "the kernel's IP in IP tunnels", Carries: []backend.Families{backend.IPv4Only}, New: open,
		Devices: []string{device}, DeviceKind: dataplane.LinkIPIP,
		Options: []backend.Option{
			{Name: "DirectRouting", Kind: backend.Switch, Default: "false", ChartValue: "directRouting", Example: "true",
				Help: "reach peers on the same segment by plain routes"},
		},
	}
}

// Backend renders ipip. It is immutable.
type Backend struct{ DirectRouting bool }

var (
	_ backend.Backend = Backend{}
	_ backend.Reacher = Backend{}
)

func open(network config.Network) (backend.Backend, error) {
	var b Backend
	if err := json.Unmarshal(network.Backend.Options, &b); err != nil {
		return nil, fmt.Errorf("options of %s: %w", Type, err)
	}
	return b, nil
}

// Type implements [backend.Backend].
func (Backend) Type() string { return Type }

// Extent implements [backend.Backend].
func (Backend) Extent() dataplane.Extent { return dataplane.Extent{Links: []string{device}} }

// Reach implements [backend.Reacher].
func (b Backend) Reach(network config.Network, peers []*lease.Lease) []netip.Addr {
	if !b.DirectRouting {
		return nil
	}
	return backend.PublicAddrs(network, peers)
}

// MTU implements [backend.Backend].
func (Backend) MTU(env backend.Env) int { return env.Uplink.MTU - overhead }

// Attrs implements [backend.Backend].
func (Backend) Attrs(env backend.Env, _ lease.Attrs, _ *dataplane.State, _ *rand.Rand) (lease.Attrs, error) {
	return lease.Attrs{PublicIP: env.Uplink.PublicIP, BackendType: Type}, nil
}

// Render implements [backend.Backend].
func (b Backend) Render(
	env backend.Env, self backend.Self, peers []*lease.Lease,
) (*dataplane.State, []backend.Problem) {
	state := dataplane.NewState()
	state.AddLink(dataplane.Link{
		Name: device, MTU: b.MTU(env), Up: true, Params: dataplane.IPIP{Local: env.Uplink.IP},
	})
	backend.AddBase(state, self, device, cidr.V4)
	served, problems := backend.Peers(env, self, Type, cidr.V4, peers)
	for _, p := range served {
		// The onlink flag is part of the contract for direct peers too.
		route := dataplane.Route{
			RouteKey: dataplane.RouteKey{Dst: p.Subnet},
			Link:     device, Via: p.IP, OnLink: true, Protocol: dataplane.Protocol,
		}
		if b.DirectRouting {
			if link, ok := uplink.Direct(env.Facts.Routes, p.IP); ok {
				route.Link = link
			}
		}
		state.AddRoute(route)
	}
	return state, problems
}
