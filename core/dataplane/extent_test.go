package dataplane

import (
	"net/netip"
	"testing"
)

func TestExtent(t *testing.T) {
	e := Extent{Networks: []netip.Prefix{netip.MustParsePrefix("10.5.0.0/16"), netip.MustParsePrefix("fd00:5::/48")}}
	for _, text := range []string{"192.168.64.4", "192.168.64.9", "192.168.70.1", "fd00:a::4"} {
		e.Reach = append(e.Reach, netip.MustParseAddr(text))
	}
	for _, c := range []struct {
		dst         string
		in, reaches bool
	}{
		{"0.0.0.0/0", false, true},
		{"::/0", false, true},
		{"10.5.0.0/16", true, false},
		{"10.5.3.0/24", true, false},
		{"10.0.0.0/8", false, false},
		{"fd00:5:0:1::/64", true, false},
		{"192.168.64.0/24", false, true},
		{"192.168.64.4/32", false, true},
		{"192.168.64.8/29", false, true},
		{"192.168.64.5/32", false, false},
		{"192.168.64.16/28", false, false},
		{"192.168.0.0/16", false, true},
		{"192.168.71.0/24", false, false},
		{"fd00:a::/64", false, true},
		{"fd00:b::/64", false, false},
	} {
		dst := netip.MustParsePrefix(c.dst)
		if e.InNetworks(dst) != c.in || e.Reaches(dst) != c.reaches {
			t.Errorf("%s: in networks %t, reaches %t; want %t, %t", dst, e.InNetworks(dst), e.Reaches(dst), c.in, c.reaches)
		}
	}
	if (Extent{}).Reaches(netip.MustParsePrefix("10.0.0.0/8")) {
		t.Error("an extent that asks for no address asks for a route")
	}
}
