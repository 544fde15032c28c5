package wireguard

import (
	"fmt"

	"github.com/flanneld/flannel/core/backend"
	"github.com/flanneld/flannel/core/dataplane"
)

// The modes (interop 6.5): a device for each family, or one device whose peers have
// endpoints of the family that the mode selects.
const (
	modeSeparate = "separate"
	modeAuto     = "auto"
	modeIPv4     = "ipv4"
	modeIPv6     = "ipv6"
)

// The implementations.
const (
	implementationAuto      = "auto"
	implementationKernel    = "kernel"
	implementationUserspace = "userspace"
)

// The sizes of the headers of encapsulation, in bytes: outer IP, UDP (8),
// WireGuard (16), and its authentication tag (16). The contract subtracts the larger
// one in every network (interop 6.5).
const (
	overheadV4 = 20 + 40
	overheadV6 = 40 + 40
)

// Spec describes the backend and its options (interop 6.5).
func Spec() backend.Spec {
	return backend.Spec{
		Type: Type, Summary: "encrypted WireGuard tunnels", Carries: backend.EveryFamily, New: open,
		SharesDevices: true, Encrypts: true, Shows: modeIn,
		Devices: []string{device, deviceV6}, DeviceKind: dataplane.LinkWireGuard,
		OnCopy: "delete the key file of one of the two hosts, and restart flannel there",
		Options: []backend.Option{
			{Name: "ListenPort", Kind: backend.Whole, Default: "51820", Min: 1, Max: 65535, Example: "51900",
				Port: backend.Port, ChartValue: "backendPort",
				Help: "UDP port of the node"},
			{Name: "ListenPortV6", Kind: backend.Whole, Default: "51821", Min: 1, Max: 65535,
				Port: backend.PortOfV6, ChartValue: "backendPortv6",
				Help: "UDP port of the second device, for IPv6 in mode separate"},
			{Name: "MTU", Kind: backend.Whole, Default: "0", Min: 576, Max: 65535, Example: "1400", ChartValue: "mtu",
				Zero: "the uplink's", Help: "largest packet on the wire; pods get 80 bytes less. " +
					"An uplink with a smaller MTU overrides it"},
			{Name: "PSK", Kind: backend.Key, Default: `""`, Example: `"AQIDBAUGBwgJCgsMDQ4PEBESExQVFhcYGRobHB0eHyA="`,
				ChartValue: "psk", Pattern: "^$|^[A-Za-z0-9+/]{43}=$",
				Help: "pre-shared key of all nodes, as wg genpsk prints it"},
			{Name: "PersistentKeepaliveInterval", Kind: backend.Whole, Default: "0", Min: 1, Max: 65535, Example: "25",
				ChartValue: "keepaliveInterval",
				Zero:       "off", Help: "seconds between packets to an idle peer, for nodes behind NAT"},
			{Name: "Mode", Kind: backend.Text, Default: `"separate"`, Example: `"auto"`, AgreedInBoth: true,
				Choices: []string{modeSeparate, modeAuto, modeIPv4, modeIPv6}, ChartValue: "tunnelMode",
				Alike: map[string]string{modeIPv4: modeAuto, modeIPv6: modeAuto},
				Help: "a device for each family, or one device with endpoints of the better family, " +
					"of IPv4 or of IPv6"},
			{Name: "Implementation", Kind: backend.Text, Default: `"auto"`, Example: `"userspace"`,
				Choices: []string{implementationAuto, implementationKernel, implementationUserspace},
				Help:    "the kernel's WireGuard, or one in the daemon's process; auto takes the kernel's if there is one"},
			{Name: "Overhead", Kind: backend.Whole, Default: "80", Min: overheadV4, Max: overheadV6,
				Help: "bytes kept free for the headers; 60 is enough where no endpoint has an IPv6 address"},
		},
	}
}

// options are the members of the config's Backend object.
type options struct {
	ListenPort                  uint16
	ListenPortV6                uint16
	MTU                         int
	PSK                         dataplane.Secret // zero: none
	PersistentKeepaliveInterval uint16
	Mode                        string
	Implementation              string
	Overhead                    int
}

// check refuses combinations of options that do not fit the network's families.
func (o *options) check(families backend.Families) error {
	switch {
	case o.Mode == modeIPv4 && families == backend.IPv6Only:
		return fmt.Errorf(`Backend Mode "ipv4": nodes of an IPv6 network publish no IPv4 address; ` +
			"want separate, auto or ipv6")
	case o.Mode == modeIPv6 && families == backend.IPv4Only:
		return fmt.Errorf(`Backend Mode "ipv6": nodes of an IPv4 network publish no IPv6 address; ` +
			"want separate, auto or ipv4")
	case o.Mode == modeSeparate && families == backend.Both && o.ListenPort == o.ListenPortV6:
		return fmt.Errorf("Backend ListenPort and ListenPortV6 are both %d: "+
			"mode separate has two devices, which need two ports", o.ListenPort)
	case o.Overhead < overheadV6 && o.Mode != modeIPv4 && families != backend.IPv4Only:
		return fmt.Errorf("Backend Overhead %d: endpoints with IPv6 addresses need %d", o.Overhead, overheadV6)
	}
	return nil
}
