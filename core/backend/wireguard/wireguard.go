package wireguard

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/flanneld/flannel/core/backend"
	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/config"
	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/lease"
)

// Type is the backend's name in configs and leases.
const Type = "wireguard"

// The devices' names (interop 6.0). Only mode separate has the second one.
const (
	device   = "flannel-wg"
	deviceV6 = "flannel-wg-v6"
)

// Backend renders wireguard. It is immutable.
type Backend struct {
	opts     options
	families []cidr.Family
	tunnels  []tunnel
}

// tunnel is a device and the families of packets that it carries.
type tunnel struct {
	device  string
	port    uint16
	carries []cidr.Family
}

var (
	_ backend.Backend = (*Backend)(nil)
	_ backend.Noter   = (*Backend)(nil)
	_ backend.Checker = (*Backend)(nil)

	_ backend.KeyExchanger = (*Backend)(nil)
)

func open(network config.Network) (backend.Backend, error) {
	b := &Backend{}
	if err := json.Unmarshal(network.Backend.Options, &b.opts); err != nil {
		return nil, fmt.Errorf("options of %s: %w", Type, err)
	}
	for _, f := range cidr.Families {
		if network.Of(f).Enabled() {
			b.families = append(b.families, f)
		}
	}
	if err := b.opts.check(backend.FamiliesOf(network)); err != nil {
		return nil, err
	}
	if b.opts.Mode != modeSeparate {
		b.tunnels = []tunnel{{device, b.opts.ListenPort, b.families}}
		return b, nil
	}
	for _, f := range b.families {
		b.tunnels = append(b.tunnels, tunnel{
			cidr.Pick(f, device, deviceV6), cidr.Pick(f, b.opts.ListenPort, b.opts.ListenPortV6), []cidr.Family{f},
		})
	}
	return b, nil
}

// Type implements [backend.Backend].
func (*Backend) Type() string { return Type }

// Extent implements [backend.Backend].
func (b *Backend) Extent() dataplane.Extent {
	e := dataplane.Extent{
		Links: []string{device, deviceV6}, // one may be left of another mode or family
		Keys:  []dataplane.SecretName{dataplane.WireGuardKey},
	}
	for _, t := range b.tunnels {
		if slices.Contains(t.carries, cidr.V6) {
			e.Sysctls = append(e.Sysctls, backend.SpeakIPv6(t.device))
		}
	}
	if b.opts.Implementation == implementationAuto {
		e.Kinds = []dataplane.LinkKind{dataplane.LinkWireGuard}
	}
	if !b.opts.PSK.IsZero() {
		e.PSKs = []dataplane.Secret{b.opts.PSK}
	}
	return e
}

// MTU implements [backend.Backend].
func (b *Backend) MTU(env backend.Env) int {
	return backend.DeviceMTU(env, b.opts.MTU, b.opts.Overhead)
}

// userspace reports whether the devices run in the daemon's process.
func (b *Backend) userspace(env backend.Env) bool {
	_, lacks := env.Facts.Unsupported[dataplane.LinkWireGuard]
	return b.opts.Implementation == implementationUserspace || b.opts.Implementation == implementationAuto && lacks
}

// Notes implements [backend.Noter].
func (b *Backend) Notes(env backend.Env) []string {
	var notes []string
	if why, lacks := env.Facts.Unsupported[dataplane.LinkWireGuard]; lacks && b.userspace(env) {
		notes = append(notes, fmt.Sprintf("WireGuard runs in this process, which is slower than the kernel: %s", why))
	}
	return append(notes, backend.NotesOnMTU(env, b.opts.MTU, b.MTU(env))...)
}

// Check implements [backend.Checker].
func (b *Backend) Check(env backend.Env) *backend.Lack {
	carriesV6 := func(t tunnel) bool { return slices.Contains(t.carries, cidr.V6) }
	i := slices.IndexFunc(b.tunnels, carriesV6)
	if i < 0 {
		return nil
	}
	return backend.LackOfIPv6(env, b.tunnels[i].device, b.MTU(env), b.opts.Overhead)
}

// Attrs implements [backend.Backend]. It fails while the node's key is not known.
func (b *Backend) Attrs(
	env backend.Env, _ lease.Attrs, _ *dataplane.State, _ *rand.Rand,
) (lease.Attrs, error) {
	key := env.Facts.Keys[dataplane.WireGuardKey]
	switch {
	case key.Err != "":
		return lease.Attrs{}, backend.NotYet{Err: fmt.Errorf("the node's WireGuard key: %s", key.Err)}
	case key.Public.IsZero():
		return lease.Attrs{}, backend.NotYet{Err: errors.New("the node's WireGuard key is not known yet"), Soon: true}
	}
	a := lease.Attrs{PublicIP: env.Uplink.PublicIP, PublicIPv6: env.Uplink.PublicIPv6, BackendType: Type}
	for _, t := range b.tunnels {
		text, err := json.Marshal(data{key.Public.String(), t.port})
		if err != nil {
			return lease.Attrs{}, fmt.Errorf("wireguard data: %w", err)
		}
		for _, f := range t.carries {
			*cidr.Pick(f, &a.BackendData, &a.BackendV6Data) = text
		}
	}
	return a, nil
}

// Render implements [backend.Backend].
func (b *Backend) Render(
	env backend.Env, self backend.Self, peers []*lease.Lease,
) (*dataplane.State, []backend.Problem) {
	state := dataplane.NewState()
	for _, t := range b.tunnels {
		state.AddLink(dataplane.Link{
			Name: t.device, MTU: b.MTU(env), Up: true,
			Params: dataplane.WireGuard{ListenPort: t.port, PublicKey: b.ownKey(env, self, t), Userspace: b.userspace(env)},
		})
		for _, f := range t.carries {
			renderSelf(state, env, self, t.device, f)
		}
	}
	return state, b.renderPeers(state, env, self, peers)
}

// ownKey returns the key of a device: the node's, or the published one while the device has to keep that or the
// node's cannot be read.
func (b *Backend) ownKey(env backend.Env, self backend.Self, t tunnel) dataplane.PublicKey {
	if kept, ok := env.KeptKeys[t.device]; ok {
		return kept
	}
	if key := env.Facts.Keys[dataplane.WireGuardKey].Public; !key.IsZero() {
		return key
	}
	for _, f := range b.families {
		if d, err := parseData(self.Attrs.Data(f)); err == nil {
			return d.key
		}
	}
	return dataplane.PublicKey{}
}

// renderSelf wants a family's address and route. All nodes are behind one route,
// because the device itself chooses the peer.
func renderSelf(s *dataplane.State, env backend.Env, self backend.Self, device string, f cidr.Family) {
	backend.AddBase(s, self, device, f)
	if f == cidr.V6 {
		s.AddSysctl(backend.SpeakIPv6(device))
	}
	route := dataplane.Route{
		RouteKey: dataplane.RouteKey{Dst: env.Config.Of(f).Network},
		Link:     device, Protocol: dataplane.Protocol,
	}
	if f == cidr.V4 { // IPv6 routes have no scope
		route.Scope = dataplane.ScopeLink
	}
	s.AddRoute(route)
}
