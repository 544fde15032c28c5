package backend

import (
	"fmt"
	"net/netip"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/dataplane"
)

// leastIPv6 is the smallest MTU with which Linux gives a device IPv6 (RFC 8200,
// section 5).
const leastIPv6 = 1280

// DeviceMTU returns the MTU of a device that puts overhead in front of each packet. The
// kernel gives no device more than its uplink carries, so a larger MTU in the config
// has no effect; 0 there means the uplink's.
func DeviceMTU(env Env, configured, overhead int) int {
	mtu := env.Uplink.MTU
	if configured > 0 {
		mtu = min(mtu, configured)
	}
	return mtu - overhead
}

// NotesOnMTU returns a note if the config asks for a larger MTU than the uplink has: it
// says how much pods get.
func NotesOnMTU(env Env, configured, pods int) []string {
	if configured <= env.Uplink.MTU {
		return nil
	}
	return []string{fmt.Sprintf("the network config asks for MTU %d, and %s has %d: using %d, so pods get %d",
		configured, env.Uplink.Link, env.Uplink.MTU, env.Uplink.MTU, pods)}
}

// LackOfIPv6 returns what keeps a device with an MTU from carrying IPv6, or nil.
func LackOfIPv6(env Env, device string, mtu, overhead int) *Lack {
	if mtu >= leastIPv6 {
		return nil
	}
	return &Lack{Link: device, Err: fmt.Errorf(
		"the kernel gives %s no IPv6, because its MTU of %d is below %d: give %s, and the config if it sets one, "+
			"an MTU of %d or more, or leave IPv6 out of the config",
		device, mtu, leastIPv6, env.Uplink.Link, leastIPv6+overhead)}
}

// AddBase gives a device the base of the node's subnet, the source of packets from
// the host to pods. As a host address it makes the kernel add no broadcast route.
func AddBase(s *dataplane.State, self Self, device string, f cidr.Family) {
	if own := self.Key.Of(f); own.IsValid() {
		s.AddAddr(dataplane.Addr{Link: device, Prefix: netip.PrefixFrom(own.Addr(), f.Bits())})
	}
}

// SpeakIPv6 returns the setting that lets one of our devices carry IPv6. A host whose operator
// switches IPv6 off for all devices, or for new ones, keeps that on the others.
func SpeakIPv6(device string) dataplane.Sysctl {
	return dataplane.Sysctl{Path: "net/ipv6/conf/" + device + "/disable_ipv6", Value: "0", Link: device}
}
