package kernel

import (
	"net/netip"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/dataplane"
)

// Way is the kernel's answer about a packet (Linux RTM_GETROUTE).
type Way struct {
	Local bool // the destination is one of the host's addresses
	Link  string
	Via   netip.Addr // zero: the destination is on the link
	Src   netip.Addr // the address from which the host itself would send; zero: it has none
}

// Way returns the way of a packet, or the reason why the kernel drops it. The packet comes
// in by a link, or the host itself sends it if in is "". The source may be zero.
func (h *Host) Way(src, dst netip.Addr, in string) (Way, Drop) {
	s := h.stack
	from := s.link(in)
	switch {
	case from != nil && s.martian(from, src):
		return Way{}, DropMartian
	case from != nil && !s.passesReversePath(from, src):
		return Way{}, DropRPFilter
	case s.isLocal(dst):
		return Way{Local: true}, ""
	}
	r := s.fibs[cidr.FamilyOf(dst)].lookup(dst)
	if r == nil || r.link == nil {
		return Way{}, noRoute(r)
	}
	return Way{Link: r.link.name, Via: r.via, Src: s.sourceFor(dst)}, ""
}

// Neighbour returns the MAC of an address on a link, or the reason why the kernel does
// not find it.
func (h *Host) Neighbour(link string, ip netip.Addr) (dataplane.MAC, Drop) {
	l := h.stack.link(link)
	if l == nil {
		return dataplane.MAC{}, DropLinkDown
	}
	return l.resolve(ip)
}
