package kernel

import (
	"fmt"
	"net/netip"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/driver"
)

const (
	ipipOverhead = 20
	// maxIPIPMTU is the largest MTU of a tunnel (Linux net/ipv4/ip_tunnel.c,
	// IP_MAX_MTU without the outer header, rounded down to eight).
	maxIPIPMTU = 0xfff8 - ipipOverhead
)

// ipipDevice implements [device] for [dataplane.IPIP].
type ipipDevice struct {
	plainDevice
	dataplane.IPIP
	stack *stack
	link  *link // nil until the kernel has accepted the device
}

func (d *ipipDevice) params() dataplane.LinkParams { return d.IPIP }

func (d *ipipDevice) hasMAC() bool { return false }

func (d *ipipDevice) mtuLimit() int { return maxIPIPMTU }

// createIPIP makes a tunnel. The kernel does not limit its MTU to what the
// uplink can carry.
func (s *stack) createIPIP(o dataplane.Link, want dataplane.IPIP) error {
	d := &ipipDevice{plainDevice: plainDevice(dataplane.LinkIPIP), stack: s}
	d.change(want)
	switch {
	case want.Parent != "" && s.link(want.Parent) == nil: // the driver has to find its index first
		return fmt.Errorf("no link %q: %w", want.Parent, driver.ErrNotFound)
	case !validName(o.Name) || o.MTU > maxIPIPMTU || o.MTU != 0 && o.MTU < minMTU:
		return fmt.Errorf("name or MTU: %w", driver.ErrInvalid)
	case !o.MAC.IsZero():
		return fmt.Errorf("an ipip link has no MAC: %w", driver.ErrUnsupported)
	case s.link(o.Name) != nil:
		return driver.ErrExists
	}
	if err := d.isDistinct(want); err != nil {
		return err
	}
	mtu := o.MTU
	if mtu == 0 {
		mtu = defaultMTU - ipipOverhead
	}
	d.link = s.addLink(o.Name, d, mtu, dataplane.MAC{})
	d.link.setUp(o.Up)
	return nil
}

// isDistinct refuses a tunnel with the same ends as another one.
func (d *ipipDevice) isDistinct(want dataplane.IPIP) error {
	for _, l := range d.stack.links {
		other, ok := l.device.(*ipipDevice)
		if ok && other != d && other.Local == want.Local && other.Remote == want.Remote && other.Parent == want.Parent {
			return fmt.Errorf("%s has these ends: %w", l.name, driver.ErrExists)
		}
	}
	return nil
}

// check implements [device].
func (d *ipipDevice) check(o dataplane.Link) error {
	want := o.Params.(dataplane.IPIP)
	switch {
	case !o.MAC.IsZero():
		return fmt.Errorf("an ipip link has no MAC: %w", driver.ErrUnsupported)
	case want.Parent != "" && d.stack.link(want.Parent) == nil:
		return fmt.Errorf("no link %q: %w", want.Parent, driver.ErrNotFound)
	}
	return d.isDistinct(want)
}

// change implements [device]. With a TTL of its own, the outer packet always has
// DF.
func (d *ipipDevice) change(params dataplane.LinkParams) {
	d.IPIP = params.(dataplane.IPIP)
	d.PMTUDisc = d.PMTUDisc || d.TTL != 0
}

// carryPacket puts an IPv4 packet into another one, to the tunnel's other end
// or, if it has many, to the packet's next hop. The outer packet has the inner
// one's TTL and DF.
func (d *ipipDevice) carryPacket(packet []byte, next netip.Addr, p *Probe) bool {
	l, s := d.link, d.stack
	inner, _, err := parseIP(packet)
	switch {
	case !l.up:
		s.drop(p, DropLinkDown, l.name)
		return true
	case err != nil || inner.family() != cidr.V4:
		s.drop(p, DropMalformed, "no IPv4 packet dev "+l.name)
		return true
	}
	outer := ipHeader{src: d.Local, dst: next, proto: protoIPIP, ttl: inner.ttl, df: inner.df || d.PMTUDisc}
	if d.Remote.IsValid() {
		outer.dst = d.Remote
	}
	if d.TTL != 0 {
		outer.ttl = d.TTL
	}
	if !outer.src.IsValid() {
		outer.src = s.sourceFor(outer.dst)
	}
	r := s.fibs[cidr.V4].lookup(outer.dst)
	switch {
	case !s.isLocal(outer.dst) && (r == nil || r.link == nil):
		s.drop(p, noRoute(r), "outer "+outer.dst.String())
		return true
	case !s.isLocal(outer.dst) && r.link == l:
		s.drop(p, DropLoop, fmt.Sprintf("outer %s dev %s", outer.dst, l.name))
		return true
	case !s.isLocal(outer.src):
		s.drop(p, DropBadSource, outer.src.String())
		return true
	}
	if fits := s.mtuTo(outer.dst, r) - ipipOverhead; inner.df && len(packet) > fits {
		why := fmt.Sprintf("%d bytes, the way to %s takes %d", len(packet), outer.dst, fits)
		s.refuse(DropTooBig, why, icmpMessage{kind: icmpTooBig, mtu: fits}, packet, p)
		return true
	}
	p.pass(s, "encap", fmt.Sprintf("%s to %s", l.name, outer.dst))
	s.send(outer, packet, p)
	return true
}

// deliverIPIP passes the packet inside another one to its tunnel: the one with
// these ends, or else one whose other end may be any host.
func (s *stack) deliverIPIP(outer ipHeader, packet []byte, p *Probe) {
	var open *link
	for _, l := range s.links {
		d, ok := l.device.(*ipipDevice)
		if !ok || !l.up || d.Local != outer.dst {
			continue
		}
		if d.Remote == outer.src {
			open = l
			break
		}
		if !d.Remote.IsValid() && open == nil {
			open = l
		}
	}
	if open == nil {
		s.refuse(DropNoListener, outer.dst.String(), icmpMessage{kind: icmpNoPort}, outer.packet(packet), p)
		return
	}
	p.pass(s, "decap", open.name)
	open.receiveIP(packet, p)
}
