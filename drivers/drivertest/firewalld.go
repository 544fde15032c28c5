package drivertest

import (
	"fmt"
	"strings"
)

// FirewalldZones returns a ruleset for nft: a table of that name with the rules
// of firewalld for forwarded packets. Packets from one of the links are in the
// zone "trusted" and pass; all other new connections are rejected.
//
// The chains and their order are those that firewalld 1.x writes (the chains
// filter_FORWARD and filter_FORWARD_POLICIES in its documentation of policies
// and zones, firewalld.org/documentation), shortened to the zones in use.
func FirewalldZones(table string, links []string) string {
	var zones strings.Builder
	for _, link := range links {
		fmt.Fprintf(&zones, "\t\tiifname %q jump filter_FWD_trusted\n", link)
	}
	return fmt.Sprintf(`table inet %s {
	chain filter_FORWARD {
		type filter hook forward priority filter + 10; policy accept;
		ct state { established, related } accept
		ct status dnat accept
		iifname "lo" accept
		jump filter_FORWARD_POLICIES
		ct state { invalid } drop
		reject with icmpx type admin-prohibited
	}
	chain filter_FORWARD_POLICIES {
%s		jump filter_FWD_public
	}
	chain filter_FWD_trusted {
		accept
	}
	chain filter_FWD_public {
		reject with icmpx type admin-prohibited
	}
}
`, table, zones.String())
}
