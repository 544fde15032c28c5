package harness

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func TestParseSubnetEnv(t *testing.T) {
	p := netip.MustParsePrefix
	for _, c := range []struct {
		name, text string
		want       SubnetEnv
		err        string // part of it; empty: none
	}{
		{"dual", "FLANNEL_NETWORK=10.5.0.0/16\nFLANNEL_SUBNET=10.5.72.1/24\nFLANNEL_IPV6_NETWORK=fd00::/48\n" +
			"FLANNEL_IPV6_SUBNET=fd00:0:0:7::1/64\nFLANNEL_MTU=1430\nFLANNEL_IPMASQ=true\n",
			SubnetEnv{Network: [2]netip.Prefix{p("10.5.0.0/16"), p("fd00::/48")},
				Subnet: [2]netip.Prefix{p("10.5.72.1/24"), p("fd00:0:0:7::1/64")}, MTU: 1430, IPMasq: true}, ""},
		{"empty", "", SubnetEnv{}, "the last line has no line end"},
		{"no subnet", "FLANNEL_MTU=1450\n", SubnetEnv{MTU: 1450}, "no subnet"},
		{"no MTU", "FLANNEL_SUBNET=10.5.72.1/24\n", SubnetEnv{Subnet: [2]netip.Prefix{p("10.5.72.1/24")}}, "no FLANNEL_MTU"},
		{"bad value", "FLANNEL_SUBNET=10.5.72.1\nFLANNEL_MTU=1450\n", SubnetEnv{MTU: 1450},
			`line "FLANNEL_SUBNET=10.5.72.1": netip.ParsePrefix`},
		{"twice", "FLANNEL_SUBNET=10.5.72.1/24\nFLANNEL_MTU=1450\nFLANNEL_MTU=1400\n",
			SubnetEnv{Subnet: [2]netip.Prefix{p("10.5.72.1/24")}, MTU: 1450},
			`line "FLANNEL_MTU=1400": unknown or repeated`},
		{"cut off", "FLANNEL_SUBNET=10.5.72.1/24\nFLANNEL_MTU=145",
			SubnetEnv{Subnet: [2]netip.Prefix{p("10.5.72.1/24")}, MTU: 145}, "the last line has no line end"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := parseSubnetEnv(c.text)
			if d := cmp.Diff(c.want, got, cmpopts.EquateComparable(netip.Prefix{})); d != "" {
				t.Errorf("(-want +got)\n%s", d)
			}
			if c.err == "" && err != nil || c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)) {
				t.Errorf("error %v, want one with %q", err, c.err)
			}
		})
	}
}
