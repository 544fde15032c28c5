package kernel

import (
	"net/netip"
	"slices"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/dataplane"
)

// minMTU6 is the lowest MTU with which a link speaks IPv6 (RFC 8200).
const minMTU6 = 1280

// link is a network device.
type link struct {
	stack   *stack
	name    string
	index   int // kept as long as there are routes over the link
	device  device
	mtu     int
	mac     dataplane.MAC
	up      bool
	carrier bool
	master  string       // the bridge that took the link as a port, which the simulator has as a name alone
	held    bool         // another program keeps it without a carrier, as "ip link set protodown on" does
	has6    bool         // the kernel keeps IPv6 state for the link at all
	ready6  bool         // IPv6 has started since the link came up
	addrs   [2][]address // in the kernel's order
	neighs  entries[netip.Addr, dataplane.MAC]

	wire  *Wire                              // ethernet and bridge
	queue *path                              // the process's path that has a TUN link open
	fdb   entries[dataplane.MAC, netip.Addr] // of a vxlan link
}

// address is an address of a link. A secondary IPv4 address shares the subnet
// of an older one, and goes with it.
type address struct {
	prefix    netip.Prefix
	secondary bool
	asleep    bool // IPv6: kept while the link is down
}

// cutOff reports whether packets neither leave by the link nor come in to the host by it.
func (l *link) cutOff() bool { return l.master != "" || l.held }

// disabled6 reports whether IPv6 is switched off on the link.
func (l *link) disabled6() bool { return isOn(l.stack.setting(l, cidr.V6, "disable_ipv6")) }

// setUp changes the administrative state, with the kernel's side effects: going
// down removes all routes, neighbours and IPv6 addresses; coming up restores
// only connected routes. IPv4 addresses and permanent FDB entries stay.
func (l *link) setUp(up bool) {
	if l.up == up {
		return
	}
	l.up = up
	defer l.device.turned(up)
	if up {
		l.connect(cidr.V4)
		l.setMTU(l.mtu) // which may have shrunk unnoticed
		l.connect(cidr.V6)
		l.sleepAddrs(false)
		l.start6()
		return
	}
	l.stack.dropNextHops(l)
	l.stack.fibs[cidr.V4].remove(func(r *route) bool { return r.leave(l) })
	l.dropNeighs(cidr.V4)
	l.fdb.remove(func(mac dataplane.MAC, e fdbEntry) bool { return !e.permanent && !mac.IsZero() })
	keep := isOn(l.stack.setting(l, cidr.V6, "keep_addr_on_down")) || isOn(l.stack.sysctls[sysctlKeep6])
	l.stop6(keep, (*route).sleep)
}

// setCarrier plugs or unplugs the cable. Routes and permanent neighbours stay,
// learnt neighbours and next-hop objects do not.
func (l *link) setCarrier(on bool) {
	if l.carrier == on {
		return
	}
	l.carrier = on
	switch {
	case on:
		l.start6()
	case l.up:
		l.stack.dropNextHops(l)
		l.neighs.remove(func(_ netip.Addr, n neigh) bool { return !n.permanent })
	}
}

// setMAC sets the link's MAC; the kernel then forgets all neighbours,
// permanent ones too, even if the MAC is the same as before.
func (l *link) setMAC(mac dataplane.MAC) {
	l.mac = mac
	l.neighs.clear()
}

// setMTU changes the MTU; IPv6 starts and stops at its minimum.
func (l *link) setMTU(mtu int) {
	l.mtu = mtu
	switch enough := l.stack.enough6(mtu); {
	case l.has6 && !enough:
		l.has6 = false
		l.stop6(false, (*route).leave)
		l.stack.dropSysctls("net/ipv6/conf/" + l.name + "/")
	case !l.has6 && enough:
		l.has6 = true
		l.stack.makeSysctls6(l.name)
		l.start6()
	}
}

// start6 gives the link its link-local address, once it can send, and wakes the
// paths over it in multipath routes.
func (l *link) start6() {
	if l.ready6 || !l.up || !l.carrier || !l.has6 || l.disabled6() || l.device == loopback {
		return
	}
	l.ready6 = true
	if _, without := l.device.(*wgDevice); !without {
		local := netip.PrefixFrom(linkLocal(l.mac), 64)
		l.insertAddr(local)
		l.connectAddr(local)
	}
	for _, routes := range l.stack.fibs[cidr.V6].lists {
		for _, r := range routes {
			r.wake(l)
		}
	}
}

// stop6 removes the IPv6 routes as its last argument does, the neighbours, and
// the addresses unless they are kept; it never keeps a link-local address.
func (l *link) stop6(keepAddrs bool, without func(*route, *link) bool) {
	l.ready6 = false
	l.stack.fibs[cidr.V6].remove(func(r *route) bool { return without(r, l) })
	l.dropNeighs(cidr.V6)
	for _, a := range slices.Clone(l.addrs[cidr.V6]) {
		if keepAddrs && !a.prefix.Addr().IsLinkLocalUnicast() {
			continue
		}
		l.forgetAddr(a.prefix)
	}
	l.sleepAddrs(true)
}

func (l *link) sleepAddrs(asleep bool) {
	for i := range l.addrs[cidr.V6] {
		l.addrs[cidr.V6][i].asleep = asleep
	}
}

func (l *link) dropNeighs(f cidr.Family) {
	l.neighs.remove(func(ip netip.Addr, _ neigh) bool { return cidr.FamilyOf(ip) == f })
}
