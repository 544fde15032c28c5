package kernel

import (
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/driver"
	"github.com/flanneld/flannel/drivers/sim/world"
)

// Host is a machine: a kernel's tables and what is attached to it.
type Host struct {
	network *Network
	world   *world.World
	name    string
	opLabel string
	stack   *stack
	pods    []*Pod
	filter  *netfilter
	paths   *paths      // of no daemon
	lane    *hostDriver // of no daemon

	hints    hinter
	changed  uint64 // counts possible changes of the tables; never 0
	told     uint64 // counts the hints that were not lost
	facts    cachedFacts
	seen     cachedLook
	hintLoss float64
	refuses  refusals
}

// UseSecrets gives secrets to the program behind Driver.
func (h *Host) UseSecrets(secrets driver.Secrets) { h.paths.secrets = secrets }

// WithoutIPv6 makes the host's kernel one without IPv6, as ipv6.disable=1 does.
func (h *Host) WithoutIPv6() { h.stack.removeIPv6() }

// Network returns the network of the host.
func (h *Host) Network() *Network { return h.network }

// World returns the world of the host.
func (h *Host) World() *world.World { return h.world }

// Name returns the name of the host, unique in the world.
func (h *Host) Name() string { return h.name }

// Changes counts the possible changes of the host's tables so far.
func (h *Host) Changes() uint64 { return h.changed }

// HasAddressIn reports whether a link is up and has an address in a subnet.
func (h *Host) HasAddressIn(link string, subnet netip.Prefix) bool {
	l := h.stack.link(link)
	return l != nil && l.up && slices.ContainsFunc(l.addrs[cidr.FamilyOf(subnet.Addr())],
		func(a address) bool { return subnet.Contains(a.prefix.Addr()) })
}

// OnHint calls fn, as an event of its own, each time the kernel hints that
// something may have changed. It is the driver's Hints in virtual time. The
// function that it returns ends that.
func (h *Host) OnHint(fn func()) (end func()) { return h.hints.on(fn, nil) }

// OnFirewallHint is OnHint for the packet filter.
func (h *Host) OnFirewallHint(fn func()) (end func()) { return h.filter.hints.on(fn, nil) }

// LoseHints makes the kernel lose hints with the given probability.
func (h *Host) LoseHints(probability float64) { h.hintLoss = probability }

// StormHints makes the kernel hint again and again for some time, as on a host
// whose other programs never rest.
func (h *Host) StormHints(every, length time.Duration) {
	if length <= 0 || every <= 0 {
		return
	}
	h.hint(nil)
	h.world.After(every, h.name+": hint storm", func() { h.StormHints(every, length-every) })
}

// hint tells the listeners that something may have changed, except the program that has
// changed it; nil: all of them. Like a netlink message it carries no reliable content, and it
// may be lost.
func (h *Host) hint(by *paths) {
	if h.hintLoss > 0 && h.world.Rand(h.name+"/hints").Float64() < h.hintLoss {
		h.world.Note(h.name+": hint lost", "")
		return
	}
	h.told++
	h.hints.tell(h.world, h.name+": hint", by)
}

// AddUplink gives the host an Ethernet link on a segment. The link is up and
// has the given addresses and an MTU of 1500 bytes. A host with two uplinks and
// Forward is a router.
func (h *Host) AddUplink(name string, g *Segment, addrs ...netip.Prefix) (*Wire, error) {
	if err := h.AddEthernet(dataplane.Link{Name: name, MTU: 1500, Up: true}); err != nil {
		return nil, err
	}
	l := h.stack.link(name)
	g.attach(l, UnderlayLatency)
	h.changed++
	for _, a := range addrs {
		if err := l.addAddr(a); err != nil {
			return nil, fmt.Errorf("%s: address %s: %w", l.stack.name, a, err)
		}
	}
	return l.wire, nil
}

// AddEthernet gives the host an Ethernet link that has carrier but leads
// nowhere. It uses the fields Name, MTU, MAC and Up.
func (h *Host) AddEthernet(o dataplane.Link) error {
	s := h.stack
	if s.link(o.Name) != nil {
		return fmt.Errorf("%s: link %q: %w", h.name, o.Name, driver.ErrExists)
	}
	if !validName(o.Name) || o.MTU < minMTU || o.MTU > maxMTU || !o.MAC.IsZero() && !validMAC(o.MAC) {
		return fmt.Errorf("%s: link %q: %w", h.name, o.Name, driver.ErrInvalid)
	}
	s.addLink(o.Name, ethernet, o.MTU, o.MAC).setUp(o.Up)
	return h.action(nil, "add link %s", o.Name)
}

// Wire returns the wire between a link of the host and its segment, nil if
// there is none.
func (h *Host) Wire(link string) *Wire {
	if l := h.stack.link(link); l != nil {
		return l.wire
	}
	return nil
}

// Forward switches IP forwarding on, in both families.
func (h *Host) Forward() {
	for _, path := range []string{sysctlForward4, sysctlForward6} {
		if err := h.SetSysctl(path, "1"); err != nil {
			panic(fmt.Sprintf("kernel: %v", err)) // every host has these
		}
	}
}

// DefaultRoute sets the host's default gateway.
func (h *Host) DefaultRoute(gateway netip.Addr) error {
	all, err := gateway.Prefix(0)
	if err != nil {
		return fmt.Errorf("%s: default route: %w", h.name, err)
	}
	return h.RouteAdd(dataplane.Route{
		RouteKey: dataplane.RouteKey{Dst: all}, Via: gateway, Protocol: dataplane.ProtocolBoot,
	})
}

// Ping sends an echo request from the host.
func (h *Host) Ping(dst netip.Addr, o PingOptions) *Probe { return h.stack.ping(dst, o) }

// Route returns the route of the main table with this key; of several, the
// first.
func (h *Host) Route(k dataplane.RouteKey) (dataplane.Route, bool) {
	for _, r := range h.stack.fibs[cidr.FamilyOf(k.Dst.Addr())].at(k.Dst) {
		if v := r.value(); v.RouteKey == k {
			return v, true
		}
	}
	return dataplane.Route{}, false
}
