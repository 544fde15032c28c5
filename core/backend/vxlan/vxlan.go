package vxlan

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"

	"github.com/flanneld/flannel/core/backend"
	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/config"
	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/lease"
	"github.com/flanneld/flannel/core/uplink"
)

// Type is the backend's name in configs and leases.
const Type = "vxlan"

// KernelPort is the UDP port Linux uses when none is given.
const KernelPort = 8472

// devices are the names of the devices (interop 6.0), by family, with "#" for the VNI.
var devices = [2]string{cidr.V4: "flannel.#", cidr.V6: "flannel-v6.#"}

// asideDevices are the names of the devices beside those of another port, with "@" for the port.
var asideDevices = [2]string{cidr.V4: "fl.#.@", cidr.V6: "fl6.#.@"}

// overhead is the size of the headers of encapsulation, in bytes: outer IP, UDP
// (8), VXLAN (8) and inner Ethernet (14).
var overhead = [2]int{cidr.V4: 20 + 30, cidr.V6: 40 + 30}

// Spec describes the backend and its options (interop 6.2).
func Spec() backend.Spec {
	return backend.Spec{
		Type: Type, Summary: "the kernel's VXLAN tunnels", Carries: backend.EveryFamily, New: open, OmitsIPv4: true,
		SharesPorts: true, Devices: slices.Concat(devices[:], asideDevices[:]), DeviceKind: dataplane.LinkVXLAN,
		Options: []backend.Option{
			{Name: "VNI", Kind: backend.Whole, Default: "1", Min: 1, Max: 1<<24 - 1, ChartValue: "vni", Agreed: true,
				Help: "network identifier, and the number in the device's name"},
			{Name: "Port", Kind: backend.Whole, Default: "0", Min: 1, Max: 65535, ChartValue: "backendPort", Agreed: true,
				ZeroMeans: KernelPort, Port: backend.Port,
				Zero: fmt.Sprintf("the kernel's default, %d", KernelPort), Help: "UDP port of all nodes"},
			{Name: "MTU", Kind: backend.Whole, Default: "0", Min: 576, Max: 65535, ChartValue: "mtu", Example: "1400",
				Zero: "the uplink's", Help: "largest packet on the wire; pods get 50 bytes less, 70 over IPv6. " +
					"An uplink with a smaller MTU overrides it"},
			{Name: "DirectRouting", Kind: backend.Switch, Default: "false", ChartValue: "directRouting", Example: "true",
				Help: "reach peers on the same segment by plain routes"},
			{Name: "Learning", Kind: backend.Switch, Default: "false", Help: "let the kernel learn the location of MACs"},
			{Name: "GBP", Kind: backend.Switch, Default: "false", ChartValue: "GBP", Help: "group policy extension"},
			{Name: "TxChecksum", Kind: backend.Text, Default: `"auto"`, ChartValue: "txChecksum",
				Choices: []string{checksumAuto, dataplane.FeatureOn, dataplane.FeatureOff},
				Help: "`off`: the kernel computes the checksums in tunnels, not the network card, some of which get them " +
					"wrong (`ethtool -K flannel.1 tx-checksum-ip-generic off`); `auto`: as the device is, and off once " +
					"probes find peers that answer ICMP and none that answers TCP"},
			{Name: "MacPrefix", Kind: backend.Text, ChartValue: "macPrefix", Pattern: "^$|^[0-9A-Fa-f]{2}-[0-9A-Fa-f]{2}$",
				Ignored: true, Help: "for Windows nodes"},
			{Name: "Name", Kind: backend.Text, Ignored: true, Help: "for Windows nodes"},
		},
	}
}

// options are the members of the config's Backend object.
type options struct {
	VNI           uint32
	Port          uint16
	MTU           int
	GBP           bool
	Learning      bool
	DirectRouting bool
	TxChecksum    string
}

// checksumAuto leaves the checksums of a device as they are until there is evidence that
// they are wrong.
const checksumAuto = "auto"

// Backend renders vxlan. It is immutable.
type Backend struct {
	opts     options
	families []cidr.Family
	devices  [2]string // the links' names (interop 6.0), by family
	others   [2]string // those that they may have had: see Aside
}

var (
	_ backend.Backend = (*Backend)(nil)
	_ backend.Asider  = (*Backend)(nil)
)

func open(network config.Network) (backend.Backend, error) {
	b := &Backend{}
	if err := json.Unmarshal(network.Backend.Options, &b.opts); err != nil {
		return nil, fmt.Errorf("options of %s: %w", Type, err)
	}
	if b.opts.Port == 0 {
		b.opts.Port = KernelPort
	}
	for f := range devices {
		b.devices[f], b.others[f] = b.opts.name(devices[f]), b.opts.name(asideDevices[f])
	}
	for _, f := range cidr.Families {
		if network.Of(f).Enabled() {
			b.families = append(b.families, f)
		}
	}
	return b, nil
}

// name returns the name of a device by its pattern.
func (o options) name(pattern string) string {
	return backend.DeviceName(pattern, dataplane.VXLAN{VNI: o.VNI, Port: o.Port})
}

// mostName is the length of the longest name of a device (Linux include/uapi/linux/if.h, IFNAMSIZ).
const mostName = 15

// Aside implements [backend.Asider]. Linux has two devices with one VNI if their ports differ, and
// the names flannel.<VNI> belong to the present port: upstream looks for them there. With a long
// VNI there is no room for another name.
func (b *Backend) Aside() (backend.Backend, bool) {
	aside := *b
	aside.devices, aside.others = b.others, b.devices
	for _, f := range b.families {
		if len(aside.devices[f]) > mostName {
			return nil, false
		}
	}
	return &aside, true
}

// Renamings implements [backend.Asider].
func (b *Backend) Renamings() []dataplane.Renaming {
	var names []dataplane.Renaming
	for _, f := range b.families {
		names = append(names, dataplane.Renaming{From: b.others[f], To: b.devices[f]})
	}
	return names
}

// Type implements [backend.Backend].
func (b *Backend) Type() string { return Type }

// Extent implements [backend.Backend]. It names both devices: a former run may have
// left one in a family that is off by now.
func (b *Backend) Extent() dataplane.Extent {
	e := dataplane.Extent{Links: b.devices[:]}
	for _, f := range b.families {
		e.Sysctls = append(e.Sysctls, b.settings(f)...)
		if !b.AdaptsChecksums() {
			e.Sysctls = append(e.Sysctls, dataplane.TxChecksum(b.devices[f], ""))
		}
	}
	return e
}

// Reach implements [backend.Reacher].
func (b *Backend) Reach(network config.Network, peers []*lease.Lease) []netip.Addr {
	if !b.opts.DirectRouting {
		return nil
	}
	return backend.PublicAddrs(network, peers)
}

// settings returns those of a family's device. It ignores router advertisements, which a pod
// could send, and that of IPv6 carries IPv6.
func (b *Backend) settings(f cidr.Family) []dataplane.Sysctl {
	dev := b.devices[f]
	settings := []dataplane.Sysctl{{Path: "net/ipv6/conf/" + dev + "/accept_ra", Value: "0", Link: dev}}
	if f == cidr.V6 {
		settings = append(settings, backend.SpeakIPv6(dev))
	}
	return settings
}

// AdaptsChecksums implements [backend.ChecksumAdapter].
func (b *Backend) AdaptsChecksums() bool { return b.opts.TxChecksum == checksumAuto }

// txChecksum returns the desired value of the setting, or checksumAuto for none.
func (b *Backend) txChecksum(env backend.Env) string {
	if b.AdaptsChecksums() && env.TxChecksum != "" {
		return env.TxChecksum
	}
	return b.opts.TxChecksum
}

// deviceMTU returns the MTU of a family's device.
func (b *Backend) deviceMTU(env backend.Env, f cidr.Family) int {
	return backend.DeviceMTU(env, b.opts.MTU, overhead[f])
}

// Notes implements [backend.Noter].
func (b *Backend) Notes(env backend.Env) []string {
	return backend.NotesOnMTU(env, b.opts.MTU, b.MTU(env))
}

// Check implements [backend.Checker].
func (b *Backend) Check(env backend.Env) *backend.Lack {
	if !slices.Contains(b.families, cidr.V6) {
		return nil
	}
	return backend.LackOfIPv6(env, b.devices[cidr.V6], b.deviceMTU(env, cidr.V6), overhead[cidr.V6])
}

// MTU implements [backend.Backend]. It returns the smallest MTU of the devices
// (interop P5: the IPv6 header is longer).
func (b *Backend) MTU(env backend.Env) int {
	mtu := b.deviceMTU(env, b.families[0])
	for _, f := range b.families[1:] {
		mtu = min(mtu, b.deviceMTU(env, f))
	}
	return mtu
}

// data is the backend's part of a lease. Its JSON has these members in this
// order and no blanks (interop 5.2).
type data struct {
	VNI     uint32
	VtepMAC string
}

func parseMAC(raw json.RawMessage) (dataplane.MAC, error) {
	if len(raw) == 0 {
		return dataplane.MAC{}, fmt.Errorf("record has no VtepMAC")
	}
	var d struct{ VtepMAC string }
	if err := json.Unmarshal(raw, &d); err != nil {
		return dataplane.MAC{}, fmt.Errorf("vxlan data %.100q: %w", raw, err)
	}
	mac, err := dataplane.ParseMAC(d.VtepMAC)
	switch {
	case err != nil:
		return dataplane.MAC{}, fmt.Errorf("VtepMAC: %w", err)
	case mac.IsZero() || mac[0]&1 != 0:
		return dataplane.MAC{}, fmt.Errorf("VtepMAC %s is not a unicast address", mac)
	}
	return mac, nil
}

// Attrs implements [backend.Backend]. It keeps a published MAC, because every
// peer has it in its tables; without one it takes that of an existing device.
func (b *Backend) Attrs(
	env backend.Env, stored lease.Attrs, have *dataplane.State, rng *rand.Rand,
) (lease.Attrs, error) {
	a := lease.Attrs{PublicIP: env.Uplink.PublicIP, PublicIPv6: env.Uplink.PublicIPv6, BackendType: Type}
	for _, f := range b.families {
		mac, err := parseMAC(stored.Data(f))
		if err != nil {
			if l, ok := have.Links[b.devices[f]]; ok && l.Kind() == dataplane.LinkVXLAN {
				mac = l.MAC
			}
		}
		if mac.IsZero() {
			mac = randomMAC(rng)
		}
		text, err := json.Marshal(data{b.opts.VNI, mac.String()})
		if err != nil {
			return lease.Attrs{}, fmt.Errorf("vxlan data: %w", err)
		}
		*cidr.Pick(f, &a.BackendData, &a.BackendV6Data) = text
	}
	return a, nil
}

// randomMAC draws a locally administered unicast address.
func randomMAC(rng *rand.Rand) dataplane.MAC {
	var m dataplane.MAC
	r := rng.Uint64()
	for i := range m {
		m[i] = byte(r >> (8 * i))
	}
	m[0] = m[0]&^1 | 2
	return m
}

// Render implements [backend.Backend].
func (b *Backend) Render(
	env backend.Env, self backend.Self, peers []*lease.Lease,
) (*dataplane.State, []backend.Problem) {
	state := dataplane.NewState()
	var problems []backend.Problem
	for _, f := range b.families {
		b.renderSelf(state, env, self, f)
		served, refused := backend.Peers(env, self, Type, f, peers)
		problems = append(problems, refused...)
		for _, p := range served {
			if err := b.renderPeer(state, env, p); err != nil {
				problems = append(problems, backend.Problem{Key: p.Key, Err: err})
			}
		}
	}
	return state, problems
}

func (b *Backend) renderSelf(s *dataplane.State, env backend.Env, self backend.Self, f cidr.Family) {
	// Attrs always makes a MAC that parses. With another one the device keeps its own.
	mac, _ := parseMAC(self.Attrs.Data(f))
	s.AddLink(dataplane.Link{
		Name: b.devices[f], MTU: b.deviceMTU(env, f), MAC: mac, Up: true,
		Params: dataplane.VXLAN{
			VNI: b.opts.VNI, Parent: env.Uplink.Link, Local: env.Uplink.Addr(f), Port: b.opts.Port,
			Learning: b.opts.Learning, GBP: b.opts.GBP,
		},
	})
	for _, setting := range b.settings(f) {
		s.AddSysctl(setting)
	}
	if value := b.txChecksum(env); value != checksumAuto {
		s.AddSysctl(dataplane.TxChecksum(b.devices[f], value))
	}
	backend.AddBase(s, self, b.devices[f], f)
}

func (b *Backend) renderPeer(s *dataplane.State, env backend.Env, p backend.Peer) error {
	route := dataplane.Route{RouteKey: dataplane.RouteKey{Dst: p.Subnet}, Protocol: dataplane.Protocol}
	if b.opts.DirectRouting {
		if link, ok := uplink.Direct(env.Facts.Routes, p.IP); ok {
			route.Via, route.Link = p.IP, link
			s.AddRoute(route)
			return nil
		}
	}
	mac, err := parseMAC(p.Lease.Attrs.Data(p.Family))
	if err != nil {
		return err
	}
	dev := b.devices[p.Family]
	key := dataplane.FDBKey{Link: dev, MAC: mac}
	// A host may have two records, such as its lease and a reservation that it cannot use.
	if e, taken := s.FDB.Get(key); taken && e.Dst != p.IP {
		return fmt.Errorf("the older peer at %s has the same VtepMAC %s", e.Dst, mac)
	}
	if mac == s.Links[dev].MAC {
		return fmt.Errorf("VtepMAC %s is our own", mac)
	}
	s.AddFDB(dataplane.FDBEntry{FDBKey: key, Dst: p.IP})
	s.AddNeigh(dataplane.Neigh{NeighKey: dataplane.NeighKey{Link: dev, IP: p.Subnet.Addr()}, MAC: mac})
	route.Via, route.Link = p.Subnet.Addr(), dev
	route.OnLink = true
	s.AddRoute(route)
	return nil
}
