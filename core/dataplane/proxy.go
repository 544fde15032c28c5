package dataplane

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
)

// Proxy is a packet path between a TUN device and a UDP socket. It runs in the
// process that applied it, and ends with that process and with its device.
// Replace starts it, or changes it in place and keeps its peers. Create fails
// with ErrExists if one runs. Both fail with ErrBusy if another program has the
// socket's port.
type Proxy struct {
	Link    string         // the TUN device, which is the key
	Local   netip.AddrPort // of the socket: the uplink's address, and the port of all nodes
	Subnet  netip.Prefix   // our own: packets to it are accepted, and its base is the device's address
	MTU     int            // bytes of the largest packet that fits into a datagram
	Offload Offload
}

// Offload says which of the kernel's offloads a Proxy may use.
type Offload string

// The choices. A Proxy with another one is refused with ErrInvalid.
const (
	OffloadAuto Offload = "auto" // use those that the kernel has
	OffloadGSO  Offload = "gso"  // use segmentation, or fail with ErrUnsupported
	OffloadOff  Offload = "off"  // one packet at a time
)

// PeerKey identifies a peer of a Proxy.
type PeerKey struct {
	Link   string // the Proxy's
	Subnet netip.Prefix
}

// Compare orders keys by link, then by subnet.
func (k PeerKey) Compare(o PeerKey) int {
	return cmp.Or(cmp.Compare(k.Link, o.Link), comparePrefixes(k.Subnet, o.Subnet))
}

// Key returns the key.
func (k PeerKey) Key() PeerKey { return k }

// Peer is the host to which a Proxy sends the packets for a subnet. The Proxy
// accepts packets from that subnet only from this host. The peers of a Proxy end with it.
type Peer struct {
	PeerKey
	To netip.Addr
}

// Running describes how a packet path of this process carries packets: a running [Proxy], or a
// [WireGuard] device in userspace. It is never wanted and not part of a dump.
type Running struct {
	Tier   string // the tier that carries packets now
	Reason string // why no faster tier is in use
	// Carried is the number of packets that it has carried, in both directions. A Proxy counts one
	// that is still to be cut once, WireGuard each of its pieces.
	Carried uint64
	Drops   map[string]uint64 // numbers of dropped packets, by every reason that the driver knows
}

// Equal reports whether both reports say the same.
func (r Running) Equal(o Running) bool {
	return r.Tier == o.Tier && r.Reason == o.Reason && r.Carried == o.Carried && maps.Equal(r.Drops, o.Drops)
}

// String returns the canonical form, such as
// "proxy flannel0 local 192.168.64.3:8285 subnet 10.5.1.0/24 mtu 1472 offload auto".
func (p Proxy) String() string {
	return textOf(p.params(), "proxy %s", p.Link)
}

// String returns the canonical form, such as
// "peer 10.5.3.0/24 to 192.168.64.4 dev flannel0".
func (p Peer) String() string {
	return fmt.Sprintf("peer %s to %s dev %s", p.Subnet, p.To, p.Link)
}

func (Proxy) kind() *kind { return &proxyKind }

func (p Proxy) mapKey() string { return p.Link }

func (Peer) kind() *kind { return &peerKind }

var proxyKind = mapKind("proxy", parseProxy, func(s *State) *map[string]Proxy { return &s.Proxies })

var peerKind = tableKind("peer", parsePeer, func(s *State) *Table[PeerKey, Peer] { return &s.Peers })

func parseProxy(f *fields) Object {
	p := Proxy{Link: f.next()}
	f.params(p.params())
	return p
}

// params lists the parameters in the order of the canonical form.
func (p *Proxy) params() []param {
	return []param{
		{"local", p.Local.IsValid(), p.Local, func(f *fields) { p.Local = f.addrPort(f.next()) }},
		{"subnet", p.Subnet.IsValid(), p.Subnet, func(f *fields) { p.Subnet = f.prefix() }},
		{"mtu", true, p.MTU, func(f *fields) { p.MTU = int(f.number(31)) }},
		{"offload", p.Offload != "", p.Offload, func(f *fields) { p.Offload = Offload(f.next()) }},
	}
}

func parsePeer(f *fields) Object {
	p := Peer{PeerKey: PeerKey{Subnet: f.prefix()}}
	p.To = f.addr(f.after("to"))
	p.Link = f.after("dev")
	return p
}
