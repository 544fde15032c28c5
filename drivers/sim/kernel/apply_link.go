package kernel

import (
	"fmt"
	"strings"

	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/driver"
)

const (
	minMTU = 68
	maxMTU = 65535
	// defaultMTU is the MTU of a new link without a wanted MTU and without a
	// parent.
	defaultMTU = 1500
)

// applyLink creates, adjusts or deletes a link.
func (s *stack) applyLink(verb dataplane.Verb, o dataplane.Link) error {
	if verb == dataplane.Create {
		return s.createDevice(o)
	}
	if o.Was != "" && verb == dataplane.Replace {
		if err := s.renameLink(o.Was, o.Name); err != nil {
			return err
		}
	}
	l := s.link(o.Name)
	switch {
	case l == nil:
		return driver.ErrNotFound
	case verb == dataplane.Replace:
		return s.adjustLink(l, o)
	case l.device == loopback:
		return fmt.Errorf("loopback cannot be deleted: %w", driver.ErrUnsupported)
	}
	s.delLink(l)
	return nil
}

// renameLink gives a link another name, and takes along its settings. All else on the link knows
// it by its index.
func (s *stack) renameLink(from, to string) error {
	l := s.link(from)
	switch {
	case l == nil:
		return driver.ErrNotFound
	case !validName(to):
		return fmt.Errorf("name: %w", driver.ErrInvalid)
	case s.link(to) != nil:
		return driver.ErrExists
	}
	l.name = to
	if l.queue != nil {
		l.queue.renamed(from)
	}
	for path, value := range s.sysctls {
		if now := strings.Replace(path, "/"+from+"/", "/"+to+"/", 1); now != path {
			delete(s.sysctls, path)
			s.sysctls[now] = value
		}
	}
	return nil
}

// adjustLink changes the adjustable parameters of a link.
func (s *stack) adjustLink(l *link, o dataplane.Link) error {
	have := dataplane.Link{Params: l.device.params()}
	if have.Kind() != o.Kind() {
		return fmt.Errorf("link is of type %q: %w", have.Kind(), driver.ErrUnsupported)
	}
	if !o.MAC.IsZero() && !validMAC(o.MAC) {
		return fmt.Errorf("not a unicast MAC: %w", driver.ErrInvalid)
	}
	if err := have.Become(o); err != nil {
		return fmt.Errorf("%w: %w", err, driver.ErrUnsupported)
	}
	if err := l.device.check(o); err != nil {
		return err
	}
	l.device.change(o.Params)
	l.master, l.held = "", false
	if !o.MAC.IsZero() && o.MAC != l.mac {
		l.setMAC(o.MAC)
	}
	if o.MTU != 0 && o.MTU != l.mtu {
		if !l.takesMTU(o.MTU) { // the kernel checks this after the other changes
			return fmt.Errorf("MTU %d is out of range: %w", o.MTU, driver.ErrInvalid)
		}
		l.setMTU(o.MTU)
	}
	if o.Up {
		if err := l.mayComeUp(); err != nil {
			return err
		}
	}
	l.setUp(o.Up)
	return nil
}

// takesMTU reports whether the link can have an MTU.
func (l *link) takesMTU(mtu int) bool {
	return mtu == l.mtu || mtu >= minMTU && mtu <= l.device.mtuLimit()
}

// mayComeUp returns the kernel's objection to setting the link up, nil if it is
// up.
func (l *link) mayComeUp() error {
	if l.up {
		return nil
	}
	return l.device.mayComeUp()
}
