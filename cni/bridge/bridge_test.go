package bridge

import (
	"net/netip"
	"testing"
)

func TestIsFormer(t *testing.T) {
	present := []netip.Prefix{netip.MustParsePrefix("10.5.7.1/24")}
	for text, want := range map[string]bool{
		"10.5.3.1/24":    true,  // the gateway of another subnet
		"10.6.0.1/16":    true,  // of another network
		"10.5.7.1/24":    false, // the present one
		"10.5.7.9/24":    false,
		"10.5.3.9/24":    false, // no gateway: another program's
		"169.254.0.1/16": false,
		"fd00:3::1/64":   false, // a family that the node does not have
		"fe80::1/64":     false,
	} {
		if got := isFormer(netip.MustParsePrefix(text), present); got != want {
			t.Errorf("%s is of a former subnet: %t, want %t", text, got, want)
		}
	}
	dual := append(present, netip.MustParsePrefix("fd00:7::1/64"))
	if !isFormer(netip.MustParsePrefix("fd00:3::1/64"), dual) {
		t.Error("the IPv6 gateway of a former subnet is not seen")
	}
}
