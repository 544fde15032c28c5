package reconcile

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestChains(t *testing.T) {
	const (
		forward = "chain iptables ipv4 forward jump placed { from 10.5.0.0/16 accept; to 10.5.0.0/16 accept }\n"
		masq    = "chain iptables ipv4 postrouting jump placed { from 10.5.0.0/16 masquerade }\n"
		nft     = "chain nftables ipv4 forward jump placed { from 10.5.0.0/16 accept; to 10.5.0.0/16 accept }\n"
		six     = "chain iptables ipv6 forward jump placed { from fd00::/48 accept }\n"
	)
	for _, c := range []struct{ name, want, have, ops string }{
		{"equal", forward + masq, forward + masq, ""},
		{"from nothing", forward + masq, "", "replace " + forward + "replace " + masq},
		{"another order", forward, strings.Replace(forward, "from 10.5.0.0/16 accept; to 10.5.0.0/16 accept",
			"to 10.5.0.0/16 accept; from 10.5.0.0/16 accept", 1), "replace " + forward},
		{"a duplicate", forward, strings.Replace(forward, "{ ", "{ from 10.5.0.0/16 accept; ", 1), "replace " + forward},
		{"a stray rule", forward, strings.Replace(forward, "}", "} other \"-p tcp -j DROP\"", 1), "replace " + forward},
		{"a moved jump", forward, strings.Replace(forward, "placed", "moved", 1), "replace " + forward},
		{"no longer wanted", masq, forward + masq, "del " + forward},
		{"another flavour: the new chain first", nft, forward, "replace " + nft},
		{"another flavour: the old chain goes when the new one is seen", nft, nft + forward, "del " + forward},
		{"one family does not wait for the other", nft + six, nft + forward, "replace " + six + "del " + forward},
	} {
		t.Run(c.name, func(t *testing.T) {
			if d := cmp.Diff(c.ops, opsText(Chains(parse(t, c.want), parse(t, c.have)))); d != "" {
				t.Errorf("plan (-want +got):\n%s", d)
			}
		})
	}
}
