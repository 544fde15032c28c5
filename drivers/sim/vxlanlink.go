package sim

import (
	"fmt"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/driver"
)

// defaultVXLANPort is the kernel's, from before IANA gave 4789.
const defaultVXLANPort = 8472

const (
	minMTU = 68
	maxMTU = 65535
	// defaultMTU is that of a vxlan link which nobody gave one, nor a parent.
	defaultMTU = 1500
	maxVNI     = 1<<24 - 1
)

// applyLink creates, adjusts or deletes a link of ours.
func (s *stack) applyLink(verb dataplane.Verb, o dataplane.Link) error {
	l := s.link(o.Name)
	switch verb {
	case dataplane.Create:
		if o.Type == dataplane.LinkTUN {
			return s.createTUN(o)
		}
		return s.createVXLAN(o)
	case dataplane.Replace:
		if l == nil {
			return driver.ErrNotFound
		}
		return s.adjustLink(l, o)
	}
	if l == nil {
		return driver.ErrNotFound
	}
	if l.kind == loopback {
		return fmt.Errorf("loopback cannot be deleted: %w", driver.ErrUnsupported)
	}
	s.delLink(l)
	return nil
}

// createVXLAN makes a vxlan link. The kernel gives it no more MTU than its
// parent can carry.
func (s *stack) createVXLAN(o dataplane.Link) error {
	if o.Type != dataplane.LinkVXLAN {
		return fmt.Errorf("type %q: %w", o.Type, driver.ErrUnsupported)
	}
	v := o.VXLAN
	if v.Port == 0 {
		v.Port = defaultVXLANPort
	}
	switch {
	case v.Parent != "" && s.link(v.Parent) == nil: // the driver has to look it up first
		return fmt.Errorf("no link %q: %w", v.Parent, driver.ErrNotFound)
	case !validName(o.Name):
		return fmt.Errorf("name: %w", driver.ErrInvalid)
	case v.VNI > maxVNI || o.MTU > maxMTU || o.MTU != 0 && o.MTU < minMTU:
		return fmt.Errorf("VNI or MTU out of range: %w", driver.ErrInvalid)
	case !o.MAC.IsZero() && !validMAC(o.MAC):
		return fmt.Errorf("not a unicast MAC: %w", driver.ErrInvalid)
	case s.link(o.Name) != nil:
		return driver.ErrExists
	}
	probe := &link{stack: s, kind: vxlan, vxlan: v, outer: outerFamily(v)}
	if err := probe.parentSpeaks(v.Parent); err != nil {
		return err
	}
	for _, other := range s.links {
		if other.kind == vxlan && other.vxlan.VNI == v.VNI && other.vxlan.Port == v.Port &&
			other.vxlan.GBP == v.GBP && other.outer == probe.outer {
			return fmt.Errorf("%s has this VNI and port: %w", other.name, driver.ErrExists)
		}
	}
	if o.Up {
		if err := s.listenVXLAN(probe); err != nil {
			return err
		}
	}
	mtu := o.MTU
	switch limit := max(minMTU, probe.mtuLimit()); {
	case mtu == 0 && v.Parent == "":
		mtu = defaultMTU
	case mtu == 0 || mtu > limit:
		mtu = limit
	}
	l := s.addLink(o.Name, vxlan, mtu, o.MAC)
	l.vxlan, l.outer = v, probe.outer
	l.setUp(o.Up)
	return nil
}

// outerFamily is that of a vxlan link's packets.
func outerFamily(v dataplane.VXLAN) cidr.Family {
	if v.Local.IsValid() {
		return cidr.FamilyOf(v.Local)
	}
	return cidr.V4
}

// mtuLimit is the most a vxlan link may have: what its parent can carry.
func (l *link) mtuLimit() int {
	if parent := l.stack.link(l.vxlan.Parent); parent != nil {
		return parent.mtu - l.overhead()
	}
	return maxMTU
}

// takesMTU reports whether the link can have an MTU.
func (l *link) takesMTU(mtu int) bool {
	return mtu == l.mtu || mtu >= minMTU && mtu <= maxMTU && (l.kind != vxlan || mtu <= l.mtuLimit())
}

// listenVXLAN checks whether a vxlan link that comes up can have its socket:
// links share one, and must agree on what they expect there.
func (s *stack) listenVXLAN(l *link) error {
	for _, other := range s.links {
		if other != l && other.kind == vxlan && other.up && other.vxlan.Port == l.vxlan.Port &&
			other.outer == l.outer && other.vxlan.GBP != l.vxlan.GBP {
			return fmt.Errorf("port %d is taken by %s: %w", l.vxlan.Port, other.name, driver.ErrBusy)
		}
	}
	if s.vxlanAt(l.vxlan.Port, l.outer) == nil && s.boundAt(l.vxlan.Port, l.outer) {
		return fmt.Errorf("port %d is taken by a process: %w", l.vxlan.Port, driver.ErrBusy)
	}
	return nil
}

// adjustLink changes what can be changed of a link.
func (s *stack) adjustLink(l *link, o dataplane.Link) error {
	if l.kind.infoKind() != o.Type {
		return fmt.Errorf("link is of type %q: %w", l.kind.infoKind(), driver.ErrUnsupported)
	}
	if err := s.checkAdjust(l, o); err != nil {
		return err
	}
	if l.kind == vxlan {
		l.retarget(o.VXLAN)
	}
	if !o.MAC.IsZero() && o.MAC != l.mac {
		l.setMAC(o.MAC)
	}
	if o.MTU != 0 && o.MTU != l.mtu {
		if !l.takesMTU(o.MTU) { // the kernel notices when the rest is done
			return fmt.Errorf("MTU %d is out of range: %w", o.MTU, driver.ErrInvalid)
		}
		l.setMTU(o.MTU)
	}
	if o.Up && !l.up && l.kind == vxlan {
		if err := s.listenVXLAN(l); err != nil {
			return err
		}
	}
	l.setUp(o.Up)
	return nil
}

// retarget changes the parameters of a vxlan link that can change. A new parent
// shrinks its MTU to what it can carry, of which not even IPv6 is told.
func (l *link) retarget(v dataplane.VXLAN) {
	moved := l.vxlan.Parent != v.Parent
	l.vxlan = v
	if moved {
		l.mtu = min(l.mtu, max(minMTU, l.mtuLimit()))
	}
}

// checkAdjust says what the kernel has against a change, before any is made.
func (s *stack) checkAdjust(l *link, o dataplane.Link) error {
	switch {
	case !o.MAC.IsZero() && !validMAC(o.MAC):
		return fmt.Errorf("not a unicast MAC: %w", driver.ErrInvalid)
	case !o.MAC.IsZero() && l.kind == tun:
		return fmt.Errorf("a tun link has no MAC: %w", driver.ErrUnsupported)
	}
	if l.kind != vxlan {
		return nil
	}
	have, want := l.vxlan, o.VXLAN
	switch {
	case have.VNI != want.VNI || have.Port != want.Port || have.GBP != want.GBP:
		return fmt.Errorf("VNI, port and GBP cannot be changed: %w", driver.ErrUnsupported)
	case have.Parent != "" && want.Parent == "":
		return fmt.Errorf("parent cannot be taken away: %w", driver.ErrUnsupported)
	case want.Parent != "" && s.link(want.Parent) == nil:
		return fmt.Errorf("no link %q: %w", want.Parent, driver.ErrNotFound)
	case want.Local.IsValid() && cidr.FamilyOf(want.Local) != l.outer:
		return fmt.Errorf("local address of another family: %w", driver.ErrUnsupported)
	case have != want:
		return l.parentSpeaks(want.Parent)
	}
	return nil
}

// parentSpeaks refuses a parent on which the family of the outer packets is
// switched off.
func (l *link) parentSpeaks(name string) error {
	if parent := l.stack.link(name); parent != nil && l.outer == cidr.V6 && parent.disabled6() {
		return fmt.Errorf("IPv6 is disabled on link %s: %w", name, driver.ErrDenied)
	}
	return nil
}
