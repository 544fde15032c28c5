package trace

import (
	"context"
	"errors"
	"net/netip"

	"golang.org/x/sys/unix"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/driver"
	"github.com/flanneld/flannel/tools/ruleset"
)

// Kernel answers questions about one host.
type Kernel interface {
	// View returns what the host holds within some networks.
	View(ctx context.Context, networks []netip.Prefix) (*View, error)

	// Route returns the way that the kernel chooses for a packet. It fails with one of
	// the errors below if it would drop the packet.
	Route(Question) (Route, error)

	// Neighbour returns the entry of an address on a device, permanent or learned.
	Neighbour(link string, ip netip.Addr) (Neighbour, error)
}

// The errors of [Kernel.Route], as Linux has them (fib_lookup, ip_route_input).
var (
	ErrNoRoute   = errors.New("no route to host")       // ENETUNREACH, EHOSTUNREACH, EACCES (a route or rule prohibits it)
	ErrBlackhole = errors.New("a route drops packets")  // EINVAL
	ErrSource    = errors.New("source is not expected") // EXDEV: the reverse path filter
)

// Question names a packet.
type Question = driver.Packet

// protocolNumber returns the number of a protocol by its name in packets to an address, 0 for
// one without ports other than ICMP.
func protocolNumber(name string, dst netip.Addr) uint8 {
	switch name {
	case "tcp":
		return unix.IPPROTO_TCP
	case "udp":
		return unix.IPPROTO_UDP
	case "icmp":
		return cidr.Pick[uint8](cidr.FamilyOf(dst), unix.IPPROTO_ICMP, unix.IPPROTO_ICMPV6)
	}
	return 0
}

// Route is a kernel's answer.
type Route struct {
	Local bool // the address is one of the host
	Link  string
	Via   netip.Addr // gateway; zero: the destination is on the link
	Src   netip.Addr // preferred source, if the kernel named one
	MTU   int        // of the path, if the kernel knows a smaller one than the device's; else 0
	Table uint32     // in which the kernel found it; 0: not known
}

// Neighbour is an entry of the kernel's neighbour table.
type Neighbour struct {
	Exists bool
	MAC    dataplane.MAC
	Failed bool // no host has answered
	Fixed  bool // a program or person has set it, and the kernel asks no host
}

// View holds the devices of a host, the objects on them and in the networks, and its
// firewall.
type View struct {
	Host     driver.HostFacts
	State    *dataplane.State
	Firewall driver.FirewallFacts
	Chains   *dataplane.State
	// Rules are those of all programs, for each family, as far as they can be read.
	Rules  [2]ruleset.Tables
	Unread []string // why rules could not be read
	// Frames names the tables whose rules drop frames at the ports of bridges.
	Frames   []string
	Security []SecurityRule // policies of IPsec of all programs
	// Policies are the rules by which the kernel chooses a table of routes, in its order.
	Policies [2][]PolicyRule
}

// PolicyRule is a rule of ip rule.
type PolicyRule struct {
	Table uint32
	Text  string // as ip prints it: "5270: from all lookup 52"
}

// DeviceHooks is a kernel that knows what sees packets on a device itself: filters of tc, queues that lose packets, and
// programs of XDP.
type DeviceHooks interface {
	// OnDevice returns what drops each packet that comes in or goes out by a device, and what may drop some.
	OnDevice(link string, out bool) (drops string, doubts []string)
}

// alive reports whether a WireGuard peer of the kernel's has had a handshake in the last three minutes.
func (v *View) alive(p dataplane.WGPeer) bool {
	_, alive := v.State.Alive[p.WGPeerKey]
	return alive
}

// link returns a device by name.
func (v *View) link(name string) (driver.Link, bool) {
	for _, l := range v.Host.Links {
		if l.Name == name {
			return l, true
		}
	}
	return driver.Link{}, false
}

// Look reads a view with the daemon's own drivers, which show what the daemon sees.
func Look(ctx context.Context, host, filter driver.Lane, networks []netip.Prefix) (*View, error) {
	first, err := host.Look(ctx, dataplane.Extent{})
	if err != nil {
		return nil, err
	}
	facts, _ := first.Facts.(driver.HostFacts)
	extent := dataplane.Extent{Networks: networks, Policies: true}
	for _, l := range facts.Links {
		extent.Links = append(extent.Links, l.Name)
	}
	seen, err := host.Look(ctx, extent)
	if err != nil {
		return nil, err
	}
	rules, err := filter.Look(ctx, dataplane.Extent{})
	if err != nil {
		return nil, err
	}
	v := &View{State: seen.State, Chains: rules.State}
	v.Host, _ = seen.Facts.(driver.HostFacts)
	v.Firewall, _ = rules.Facts.(driver.FirewallFacts)
	return v, nil
}
