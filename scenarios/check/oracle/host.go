package oracle

import (
	"net/netip"

	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/driver"
	"github.com/flanneld/flannel/core/lease"
)

// Host describes a host after the topology and the faults so far.
type Host struct {
	Config string // the network config in force, JSON
	// Changed says that the config has had another Backend object before, and that this change may not have ended.
	Changed bool
	// Formerly are the configs whose objects must all be gone.
	Formerly []string
	// Changing says that the node may still keep objects of former configs, because a
	// peer may need them.
	Changing bool
	// Beside are the configs of the other networks that the host runs.
	Beside []string
	Uplink Uplink

	// EndpointsSeen says that the host has held its whole demand once. A node tries the
	// endpoints of a WireGuard peer without a session in turn, so the record's endpoint
	// need not be there at every later moment.
	EndpointsSeen bool

	// StateLost says that the node may have lost its state file since it last settled. A previous device is then
	// known by its address alone.
	StateLost bool

	// NewKeys holds the keys of WireGuard devices that the node has made when the device with the published key was
	// gone, by device. Without that key's private half, which the node has lost, no device can have it.
	NewKeys map[string]dataplane.PublicKey

	// Forged are the records, present and former, that other programs have written to harm the nodes.
	Forged []lease.Lease

	// NoIPv6 says that the kernel has no IPv6, and thus no IPv6 settings.
	NoIPv6 bool
	// NoProcess says that the state to judge does not include the daemon's process:
	// the udp packet paths and their peers.
	NoProcess bool

	// The daemon's flags.
	Blackhole  bool // --ip-blackhole-route
	IPForward  bool // --ip-forward
	Masquerade bool // --ip-masq
	Forward    bool // --iptables-forward-rules

	// Tools are the host's firewall tools, by family.
	Tools [2]driver.Tools
}

// Uplink is a host's interface to the underlay.
type Uplink struct {
	Link    string
	MTU     int             // bytes
	Addr    [2]netip.Addr   // by family
	Public  [2]netip.Addr   // the addresses to publish
	Segment [2]netip.Prefix // the networks without a gateway between
}

// direct reports whether the host reaches an address without a gateway.
func (u Uplink) direct(f int, a netip.Addr) bool {
	return u.Segment[f].IsValid() && u.Segment[f].Contains(a)
}
