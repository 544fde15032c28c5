package subnetfile

import (
	"bytes"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/config"
	"github.com/flanneld/flannel/core/lease"
)

// The names of a family's lines.
var (
	networkName = [2]string{cidr.V4: "FLANNEL_NETWORK", cidr.V6: "FLANNEL_IPV6_NETWORK"}
	subnetName  = [2]string{cidr.V4: "FLANNEL_SUBNET", cidr.V6: "FLANNEL_IPV6_SUBNET"}
)

// File is the content of a subnet file.
type File struct {
	Network config.Network // only the two Network prefixes count
	Subnet  lease.Key
	MTU     int // bytes
	IPMasq  bool
}

// Format returns the file's text. It writes the subnet as the address that a
// bridge on this host takes, the one after the base.
func (f File) Format() []byte {
	var b bytes.Buffer
	for _, family := range cidr.Families {
		network, subnet := f.Network.Of(family), f.Subnet.Of(family)
		if !network.Enabled() || !subnet.IsValid() {
			continue
		}
		fmt.Fprintf(&b, "%s=%v\n", networkName[family], network.Network)
		fmt.Fprintf(&b, "%s=%v/%d\n", subnetName[family], subnet.Addr().Next(), subnet.Bits())
	}
	fmt.Fprintf(&b, "FLANNEL_MTU=%d\nFLANNEL_IPMASQ=%t\n", f.MTU, f.IPMasq)
	return b.Bytes()
}

// Previous returns the subnet that a former run wrote into its file. A family
// whose value is missing, malformed or a list has no previous subnet; without
// any, the key is invalid. Previous never fails: the file is a hint.
func Previous(text []byte) lease.Key {
	var subnets [2]netip.Prefix
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		for _, f := range cidr.Families {
			if name == subnetName[f] {
				subnets[f] = parse(f, value)
			}
		}
	}
	return lease.Key{V4: subnets[cidr.V4], V6: subnets[cidr.V6]}
}

// Networks returns the networks that a file names, IPv4 first. It skips values that
// are not prefixes.
func Networks(text []byte) []netip.Prefix {
	var networks [2][]netip.Prefix
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		for _, f := range cidr.Families {
			if name == networkName[f] {
				networks[f] = append(networks[f], parseList(f, value)...)
			}
		}
	}
	return slices.Concat(networks[:]...)
}

// parseList returns the prefixes of one family in a list with commas.
func parseList(f cidr.Family, list string) []netip.Prefix {
	var prefixes []netip.Prefix
	for entry := range strings.SplitSeq(list, ",") {
		if p := parse(f, entry); p.IsValid() {
			prefixes = append(prefixes, p)
		}
	}
	return prefixes
}

// parse returns the subnet of a value, or an invalid one if no lease can have it.
func parse(f cidr.Family, value string) netip.Prefix {
	p, err := netip.ParsePrefix(value)
	p = p.Masked()
	if err != nil || cidr.FamilyOf(p.Addr()) != f || p.Addr().Is4In6() || p.Bits() == 0 || p.Bits() == f.Bits() {
		return netip.Prefix{}
	}
	return p
}
