package kernel

import (
	"slices"

	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/driver"
)

// ReuseIndex deletes a link and gives its index to a stranger's, which is up
// and leads nowhere: whoever remembers links by index takes one for the other.
func (h *Host) ReuseIndex(name, stranger string) error {
	s := h.stack
	return h.onLink(name, func(l *link) error {
		switch {
		case l.device == loopback || !validName(stranger):
			return driver.ErrInvalid
		case s.link(stranger) != nil:
			return driver.ErrExists
		}
		s.delLink(l)
		o := s.addLink(stranger, ethernet, 1500, dataplane.MAC{})
		o.index = l.index
		slices.SortFunc(s.links, func(a, b *link) int { return a.index - b.index })
		o.setUp(true)
		return nil
	}, "index given to %s", stranger)
}

// HasCarrier reports whether a link's cable is plugged in.
func (h *Host) HasCarrier(name string) bool {
	l := h.stack.link(name)
	return l != nil && l.carrier
}
