package alloc

import (
	"math/rand/v2"

	"github.com/flanneld/flannel/core/backend"
	"github.com/flanneld/flannel/core/config"
	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/lease"
)

// Type is the backend's name in configs. Leases carry none (interop 3.3).
const Type = "alloc"

// Spec describes the backend, which has no options (interop 6.7).
func Spec() backend.Spec {
	return backend.Spec{
		Type: Type, Summary: "a lease and the subnet file; another program carries the packets", Carries: backend.EveryFamily,
		New: func(config.Network) (backend.Backend, error) { return Backend{}, nil }, IgnoresPeers: true,
		Untyped: true, CarriesNothing: true,
	}
}

// Backend renders nothing.
type Backend struct{}

var _ backend.Backend = Backend{}

// Type implements [backend.Backend].
func (Backend) Type() string { return Type }

// Extent implements [backend.Backend].
func (Backend) Extent() dataplane.Extent { return dataplane.Extent{} }

// MTU implements [backend.Backend].
func (Backend) MTU(env backend.Env) int { return env.Uplink.MTU }

// Attrs implements [backend.Backend].
func (Backend) Attrs(env backend.Env, _ lease.Attrs, _ *dataplane.State, _ *rand.Rand) (lease.Attrs, error) {
	return lease.Attrs{PublicIP: env.Uplink.PublicIP, PublicIPv6: env.Uplink.PublicIPv6}, nil
}

// Render implements [backend.Backend].
func (Backend) Render(backend.Env, backend.Self, []*lease.Lease) (*dataplane.State, []backend.Problem) {
	return dataplane.NewState(), nil
}
