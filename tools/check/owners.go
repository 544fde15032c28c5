package check

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/node"
)

// holding is a public address with the subnets of one family that its records hold.
type holding struct {
	owner   netip.Addr
	family  cidr.Family
	subnets []netip.Prefix
}

// owners judges whether a host holds more than one lease in one family. A reservation is none.
func (f *Facts) owners() []Finding {
	if f.Status == nil {
		return nil
	}
	own := node.Peer{
		Subnet:   f.Status.Subnet,
		PublicIP: f.Status.Uplink.Public(cidr.V4), PublicIP6: f.Status.Uplink.Public(cidr.V6),
	}
	var all []holding
	for _, p := range append(slices.Clone(f.Peers), own) {
		if p.Reserved || p.Lost {
			continue
		}
		owner := p.PublicIP
		if !owner.IsValid() || owner.IsUnspecified() {
			owner = p.PublicIP6
		}
		for _, family := range cidr.Families {
			subnet := p.Subnet.Of(family)
			if !owner.IsValid() || !subnet.IsValid() {
				continue
			}
			i := slices.IndexFunc(all, func(h holding) bool { return h.owner == owner && h.family == family })
			if i < 0 {
				i = len(all)
				all = append(all, holding{owner: owner, family: family})
			}
			all[i].subnets = append(all[i].subnets, subnet)
		}
	}
	var found []Finding
	for _, h := range all {
		if len(h.subnets) > 1 {
			found = append(found, f.holdingFinding(h))
		}
	}
	return found
}

// mostSubnets bounds the subnets that a finding names.
const mostSubnets = 8

func (f *Facts) holdingFinding(h holding) Finding {
	slices.SortFunc(h.subnets, netip.Prefix.Compare)
	var names []string
	for _, s := range h.subnets[:min(len(h.subnets), mostSubnets)] {
		names = append(names, s.String())
	}
	if more := len(h.subnets) - len(names); more > 0 {
		names = append(names, fmt.Sprintf("%d more", more))
	}
	text := fmt.Sprintf("%s holds %d %v subnets (%s), and a host uses one: ", h.owner, len(h.subnets), h.family,
		strings.Join(names, ", "))
	if f.Assigned {
		return Finding{Level: Warning, Topic: "leases", Remedy: "kubectl get nodes -o wide",
			Text: text + "node objects with these subnets name one address; delete the object of the node that has gone, " +
				"or correct the address of the other"}
	}
	return Finding{Level: Warning, Topic: "leases",
		Remedy: fmt.Sprintf("flannelctl leases release SUBNET --owner %s", h.owner),
		Text: text + "release those that are not in " + f.SubnetFile.Path + " of that host, or let them expire; if " +
			"they come again, find out who writes them"}
}
