package oracle

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strings"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/dataplane"
)

// network is the part of a network config (interop 2: its JSON form) that decides
// the objects of a host.
type network struct {
	of       [2]netip.Prefix // the Network of each family; zero: the family is off
	off      []netip.Prefix  // the Networks of families that are off
	nftables bool
	backend  string
	options  options
}

// options are the members of the Backend object (interop 6.1 to 6.5: the options of each backend).
type options struct {
	Type          string
	VNI           uint32
	Port          uint16
	MTU           int
	GBP           bool
	Learning      bool
	DirectRouting bool
	TxChecksum    string
	Offload       dataplane.Offload

	ListenPort, ListenPortV6    uint16
	PSK                         string
	PersistentKeepaliveInterval uint16
	Mode                        string
	Implementation              string
	Overhead                    int

	PreStartupCommand, PostStartupCommand, ShutdownCommand string
	SubnetAddCommand, SubnetRemoveCommand                  string

	RouteTableID any

	UDPEncap    bool
	ESPProposal string
}

// namePattern matches a name of a device, or another word of a command.
var namePattern = regexp.MustCompile(`[\pL\p{Nd}._-]+`)

// mention reports whether a command of the operator contains a device's whole name.
func (o options) mention(device string) bool {
	for _, text := range []string{
		o.PreStartupCommand, o.PostStartupCommand, o.SubnetAddCommand, o.SubnetRemoveCommand, o.ShutdownCommand,
	} {
		if slices.Contains(namePattern.FindAllString(text, -1), device) {
			return true
		}
	}
	return false
}

func parse(text string) (network, error) {
	var c struct {
		Network, IPv6Network       string
		EnableIPv4                 *bool
		EnableIPv6, EnableNFTables bool
		Backend                    options
	}
	c.Backend = options{
		Type: "udp", VNI: 1, Offload: dataplane.OffloadAuto,
		ListenPort: 51820, ListenPortV6: 51821, Mode: "separate", Implementation: "auto", Overhead: 80,
		ESPProposal: "aes128gcm16-sha256-prfsha256-ecp256",
	}
	if err := json.Unmarshal([]byte(text), &c); err != nil {
		return network{}, fmt.Errorf("network config: %w", err)
	}
	n := network{nftables: c.EnableNFTables, backend: strings.ToLower(c.Backend.Type), options: c.Backend}
	for f, text := range [2]string{cidr.V4: c.Network, cidr.V6: c.IPv6Network} {
		on := c.EnableIPv6
		if cidr.Family(f) == cidr.V4 {
			on = c.EnableIPv4 == nil || *c.EnableIPv4
		}
		p, err := netip.ParsePrefix(text)
		switch {
		case on && err != nil:
			return network{}, fmt.Errorf("network config: %w", err)
		case on:
			n.of[f] = p.Masked()
		case err == nil:
			n.off = append(n.off, p.Masked())
		}
	}
	if n.options.Port == 0 {
		n.options.Port = defaultPort[n.backend]
	}
	return n, nil
}

// defaultPort is each backend's UDP port; vxlan uses the Linux kernel's default.
var defaultPort = map[string]uint16{"udp": 8285, "vxlan": 8472}
