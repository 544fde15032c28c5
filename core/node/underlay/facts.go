package underlay

import (
	"fmt"
	"net/netip"
	"time"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/config"
	"github.com/flanneld/flannel/core/lease"
	"github.com/flanneld/flannel/core/uplink"
)

// Facts are what a choice depends on, as of a moment.
type Facts struct {
	Now     time.Time
	Options uplink.Options // with the addresses that the datastore gives
	Config  config.Network // in force
	Host    uplink.Host
	Saved   uplink.Memory // of the last run; zero: none

	OwnAddresses bool            // the backend publishes the uplink's own addresses (interop 6.8: extension)
	Published    lease.ByFamily  // what an operator has set in the datastore for peers to see
	Overlays     []netip.Prefix  // the networks of this host: no peer reaches an address in them
	Waits        bool            // an address that cannot be used may be fixed in the datastore
	Before       *lease.ByFamily // what the last run has published; nil: there was none
}

// asPublished returns a choice with the addresses that peers see: those that an operator has set in the store. Some
// backends publish the uplink's own addresses, whatever the options say.
func (f *Facts) asPublished(up uplink.Uplink) uplink.Uplink {
	if f.OwnAddresses {
		up.PublicIP, up.PublicIPv6 = up.IP, up.IPv6
	}
	for _, family := range cidr.Families {
		if addr := f.Published.Of(family); addr.IsValid() && up.Public(family).IsValid() {
			*cidr.Pick(family, &up.PublicIP, &up.PublicIPv6) = addr
		}
	}
	return up
}

// refusePublished returns an error if an operator has set an address in the datastore that is inside the overlay.
func (f *Facts) refusePublished(up uplink.Uplink) error {
	for _, family := range cidr.Families {
		for _, network := range f.Overlays {
			r, a := f.Config.Of(family), up.Public(family)
			if a.IsValid() && network.Contains(a) && (network != r.Network || r.Holds(a)) {
				return fmt.Errorf("the address to publish, %s, is inside the network %s, and no peer reaches it", a, network)
			}
		}
	}
	return nil
}
