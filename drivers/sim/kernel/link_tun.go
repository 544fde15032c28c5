package kernel

import (
	"fmt"
	"net/netip"
	"time"

	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/driver"
)

// readTime is how long a process takes to notice a packet on a TUN device or a
// socket.
const readTime = 20 * time.Microsecond

// tunDevice implements [device] for [dataplane.TUN].
type tunDevice struct {
	plainDevice
	link *link
}

func (*tunDevice) params() dataplane.LinkParams { return dataplane.TUN{} }

func (*tunDevice) check(want dataplane.Link) error {
	if !want.MAC.IsZero() {
		return fmt.Errorf("a tun link has no MAC: %w", driver.ErrUnsupported)
	}
	return nil
}

func (*tunDevice) hasMAC() bool { return false }

func (d *tunDevice) carryPacket(packet []byte, _ netip.Addr, p *Probe) bool {
	d.link.enqueue(packet, p)
	return true
}

// createTUN makes a TUN device that stays when no process has it open. Until a
// process opens it, the device has no carrier and drops what is sent into it.
func (s *stack) createTUN(o dataplane.Link) error {
	mtu := o.MTU
	if mtu == 0 {
		mtu = defaultMTU
	}
	switch {
	case !validName(o.Name) || mtu < minMTU || mtu > maxMTU:
		return fmt.Errorf("name or MTU: %w", driver.ErrInvalid)
	case !o.MAC.IsZero():
		return fmt.Errorf("a tun link has no MAC: %w", driver.ErrUnsupported)
	case s.link(o.Name) != nil:
		return driver.ErrExists
	}
	if err := s.canOpenTUN(); err != nil {
		return err
	}
	d := &tunDevice{plainDevice: plainDevice(dataplane.LinkTUN)}
	d.link = s.addLink(o.Name, d, mtu, dataplane.MAC{})
	d.link.carrier = false
	d.link.setUp(o.Up)
	return nil
}

// HideTUN takes /dev/net/tun from the host's programs, or gives it back. A device that a
// program has open stays open.
func (h *Host) HideTUN(on bool) { h.stack.noTUN = on }

// canOpenTUN returns the error of a program that opens /dev/net/tun.
func (s *stack) canOpenTUN() error {
	if s.noTUN {
		return fmt.Errorf("open /dev/net/tun: no such file: %w: give the container this device", driver.ErrUnsupported)
	}
	return nil
}

// open gives the device's queue to a process.
func (l *link) open(x *path) {
	l.queue = x
	l.setCarrier(true)
}

// shut takes the queue back. The device loses its carrier and nothing else:
// addresses and routes stay.
func (l *link) shut() {
	l.queue = nil
	l.setCarrier(false)
}

// enqueue passes a packet to the process that has the device open.
func (l *link) enqueue(packet []byte, p *Probe) {
	s := l.stack
	switch {
	case !l.up:
		s.drop(p, DropLinkDown, l.name)
	case l.queue == nil || !l.carrier:
		s.drop(p, DropNoCarrier, l.name)
	default:
		l.queue.read("packet from "+l.name, p, func(x *path) { x.fromKernel(packet, p) })
	}
}
