package kernel

import (
	"slices"

	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/driver"
)

// ReuseIndex deletes a link and gives its index to a foreign link, which is up
// and leads nowhere: a program that remembers links by index confuses the two.
func (h *Host) ReuseIndex(name, foreign string) error {
	s := h.stack
	return h.onLink(name, func(l *link) error {
		switch {
		case l.device == loopback || !validName(foreign):
			return driver.ErrInvalid
		case s.link(foreign) != nil:
			return driver.ErrExists
		}
		s.delLink(l)
		o := s.addLink(foreign, ethernet, 1500, dataplane.MAC{})
		o.index = l.index
		slices.SortFunc(s.links, func(a, b *link) int { return a.index - b.index })
		o.setUp(true)
		return nil
	}, "index given to %s", foreign)
}

// HasCarrier reports whether a link's cable is plugged in.
func (h *Host) HasCarrier(name string) bool {
	l := h.stack.link(name)
	return l != nil && l.carrier
}
