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

// stack is one network namespace of a kernel: a host's or a pod's.
type stack struct {
	network      *Network
	world        *world.World
	name         string
	links        []*link                // by index
	lastIdx      int                    // indexes only grow
	local        map[netip.Addr][]*link // owners of an address, oldest first
	fibs         [2]fib
	nextHops     map[dataplane.NextHopID]hop
	sysctls      map[string]string
	no6          bool                        // the kernel has no IPv6
	lacks        map[dataplane.LinkKind]bool // kinds of links that the kernel does not have
	noTUN        bool                        // programs cannot open /dev/net/tun
	filter       *netfilter                  // nil for a pod, which has no rules
	nat          nat
	sockets      []*socket
	policies     policies
	associations []*association // oldest first
	blocks       map[blocked]bool
	received     map[uint16]int // datagrams at ports that other programs hold
	// spoilsChecksums means that the network card computes wrong checksums in tunnels.
	spoilsChecksums bool
	heard           map[netip.Addr]time.Time // when the last probe of each daemon arrived

	ipID  uint32
	pmtu  map[netip.Addr]pathMTU // learnt from ICMP, for the host's own packets
	parts map[fragKey]*reassembly
}

func newStack(n *Network, name string) *stack {
	s := &stack{
		network: n,
		world:   n.world,
		name:    name,
		local:   map[netip.Addr][]*link{},
		sysctls: map[string]string{sysctlForward4: "0", sysctlForward6: "0", sysctlKeep6: "0", sysctlRPFilter: "0"},
		pmtu:    map[netip.Addr]pathMTU{},
		parts:   map[fragKey]*reassembly{},
	}
	for _, f := range cidr.Families {
		s.fibs[f] = newFIB(s, f)
	}
	lo := s.addLink("lo", loopback, 65536, dataplane.MAC{})
	lo.insertAddr(netip.MustParsePrefix("127.0.0.1/8"))
	lo.insertAddr(netip.MustParsePrefix("::1/128"))
	lo.up = true
	return s
}

// addLink makes a device that is down. The caller has checked the name.
func (s *stack) addLink(name string, d device, mtu int, mac dataplane.MAC) *link {
	s.lastIdx++
	if mac.IsZero() && d != loopback && d.hasMAC() {
		mac = s.randomMAC()
	}
	l := &link{
		stack: s, name: name, index: s.lastIdx, device: d, mtu: mtu, mac: mac, carrier: true, has6: s.enough6(mtu),
		neighs: newNeighs(s.network.values),
		fdb:    newFDB(s.network.values),
	}
	s.links = append(s.links, l)
	s.makeSysctls4(name)
	if _, has := d.(*vxlanDevice); has { // others may have the feature, and flannel leaves it alone there
		s.sysctls[dataplane.TxChecksum(name, "").Path] = dataplane.FeatureOn
	}
	if l.has6 {
		s.makeSysctls6(name)
	}
	return l
}

// enough6 reports whether a link with that MTU speaks IPv6.
func (s *stack) enough6(mtu int) bool { return !s.no6 && mtu >= minMTU6 }

// removeIPv6 makes the kernel one without IPv6, as if booted with
// ipv6.disable=1.
func (s *stack) removeIPv6() {
	s.no6 = true
	for _, l := range s.links {
		l.setMTU(l.mtu)
	}
	s.dropSysctls("net/ipv6/")
}

// randomMAC draws a local unicast address.
func (s *stack) randomMAC() dataplane.MAC {
	r := s.world.Rand(s.name + "/mac").Uint64()
	return dataplane.MAC{byte(r)&^1 | 2, byte(r >> 8), byte(r >> 16), byte(r >> 24), byte(r >> 32), byte(r >> 40)}
}

// link returns the device of that name, or nil.
func (s *stack) link(name string) *link {
	for _, l := range s.links {
		if l.name == name {
			return l
		}
	}
	return nil
}

// linkAt returns the device of that index, or nil.
func (s *stack) linkAt(index int) *link {
	for _, l := range s.links {
		if l.index == index {
			return l
		}
	}
	return nil
}

// find returns the device of that name, or the kernel's refusal.
func (s *stack) find(name string) (*link, error) {
	if l := s.link(name); l != nil {
		return l, nil
	}
	return nil, fmt.Errorf("no link %q: %w", name, driver.ErrNotFound)
}

// delLink deletes a device with all that depends on it; vxlan devices go with
// their parent.
func (s *stack) delLink(l *link) {
	for _, child := range slices.Clone(s.links) {
		if child.device.parent() == l.name {
			s.delLink(child)
		}
	}
	if l.queue != nil {
		l.queue.end()
	}
	l.setUp(false)
	for _, f := range cidr.Families {
		s.fibs[f].remove(func(r *route) bool { return r.leave(l) }) // includes routes that were only asleep
		for _, a := range slices.Clone(l.addrs[f]) {
			l.forgetAddr(a.prefix)
		}
	}
	if l.wire != nil {
		l.wire.segment.detach(l.wire)
	}
	s.dropSysctls("net/ipv4/conf/" + l.name + "/")
	s.dropSysctls("net/ipv6/conf/" + l.name + "/")
	delete(s.sysctls, dataplane.TxChecksum(l.name, "").Path)
	s.links = slices.DeleteFunc(s.links, func(o *link) bool { return o == l })
}
