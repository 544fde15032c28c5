package udp

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strconv"

	"github.com/flanneld/flannel/core/backend"
	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/config"
	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/lease"
)

// Type is the backend's name in configs. A lease does not carry it.
const Type = "udp"

// DefaultPort is the UDP port on which all nodes listen by default.
const DefaultPort = 8285

// The names of the TUN device: alone (interop 6.0), and with a previous port beside the present one.
const (
	device      = "flannel0"
	asideDevice = "fl.udp.@"
)

// metric makes our route yield to upstream's, which has none (interop 6.0). Our
// device outlives this process, so an upstream daemon that follows us gets
// another device, and its route to that must win.
const metric = 1

// overhead is the size of the outer IPv4 and UDP headers, in bytes.
const overhead = 20 + 8

// Spec describes the backend and its options (interop 6.1).
func Spec() backend.Spec {
	return backend.Spec{
		Type: Type, Summary: "UDP datagrams, sent by this process", Carries: []backend.Families{backend.IPv4Only},
		New: open, Needs: "/dev/net/tun", Untyped: true,
		Devices: []string{device, asideDevice}, DeviceKind: dataplane.LinkTUN,
		Options: []backend.Option{
			{Name: "Port", Kind: backend.Whole, Default: fmt.Sprint(DefaultPort), Min: 1, Max: 65535, Agreed: true,
				Port: backend.Port, ChartValue: "backendPort",
				Help: "UDP port of all nodes"},
			{Name: "Offload", Kind: backend.Text, Default: strconv.Quote(string(dataplane.OffloadAuto)),
				Choices: []string{string(dataplane.OffloadAuto), string(dataplane.OffloadGSO), string(dataplane.OffloadOff)},
				Help:    "kernel offloads to use: whatever it has, segmentation or an error, or none"},
		},
	}
}

// options are the members of the config's Backend object.
type options struct {
	Port    int
	Offload dataplane.Offload
}

// Backend renders udp. It is immutable.
type Backend struct {
	opts   options
	device string // the link's name
	other  string // that which it may have had: see Aside
}

var (
	_ backend.Backend = (*Backend)(nil)
	_ backend.Asider  = (*Backend)(nil)
)

func open(network config.Network) (backend.Backend, error) {
	b := &Backend{device: device}
	if err := json.Unmarshal(network.Backend.Options, &b.opts); err != nil {
		return nil, fmt.Errorf("options of %s: %w", Type, err)
	}
	b.other = backend.DeviceName(asideDevice, dataplane.VXLAN{Port: uint16(b.opts.Port)})
	return b, nil
}

// Aside implements [backend.Asider]. A packet path has one port, and upstream looks for the present one on flannel0.
func (b *Backend) Aside() (backend.Backend, bool) {
	aside := *b
	aside.device, aside.other = b.other, b.device
	return &aside, true
}

// Renamings implements [backend.Asider].
func (b *Backend) Renamings() []dataplane.Renaming {
	return []dataplane.Renaming{{From: b.other, To: b.device}}
}

// Type implements [backend.Backend].
func (b *Backend) Type() string { return Type }

// acceptLocal lets the host hear the proxy's ICMP errors. They come out of the
// device with the device's own address as their source, as upstream's do
// (interop 6.1), and Linux drops packets that seem to come from itself. No peer
// can abuse it: the proxy delivers no other packet with an address of this host.
func (b *Backend) acceptLocal() dataplane.Sysctl {
	return dataplane.Sysctl{Path: "net/ipv4/conf/" + b.device + "/accept_local", Value: "1", Link: b.device}
}

// Extent implements [backend.Backend].
func (b *Backend) Extent() dataplane.Extent {
	return dataplane.Extent{Links: []string{b.device}, Sysctls: []dataplane.Sysctl{b.acceptLocal()}}
}

// MTU implements [backend.Backend].
func (b *Backend) MTU(env backend.Env) int { return env.Uplink.MTU - overhead }

// Attrs implements [backend.Backend]. It publishes a public address and nothing
// else, not even a type (interop 3.3).
func (b *Backend) Attrs(env backend.Env, _ lease.Attrs, _ *dataplane.State, _ *rand.Rand) (lease.Attrs, error) {
	return lease.Attrs{PublicIP: env.Uplink.PublicIP}, nil
}

// Render implements [backend.Backend].
func (b *Backend) Render(
	env backend.Env, self backend.Self, peers []*lease.Lease,
) (*dataplane.State, []backend.Problem) {
	state := dataplane.NewState()
	state.AddLink(dataplane.Link{Name: b.device, MTU: b.MTU(env), Up: true, Params: dataplane.TUN{}})
	state.AddSysctl(b.acceptLocal())
	own := self.Key.Of(cidr.V4)
	if !own.IsValid() {
		return state, nil // a proxy without a subnet could not deliver any packet
	}
	backend.AddBase(state, self, b.device, cidr.V4)
	state.AddProxy(dataplane.Proxy{
		Link:   b.device,
		Local:  netip.AddrPortFrom(env.Uplink.IP, uint16(b.opts.Port)),
		Subnet: own, MTU: b.MTU(env), Offload: b.opts.Offload,
	})
	state.AddRoute(dataplane.Route{
		RouteKey: dataplane.RouteKey{Dst: env.Config.V4.Network, Metric: metric},
		Link:     b.device, Protocol: dataplane.Protocol,
	})
	served, problems := backend.Peers(env, self, backend.AnyType, cidr.V4, peers)
	for _, p := range served {
		state.AddPeer(dataplane.Peer{PeerKey: dataplane.PeerKey{Link: b.device, Subnet: p.Subnet}, To: p.IP})
	}
	return state, problems
}
