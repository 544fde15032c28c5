package networks

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/flanneld/flannel/core/backend"
	"github.com/flanneld/flannel/core/backend/all"
	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/config"
)

// claim names the parts of a host that a network takes for itself.
type claim struct {
	prefixes []netip.Prefix // of the overlay
	devices  []string
	ports    []backend.UDPPort
}

// claimOf returns the claim of a network config. It fails for a config that no node
// can use.
func claimOf(data []byte) (claim, error) {
	network, err := config.Parse(data)
	if err != nil {
		return claim{}, err
	}
	return claimFor(network)
}

// claimFor returns the claim of a network with this config.
func claimFor(network config.Network) (claim, error) {
	made, err := all.New(network)
	if err != nil {
		return claim{}, err
	}
	spec, _ := all.Find(made.Type())
	c := claim{devices: made.Extent().Links, ports: spec.Ports(network)}
	for _, f := range cidr.Families {
		if p := network.Of(f).Network; network.Of(f).Enabled() {
			c.prefixes = append(c.prefixes, p)
		}
	}
	return c, nil
}

// against returns why one host cannot have both claims, or "" if it can.
func (c claim) against(o claim) string {
	for _, p := range c.prefixes {
		for _, q := range o.prefixes {
			if p.Overlaps(q) {
				return fmt.Sprintf("its addresses %s overlap with %s", p, q)
			}
		}
	}
	for _, name := range c.devices {
		if slices.Contains(o.devices, name) {
			return fmt.Sprintf("both need a device %s", name)
		}
	}
	if port := backend.Exclude(c.ports, o.ports); port != 0 {
		return fmt.Sprintf("both listen at UDP port %d", port)
	}
	return ""
}
