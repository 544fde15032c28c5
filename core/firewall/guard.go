package firewall

import "net/netip"

// Guard names packets of the underlay that only some hosts may send to this one: those of an unencrypted
// device that the node keeps, beside an encrypting one, for peers that have not followed a change of backend.
type Guard struct {
	Proto uint8        // of the outer header: 17 for UDP, 4 for IP in IP
	Port  uint16       // the destination, of UDP alone
	From  []netip.Addr // the outer addresses that may send such packets, of one family; empty: none
}
