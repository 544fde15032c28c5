package lease

import (
	"fmt"
	"net/netip"
	"regexp"
	"strconv"
	"strings"
)

// subnetKey is the grammar of interop 3.2. It is anchored at the end only, so
// any leading path is fine.
var subnetKey = regexp.MustCompile(`(\d+\.\d+\.\d+\.\d+)-(\d+)(?:&([0-9a-f:]+)-(\d+))?$`)

// none4 stands for the missing IPv4 part of an IPv6-only key (interop 3.2).
var none4 = netip.PrefixFrom(netip.IPv4Unspecified(), 0)

// String returns the key as the store spells it: "10.5.34.0-24", with IPv6
// "10.5.34.0-24&fd00:10:5:1::-64", IPv6 only "0.0.0.0-0&fd00:10:5:1::-64".
func (k Key) String() string { return string(k.appendTo(nil)) }

func (k Key) appendTo(b []byte) []byte {
	v4 := k.V4
	if !v4.IsValid() {
		v4 = none4
	}
	b = appendSubnet(b, v4)
	if k.V6.IsValid() {
		b = append(b, '&')
		b = appendSubnet(b, k.V6)
	}
	return b
}

func appendSubnet(b []byte, p netip.Prefix) []byte {
	b = p.Addr().AppendTo(b)
	b = append(b, '-')
	return strconv.AppendInt(b, int64(p.Bits()), 10)
}

// Compare orders keys by their texts.
func (k Key) Compare(o Key) int { return strings.Compare(k.String(), o.String()) }

// ParseKey reads the last element of a store's key. It clears the bits beyond
// the prefix length, so String may return another text for a key that another
// program wrote.
func ParseKey(s string) (Key, error) {
	m := subnetKey.FindStringSubmatch(s)
	if m == nil {
		return Key{}, fmt.Errorf("key %q: not a subnet (want A.B.C.D-L or A.B.C.D-L&v6-L)", s)
	}
	var k Key
	v4, err := parsePrefix(m[1], m[2], 31)
	if err != nil {
		return Key{}, fmt.Errorf("key %q: %w", s, err)
	}
	if m[3] != "" {
		k.V6, err = parsePrefix(m[3], m[4], 127)
		if err != nil {
			return Key{}, fmt.Errorf("key %q: %w", s, err)
		}
	}
	if v4 != none4 {
		k.V4 = v4
	} else if !k.V6.IsValid() {
		return Key{}, fmt.Errorf("key %q: the whole IPv4 space is no subnet", s)
	}
	return k, nil
}

func parsePrefix(addr, bits string, most int) (netip.Prefix, error) {
	a, err := netip.ParseAddr(addr)
	if err != nil {
		return netip.Prefix{}, err
	}
	n, err := strconv.Atoi(bits)
	if err != nil || n > most {
		return netip.Prefix{}, fmt.Errorf("prefix length %s is above %d", bits, most)
	}
	p := netip.PrefixFrom(a, n).Masked()
	if p.Addr().Is4In6() {
		return netip.Prefix{}, fmt.Errorf("%s is an IPv4-mapped address", addr)
	}
	return p, nil
}
