package kernel

import (
	"fmt"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/driver"
)

// defaultVXLANPort is the kernel's default, older than IANA's 4789.
const defaultVXLANPort = 8472

const maxVNI = 1<<24 - 1

// vxlanDevice implements [device] for [dataplane.VXLAN].
type vxlanDevice struct {
	plainDevice
	dataplane.VXLAN
	stack *stack
	link  *link       // nil until the kernel has accepted the device
	outer cidr.Family // of the packets on the wire, even when the local address changes
	ttl   uint8       // of the outer packets; 0: the host's
}

func (v *vxlanDevice) params() dataplane.LinkParams { return v.VXLAN }

func (v *vxlanDevice) parent() string { return v.Parent }

func (v *vxlanDevice) asksNeighbours() bool { return false }

func (v *vxlanDevice) carryFrame(frame []byte, p *Probe) bool {
	v.encapsulate(frame, p)
	return true
}

// createVXLAN makes a vxlan link. The kernel limits its MTU to what the parent
// can carry.
func (s *stack) createVXLAN(o dataplane.Link, want dataplane.VXLAN) error {
	if want.Port == 0 {
		want.Port = defaultVXLANPort
	}
	switch {
	case want.Parent != "" && s.link(want.Parent) == nil: // the driver has to find its index first
		return fmt.Errorf("no link %q: %w", want.Parent, driver.ErrNotFound)
	case !validName(o.Name):
		return fmt.Errorf("name: %w", driver.ErrInvalid)
	case want.VNI > maxVNI || o.MTU > maxMTU || o.MTU != 0 && o.MTU < minMTU:
		return fmt.Errorf("VNI or MTU out of range: %w", driver.ErrInvalid)
	case !o.MAC.IsZero() && !validMAC(o.MAC):
		return fmt.Errorf("not a unicast MAC: %w", driver.ErrInvalid)
	case s.link(o.Name) != nil:
		return driver.ErrExists
	}
	v := &vxlanDevice{plainDevice: plainDevice(dataplane.LinkVXLAN), VXLAN: want, stack: s, outer: outerFamily(want)}
	if err := v.parentSpeaks(want.Parent); err != nil {
		return err
	}
	if err := v.isDistinct(); err != nil {
		return err
	}
	if o.Up {
		if err := v.mayComeUp(); err != nil {
			return err
		}
	}
	v.link = s.addLink(o.Name, v, v.firstMTU(o.MTU), o.MAC)
	v.link.setUp(o.Up)
	return nil
}

// isDistinct refuses a device that the kernel cannot distinguish from another
// one.
func (v *vxlanDevice) isDistinct() error {
	for _, l := range v.stack.links {
		other, ok := l.device.(*vxlanDevice)
		if ok && other.VNI == v.VNI && other.Port == v.Port && other.GBP == v.GBP && other.outer == v.outer {
			return fmt.Errorf("%s has this VNI and port: %w", l.name, driver.ErrExists)
		}
	}
	return nil
}

// firstMTU returns the MTU of a new device: the one wanted, if the parent can
// carry it, else the largest that the parent can carry.
func (v *vxlanDevice) firstMTU(want int) int {
	limit := max(minMTU, v.mtuLimit())
	switch {
	case want == 0 && v.Parent == "":
		return defaultMTU
	case want == 0 || want > limit:
		return limit
	}
	return want
}

// outerFamily returns the family of a vxlan link's packets on the wire.
func outerFamily(v dataplane.VXLAN) cidr.Family {
	if v.Local.IsValid() {
		return cidr.FamilyOf(v.Local)
	}
	return cidr.V4
}

func (v *vxlanDevice) mtuLimit() int {
	if parent := v.stack.link(v.Parent); parent != nil {
		return parent.mtu - v.overhead()
	}
	return maxMTU
}

// overhead returns the bytes that encapsulation adds to a packet: the inner
// Ethernet header, VXLAN, UDP and the outer header.
func (v *vxlanDevice) overhead() int {
	return 14 + 8 + 8 + [...]int{20, 40}[v.outer]
}

// mayComeUp checks whether the link can have its socket. Links share one, and
// must agree on what they expect there.
func (v *vxlanDevice) mayComeUp() error {
	s := v.stack
	for _, l := range s.links {
		other, ok := l.device.(*vxlanDevice)
		if ok && other != v && l.up && other.Port == v.Port && other.outer == v.outer && other.GBP != v.GBP {
			return fmt.Errorf("port %d is taken by %s: %w", v.Port, l.name, driver.ErrBusy)
		}
	}
	if s.vxlanAt(v.Port, v.outer) == nil && s.boundAt(v.Port, v.outer) {
		return fmt.Errorf("port %d is taken by a process: %w", v.Port, driver.ErrBusy)
	}
	return nil
}

// check implements [device].
func (v *vxlanDevice) check(o dataplane.Link) error {
	want := o.Params.(dataplane.VXLAN)
	switch {
	case want.Parent != "" && v.stack.link(want.Parent) == nil:
		return fmt.Errorf("no link %q: %w", want.Parent, driver.ErrNotFound)
	case want.Local.IsValid() && cidr.FamilyOf(want.Local) != v.outer:
		return fmt.Errorf("local address of another family: %w", driver.ErrUnsupported)
	case v.VXLAN != want:
		return v.parentSpeaks(want.Parent)
	}
	return nil
}

// change implements [device]. A new parent shrinks the link's MTU to what it can
// carry, and the kernel does not tell IPv6.
func (v *vxlanDevice) change(params dataplane.LinkParams) {
	want := params.(dataplane.VXLAN)
	moved := v.Parent != want.Parent
	v.VXLAN, v.ttl = want, 0
	if moved {
		v.link.mtu = min(v.link.mtu, max(minMTU, v.mtuLimit()))
	}
}

// parentSpeaks refuses a parent on which the family of the outer packets is
// switched off.
func (v *vxlanDevice) parentSpeaks(name string) error {
	if parent := v.stack.link(name); parent != nil && v.outer == cidr.V6 && parent.disabled6() {
		return fmt.Errorf("IPv6 is disabled on link %s: %w", name, driver.ErrDenied)
	}
	return nil
}
