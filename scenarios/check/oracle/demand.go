package oracle

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/lease"
)

// Demand is the state that a host must have.
type Demand struct {
	want     *dataplane.State
	host     Host
	networks []netip.Prefix
	beside   []netip.Prefix  // those of the host's other networks
	devices  map[string]bool // all devices of flannel that the host may have
	// anyDevice says that wireguard may run in the kernel or in the process.
	anyDevice bool
	// behind are the subnets of peers whose records offer the present backend, and to which it has one route.
	behind   []netip.Prefix
	commands bool   // commands of the operator make routes
	provider string // the backend whose routes are in a cloud provider's tables; "": another one
	// kernelFirst says that a route of the kernel may be in the place of a demanded one.
	kernelFirst bool
	// lenient says that WireGuard peers may have any endpoint and keepalives, and more allowed IPs.
	lenient bool
	honest  []string // the addresses and keys of records that no other program has forged
}

// derivation is a Demand being derived.
type derivation struct {
	Demand
	net network
	own lease.Lease
}

// Demanded derives the state of a host from its own record and all others.
func Demanded(h Host, own lease.Lease, others []lease.Lease) (Demand, error) {
	n, err := parse(h.Config)
	if err != nil {
		return Demand{}, err
	}
	if !slices.Contains(backends, n.backend) {
		return Demand{}, fmt.Errorf("backend %q: the oracle does not know its objects", n.backend)
	}
	d := derivation{Demand: Demand{want: dataplane.NewState(), host: h}, net: n, own: own}
	if len(h.Forged) > 0 {
		honest, forged := h.partForged(others)
		others = honest
		d.host.Forged = append(slices.Clip(h.Forged), forged...)
		all := append(slices.Clip(others), own)
		d.honest = devicesIn(all)
		for _, r := range all {
			d.honest = append(d.honest, r.Attrs.PublicIP.String(), r.Attrs.PublicIPv6.String())
		}
	}
	d.devices = map[string]bool{ipip: true, wireguards[cidr.V4]: true, wireguards[cidr.V6]: true}
	d.addDevices(vxlanDevices(n))
	d.addDevices(udpDevices(n))
	for _, text := range h.Formerly {
		if former, err := parse(text); err == nil {
			d.addDevices(vxlanDevices(former))
			d.addDevices(udpDevices(former))
		}
	}
	maps.DeleteFunc(d.devices, func(name string, _ bool) bool { // commands of the operator make these
		return n.backend == "extension" && n.options.mention(name)
	})
	d.spare()
	if n.backend == "wireguard" {
		d.anyDevice = n.options.Implementation == "auto"
		d.wireguard(others)
	}
	d.networks = append(d.networks, n.off...) // in which nothing may be left
	for _, f := range cidr.Families {
		if d.net.of[f].IsValid() {
			d.networks = append(d.networks, d.net.of[f])
			d.family(f, others)
			d.blackhole(f)
			d.forwarding(f)
			d.firewall(f)
		}
	}
	return d.Demand, nil
}

// backends lists the types whose objects the oracle derives. An alloc host has none.
var backends = append([]string{
	"vxlan", "host-gw", "udp", "ipip", "wireguard", "ipsec", "extension", "alloc",
}, clouds...)

// family derives the objects of one family. Those of wireguard are derived together.
func (d *derivation) family(f cidr.Family, others []lease.Lease) {
	switch d.net.backend {
	case "vxlan":
		d.vxlan(f, d.peers(f, others))
	case "host-gw":
		d.hostGW(f, d.peers(f, others))
	case "udp":
		d.udp(d.peers(cidr.V4, others))
	case "ipip":
		d.ipip(d.peers(cidr.V4, others))
	case "extension":
		d.extension(d.peers(cidr.V4, others))
	case "ipsec":
		d.ipsec(d.peers(cidr.V4, others))
	default:
		d.cloud()
	}
}

func (d *derivation) addDevices(names []string) {
	for _, name := range names {
		d.devices[name] = true
	}
}

// vxlanDevices returns the names of the VXLAN devices of a network, alone and beside those of another
// port (docs/backend-change.md).
func vxlanDevices(n network) []string {
	vni, port := n.options.VNI, n.options.Port
	return []string{device(cidr.V4, vni), device(cidr.V6, vni),
		fmt.Sprintf("fl.%d.%d", vni, port), fmt.Sprintf("fl6.%d.%d", vni, port)}
}

// udpDevices returns the names of the TUN device of a network, likewise.
func udpDevices(n network) []string { return []string{tun, fmt.Sprintf("fl.udp.%d", n.options.Port)} }

// device returns the name of the VXLAN device (interop 6.0: flannel.<VNI>).
func device(f cidr.Family, vni uint32) string {
	if f == cidr.V6 {
		return fmt.Sprintf("flannel-v6.%d", vni)
	}
	return fmt.Sprintf("flannel.%d", vni)
}

// tun is the name of the udp backend's device (interop 6.0: flannel0).
const tun = "flannel0"

// base returns the first address of a subnet, as a prefix of one address: the
// address of flannel's device (interop 6.0: device addresses).
func base(subnet netip.Prefix) netip.Prefix {
	return netip.PrefixFrom(subnet.Addr(), subnet.Addr().BitLen())
}

// vxlan derives the VXLAN device and its peers (interop 6.2: the vxlan backend).
func (d *derivation) vxlan(f cidr.Family, peers []peer) {
	o, up := d.net.options, d.host.Uplink
	// Per packet: outer IP header, UDP 8, VXLAN 8, inner Ethernet 14.
	header := [2]int{cidr.V4: 20 + 8 + 8 + 14, cidr.V6: 40 + 8 + 8 + 14}[f]
	mtu := up.MTU
	if o.MTU > 0 {
		mtu = min(o.MTU, up.MTU) // the uplink carries no more
	}
	mtu -= header
	dev := device(f, o.VNI)
	var mac dataplane.MAC // any
	// A record for another VXLAN has the MAC address of that VXLAN's device. The node is about
	// to publish the address of this device.
	if !d.offersAnother(d.own) && !d.hasOtherVNI(d.own) {
		mac, _ = vtepMAC(d.own, f)
	}
	d.want.AddLink(dataplane.Link{
		Name: dev, MTU: mtu, MAC: mac, Up: true,
		Params: dataplane.VXLAN{
			VNI: o.VNI, Parent: up.Link, Local: up.Addr[f], Port: o.Port, Learning: o.Learning, GBP: o.GBP,
		},
	})
	if own := d.own.Key.Of(f); own.IsValid() {
		d.want.AddAddr(dataplane.Addr{Link: dev, Prefix: base(own)})
	}
	// The kernel has no IPv6 settings for a device below IPv6's minimum MTU.
	if !d.host.NoIPv6 && mtu >= 1280 {
		d.want.AddSysctl(dataplane.Sysctl{Path: "net/ipv6/conf/" + dev + "/accept_ra", Value: "0", Link: dev})
	}
	if f == cidr.V6 {
		d.speakIPv6(dev, mtu)
	}
	if o.TxChecksum == "on" || o.TxChecksum == "off" {
		path := "ethtool/" + dev + "/tx-checksum-ip-generic"
		d.want.AddSysctl(dataplane.Sysctl{Path: path, Value: o.TxChecksum, Link: dev})
	}
	for _, p := range peers {
		d.vxlanPeer(f, dev, mac, p)
	}
}

// speakIPv6 derives the setting of a device that carries IPv6. The kernel has none for a device
// below IPv6's minimum MTU.
func (d *derivation) speakIPv6(dev string, mtu int) {
	if !d.host.NoIPv6 && mtu >= 1280 {
		d.want.AddSysctl(dataplane.Sysctl{Path: "net/ipv6/conf/" + dev + "/disable_ipv6", Value: "0", Link: dev})
	}
}

// vxlanPeer derives neighbour, FDB entry and route of a peer, or the route
// alone if DirectRouting applies.
func (d *derivation) vxlanPeer(f cidr.Family, dev string, ownMAC dataplane.MAC, p peer) {
	if d.net.options.DirectRouting && d.host.Uplink.direct(int(f), p.to) {
		d.route(dataplane.Route{RouteKey: dataplane.RouteKey{Dst: p.subnet}, Via: p.to, Link: d.host.Uplink.Link})
		return
	}
	fdb := dataplane.FDBEntry{FDBKey: dataplane.FDBKey{Link: dev, MAC: p.mac}, Dst: p.to}
	if older, taken := d.want.FDB.Get(fdb.FDBKey); taken && older != fdb {
		return // a MAC address leads to one host, that of the older record
	}
	if !p.hasMAC || p.mac == ownMAC {
		return
	}
	gateway := p.subnet.Addr()
	d.want.AddFDB(fdb)
	d.want.AddNeigh(dataplane.Neigh{NeighKey: dataplane.NeighKey{Link: dev, IP: gateway}, MAC: p.mac})
	d.route(dataplane.Route{RouteKey: dataplane.RouteKey{Dst: p.subnet}, Via: gateway, Link: dev, OnLink: true})
}

// hostGW derives a route to each peer (interop 6.3: the host-gw backend).
func (d *derivation) hostGW(f cidr.Family, peers []peer) {
	for _, p := range peers {
		if d.host.Uplink.direct(int(f), p.to) {
			d.route(dataplane.Route{RouteKey: dataplane.RouteKey{Dst: p.subnet}, Via: p.to, Link: d.host.Uplink.Link})
		}
	}
}

// udp derives a device, a route for the whole Network, and a process that knows
// the way to each peer (interop 6.1: the udp backend).
func (d *derivation) udp(peers []peer) {
	own, up := d.own.Key.V4, d.host.Uplink
	mtu := up.MTU - 20 - 8 // outer IPv4 header and UDP
	d.want.AddLink(dataplane.Link{Name: tun, MTU: mtu, Up: true, Params: dataplane.TUN{}})
	// The ICMP errors of the packet path carry the device's own address, and by
	// default the kernel drops packets from its own addresses.
	d.want.AddSysctl(dataplane.Sysctl{Path: "net/ipv4/conf/" + tun + "/accept_local", Value: "1", Link: tun})
	if !own.IsValid() {
		return
	}
	d.want.AddAddr(dataplane.Addr{Link: tun, Prefix: base(own)})
	// An upstream daemon that runs after ours makes a device and a route of its own
	// beside these. Its route must win, so ours has a metric (interop 6.0: upstream's has none).
	d.route(dataplane.Route{RouteKey: dataplane.RouteKey{Dst: d.net.of[cidr.V4], Metric: 1}, Link: tun})
	if d.host.NoProcess {
		return
	}
	d.want.AddProxy(dataplane.Proxy{
		Link: tun, Local: netip.AddrPortFrom(up.Addr[cidr.V4], d.net.options.Port),
		Subnet: own, MTU: mtu, Offload: d.net.options.Offload,
	})
	for _, p := range peers {
		// Datagrams to an address inside the Network would come back.
		if !d.net.of[cidr.V4].Contains(p.to) || up.direct(int(cidr.V4), p.to) {
			d.want.AddPeer(dataplane.Peer{PeerKey: dataplane.PeerKey{Link: tun, Subnet: p.subnet}, To: p.to})
			if p.record.Attrs.BackendType == "" || p.record.Attrs.BackendType == d.net.backend {
				d.serveByOne(p.subnet)
			}
		}
	}
}

// ipip is the name of the ipip backend's device (interop 6.0: flannel.ipip).
const ipip = "flannel.ipip"

// ipip derives the tunnel device and a route to each peer. The public address of
// the peer is the gateway, and thereby the other end of the tunnel (interop 6.4:
// the ipip backend).
func (d *derivation) ipip(peers []peer) {
	up := d.host.Uplink
	d.want.AddLink(dataplane.Link{
		Name: ipip, MTU: up.MTU - 20, Up: true, Params: dataplane.IPIP{Local: up.Addr[cidr.V4]},
	})
	if own := d.own.Key.V4; own.IsValid() {
		d.want.AddAddr(dataplane.Addr{Link: ipip, Prefix: base(own)})
	}
	for _, p := range peers {
		dev := ipip
		if d.net.options.DirectRouting && up.direct(int(cidr.V4), p.to) {
			dev = up.Link
		}
		d.route(dataplane.Route{RouteKey: dataplane.RouteKey{Dst: p.subnet}, Via: p.to, Link: dev, OnLink: true})
	}
}

// extension derives the routes that the commands of scenarios make: one to each
// peer, by a text with "ip route add $SUBNET via $PUBLIC_IP" or "replace" (interop 6.8: the sample
// of plain routes). They carry the protocol boot, since a program of the operator makes them. It knows
// nothing of what other commands make.
func (d *derivation) extension(peers []peer) {
	d.commands = strings.Contains(d.net.options.SubnetAddCommand, " $SUBNET via $PUBLIC_IP")
	for _, p := range peers {
		if d.commands && d.host.Uplink.direct(int(cidr.V4), p.to) {
			d.want.AddRoute(dataplane.Route{
				RouteKey: dataplane.RouteKey{Dst: p.subnet},
				Via:      p.to, Link: d.host.Uplink.Link, Protocol: dataplane.ProtocolBoot,
			})
		}
	}
}

// route demands a route that carries our protocol number.
func (d *derivation) route(r dataplane.Route) {
	r.Protocol = dataplane.Protocol
	d.want.AddRoute(r)
}

// blackhole demands the route that drops packets to unused addresses (interop 7.4:
// --ip-blackhole-route). It has the worst metric, so the bridge's route wins. With ipsec it
// is always there, so that no decrypted packet leaves the host again.
func (d *derivation) blackhole(f cidr.Family) {
	demanded := d.host.Blackhole || d.net.backend == "ipsec"
	if own := d.own.Key.Of(f); demanded && own.IsValid() {
		d.route(dataplane.Route{RouteKey: dataplane.RouteKey{Dst: own, Metric: 1<<32 - 1}, Kind: dataplane.Blackhole})
	}
}

// forwarding demands the kernel's setting for IP forwarding.
func (d *derivation) forwarding(f cidr.Family) {
	if d.host.IPForward && !(f == cidr.V6 && d.host.NoIPv6) {
		path := [...]string{cidr.V4: "net/ipv4/ip_forward", cidr.V6: "net/ipv6/conf/all/forwarding"}[f]
		d.want.AddSysctl(dataplane.Sysctl{Path: path, Value: "1"})
	}
}
