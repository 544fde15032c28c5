package harness

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/flanneld/flannel/core/cidr"
)

// Host numbers on a segment; a node's host number is its own number.
const (
	maxNodes    = 251
	outsideHost = 252
	routerHost  = 253
	storeHost   = 254
)

// maxSegments keeps the underlay within 192.168.0.0/16.
const maxSegments = 100

// uplink is the name of every host's underlay device.
const uplink = "eth0"

// segment is an Ethernet: a bridge in a namespace of its own.
type segment struct {
	index  int
	sw     *Host
	bridge netlink.Link
}

// underlayAddr returns the address of a host on a segment, with the segment's
// length.
func underlayAddr(f cidr.Family, segment, host int) netip.Prefix {
	if f == cidr.V4 {
		return netip.PrefixFrom(netip.AddrFrom4([4]byte{192, 168, byte(64 + segment), byte(host)}), 24)
	}
	return netip.MustParsePrefix(fmt.Sprintf("fd00:%d::%d/64", 64+segment, host))
}

// families lists the address families of the underlay.
func (l *Lab) families() []cidr.Family {
	if l.Options.IPv6 {
		return cidr.Families[:]
	}
	return cidr.Families[:1]
}

// addSegment makes a segment with the router on it.
func (l *Lab) addSegment(ctx context.Context, index int) error {
	sw, err := l.newHost(fmt.Sprintf("segment%d", index), setting{"ipv6/conf/default/disable_ipv6", "1"})
	if err != nil {
		return err
	}
	bridge := &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "br0", MTU: l.Options.MTU}, MulticastSnooping: new(bool)}
	if err := sw.nl.LinkAdd(bridge); err != nil {
		return fmt.Errorf("segment %d: add its bridge: %w", index, err)
	}
	if err := sw.SetUp("br0"); err != nil {
		return err
	}
	s := &segment{index: index, sw: sw, bridge: bridge}
	l.segments = append(l.segments, s)
	return l.plug(ctx, s, l.Router, fmt.Sprintf("eth%d", index), routerHost)
}

// plug connects a host to a segment by a device with that name and gives it the
// addresses with that host number.
func (l *Lab) plug(ctx context.Context, s *segment, h *Host, dev string, number int) error {
	port := &netlink.Veth{
		LinkAttrs:     netlink.LinkAttrs{Name: h.Name, MTU: l.Options.MTU, MasterIndex: s.bridge.Attrs().Index},
		PeerName:      dev,
		PeerMTU:       uint32(l.Options.MTU),
		PeerNamespace: netlink.NsFd(h.space.FD()),
		PeerTxQLen:    -1,
	}
	if err := s.sw.nl.LinkAdd(port); err != nil {
		return fmt.Errorf("connect %s to segment %d: %w", h.Name, s.index, err)
	}
	if err := s.sw.SetUp(h.Name); err != nil {
		return err
	}
	if err := h.SetUp(dev); err != nil {
		return err
	}
	for _, f := range l.families() {
		if err := h.AddAddr(dev, underlayAddr(f, s.index, number)); err != nil {
			return err
		}
	}
	return s.waitPlugged(ctx, h, dev)
}

// waitPlugged waits until frames pass between a host's device and the segment.
func (s *segment) waitPlugged(ctx context.Context, h *Host, dev string) error {
	return errors.Join(s.sw.waitUp(ctx, h.Name), s.sw.waitUp(ctx, "br0"), h.waitUp(ctx, dev))
}

// plugWithDefault is plug for a host whose default routes lead to the router.
func (l *Lab) plugWithDefault(ctx context.Context, s *segment, h *Host, number int) error {
	if err := l.plug(ctx, s, h, uplink, number); err != nil {
		return err
	}
	return l.routeToRouter(s, h)
}

// routeToRouter gives a host its default routes, or restores them.
func (l *Lab) routeToRouter(s *segment, h *Host) error {
	for _, f := range l.families() {
		if err := h.AddRoute(defaultRoute(f), underlayAddr(f, s.index, routerHost).Addr(), uplink); err != nil {
			return err
		}
	}
	return nil
}

// link finds a device of the host.
func (h *Host) link(name string) (netlink.Link, error) {
	link, err := h.nl.LinkByName(name)
	if err != nil {
		return nil, fmt.Errorf("host %s: find device %s: %w", h.Name, name, err)
	}
	return link, nil
}

// onLink calls do for a device of the host. An error names both.
func (h *Host) onLink(name, what string, do func(netlink.Link) error) error {
	link, err := h.link(name)
	if err != nil {
		return err
	}
	if err := do(link); err != nil {
		return fmt.Errorf("host %s: %s of device %s: %w", h.Name, what, name, err)
	}
	return nil
}

// ipNet returns the prefix in package netlink's form.
func ipNet(p netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
}

// nlFamily returns netlink's number of the address family.
func nlFamily(f cidr.Family) int { return [2]int{unix.AF_INET, unix.AF_INET6}[f] }
