package backend

import (
	"net/netip"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/config"
	"github.com/flanneld/flannel/core/lease"
)

// Reacher is a Backend for which the underlay's routes to its peers matter.
type Reacher interface {
	// Reach returns the peers' addresses whose routes the backend has to know, in
	// any order. Render finds these routes among the facts.
	Reach(config.Network, []*lease.Lease) []netip.Addr
}

// PublicAddrs returns the peers' public addresses in the families of a network.
func PublicAddrs(network config.Network, peers []*lease.Lease) []netip.Addr {
	addrs := make([]netip.Addr, 0, len(peers))
	for _, f := range cidr.Families {
		if !network.Of(f).Enabled() {
			continue
		}
		for _, p := range peers {
			if ip := p.Attrs.IP(f); ip.IsValid() {
				addrs = append(addrs, ip)
			}
		}
	}
	return addrs
}
