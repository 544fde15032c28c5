package config

import (
	"encoding/json"
	"fmt"
	"net/netip"

	"github.com/flanneld/flannel/core/cidr"
)

// written holds a config's values for the range of one family.
type written struct {
	family   cidr.Family
	network  netip.Prefix // as written, with host bits; invalid if absent
	length   *int
	min, max netip.Addr // invalid if absent
}

// Examples of a family's values, for errors.
var (
	networkExample = [2]string{`a CIDR such as "10.5.0.0/16"`, `a CIDR such as "fd00:10:5::/48"`}
	addrExample    = [2]string{`an IPv4 address such as "10.5.1.0"`, `an IPv6 address such as "fd00:10:5:1::"`}
)

// mapped holds the IPv4-mapped addresses of IPv6. Their spelling has dots, which
// the IPv6 part of a lease's key may not have (interop 3.2).
var mapped = netip.MustParsePrefix("::ffff:0:0/96")

// member returns the family's name of a member: SubnetLen is IPv6SubnetLen for IPv6.
func member(f cidr.Family, name string) string { return [2]string{"", "IPv6"}[f] + name }

func (d document) rangeOf(f cidr.Family) (written, error) {
	w := written{family: f}
	raw := [2][4]json.RawMessage{
		{d.Network, d.SubnetLen, d.SubnetMin, d.SubnetMax},
		{d.IPv6Network, d.IPv6SubnetLen, d.IPv6SubnetMin, d.IPv6SubnetMax},
	}[f]
	if !isNull(raw[0]) {
		name := member(f, "Network")
		var s string
		if err := decode(name, raw[0], &s, networkExample[f]); err != nil {
			return w, err
		}
		p, err := netip.ParsePrefix(s)
		if _, ok := cidr.ParseAddr(f, p.Addr().String()); err != nil || !ok {
			return w, fmt.Errorf("%s %q: want %s", name, s, networkExample[f])
		}
		w.network = p
	}
	if err := decode(member(f, "SubnetLen"), raw[1], &w.length, "a whole number"); err != nil {
		return w, err
	}
	for i, into := range []*netip.Addr{&w.min, &w.max} {
		if isNull(raw[2+i]) {
			continue
		}
		name := member(f, [2]string{"SubnetMin", "SubnetMax"}[i])
		var s string
		if err := decode(name, raw[2+i], &s, addrExample[f]); err != nil {
			return w, err
		}
		a, ok := cidr.ParseAddr(f, s)
		if !ok {
			return w, fmt.Errorf("%s %q: want %s", name, s, addrExample[f])
		}
		*into = a
	}
	return w, nil
}

// uncut checks the network alone.
func (w written) uncut() (Range, error) {
	f := w.family
	network := member(f, "Network")
	if !w.network.IsValid() {
		return Range{}, fmt.Errorf("%s is missing: want %s, or Enable%v false", network, networkExample[f], f)
	}
	r := Range{Network: w.network.Masked()}
	if r.Network.Addr().IsUnspecified() {
		return Range{}, fmt.Errorf("%s %q: begins at %v: want %s", network, w.network, r.Network.Addr(), networkExample[f])
	}
	if r.Network.Overlaps(mapped) {
		return Range{}, fmt.Errorf("%s %q: holds the IPv4-mapped addresses %v: want %s", network, w.network, mapped,
			networkExample[f])
	}
	return r, nil
}

// complete derives absent values and checks the others (interop 2.1, 2.2).
func (w written) complete() (Range, error) {
	r, err := w.uncut()
	if err != nil {
		return Range{}, err
	}
	f := w.family
	network := member(f, "Network")
	r.SubnetLen, err = w.subnetLen(r.Network)
	if err != nil {
		return Range{}, err
	}
	// By default no node gets the subnet at the Network's own base.
	r.Min = cidr.Subnet(r.Network.Addr(), cidr.From64(1), r.SubnetLen).Addr()
	r.Max = netip.PrefixFrom(cidr.Last(r.Network), r.SubnetLen).Masked().Addr()
	for _, bound := range []struct {
		name  string
		given netip.Addr
		into  *netip.Addr
	}{{member(f, "SubnetMin"), w.min, &r.Min}, {member(f, "SubnetMax"), w.max, &r.Max}} {
		if !bound.given.IsValid() {
			continue
		}
		if !r.Network.Contains(bound.given) {
			return Range{}, fmt.Errorf("%s %q: outside the %s %v", bound.name, bound.given, network, r.Network)
		}
		base := netip.PrefixFrom(bound.given, r.SubnetLen).Masked()
		if base.Addr() != bound.given {
			return Range{}, fmt.Errorf("%s %q: not on the boundary of a /%d subnet: want %q",
				bound.name, bound.given, r.SubnetLen, base.Addr())
		}
		*bound.into = bound.given
	}
	if r.Max.Less(r.Min) {
		return Range{}, fmt.Errorf("%s %q is above %s %q: no subnet lies between them",
			member(f, "SubnetMin"), r.Min, member(f, "SubnetMax"), r.Max)
	}
	return r, nil
}

// subnetLen returns the given length, or one that suits the network. A difference
// of at least two bits leaves four subnets, three of them usable by default.
func (w written) subnetLen(network netip.Prefix) (int, error) {
	const difference = 2
	least := network.Bits() + difference
	most := w.family.Bits() - difference
	usual := [2]int{24, 64}[w.family]
	name := member(w.family, "SubnetLen")
	switch {
	case least > most:
		return 0, fmt.Errorf("%s %q: too small to be cut into subnets: want a prefix length of at most %d",
			member(w.family, "Network"), network, most-difference)
	case w.length == nil:
		return max(usual, least), nil
	case *w.length < least || *w.length > most:
		return 0, fmt.Errorf("%s %d: does not fit the %s %v: want %d to %d",
			name, *w.length, member(w.family, "Network"), network, least, most)
	}
	return *w.length, nil
}
