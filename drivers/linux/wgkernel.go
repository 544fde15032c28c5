package linux

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/drivers/linux/internal/namespace"
	"github.com/flanneld/flannel/drivers/linux/internal/nl"
	"github.com/flanneld/flannel/drivers/linux/wireguard"
)

// The kernel's WireGuard (Linux include/uapi/linux/wireguard.h).
const (
	wgVersion = 1

	wgGetDevice = 0
	wgSetDevice = 1

	wgDeviceIfindex    = 1
	wgDevicePrivateKey = 3
	wgDevicePublicKey  = 4
	wgDeviceListenPort = 6
	wgDevicePeers      = 8

	wgPeerPublicKey    = 1
	wgPeerPSK          = 2
	wgPeerFlags        = 3
	wgPeerEndpoint     = 4
	wgPeerKeepalive    = 5
	wgPeerHandshake    = 6
	wgPeerAllowedIPs   = 9
	wgPeerRemoveMe     = 1 << 0
	wgPeerReplaceIPs   = 1 << 1
	wgPeerUpdateOnly   = 1 << 2
	wgAllowedIPFamily  = 1
	wgAllowedIPAddress = 2
	wgAllowedIPMask    = 3
)

// kernelWG reads and changes WireGuard devices of the kernel over generic netlink.
// It does not handle links, addresses and routes.
type kernelWG struct {
	c      *nl.Conn
	family uint16
}

// openKernelWG fails with ENOENT if the kernel has no WireGuard. The kernel
// tries to load its module first.
func openKernelWG(ns namespace.Namespace) (*kernelWG, error) {
	k := &kernelWG{}
	err := ns.Do(func() (err error) {
		k.c, err = nl.Open(unix.NETLINK_GENERIC)
		return err
	})
	if err != nil {
		return nil, err
	}
	k.begin(unix.GENL_ID_CTRL, unix.CTRL_CMD_GETFAMILY, 0)
	k.c.Out.AttrString(unix.CTRL_ATTR_FAMILY_NAME, unix.WG_GENL_NAME)
	k.c.Out.End()
	body, err := k.c.Do()
	if err != nil {
		return nil, errors.Join(err, k.c.Close())
	}
	for kind, value := range genAttrs(body) {
		if kind == unix.CTRL_ATTR_FAMILY_ID && len(value) >= 2 {
			k.family = nl.Native.Uint16(value)
		}
	}
	return k, nil
}

func (k *kernelWG) begin(family uint16, command byte, flags uint16) {
	k.c.Begin(family, flags)
	k.c.Out.U8(command, wgVersion, 0, 0)
}

// genAttrs yields the attributes behind struct genlmsghdr.
func genAttrs(body []byte) func(yield func(uint16, []byte) bool) {
	return nl.Attrs(body[min(len(body), unix.GENL_HDRLEN):])
}

// configure gives a device another key or port than those that were read. It does not set the key
// that the device has: a kernel takes it for another one, and ends all sessions, unless its
// bits are clamped as those of the key it holds (drivers/net/wireguard/netlink.c, wg_set_device).
func (k *kernelWG) configure(index int, now wireguard.Reading, key dataplane.Secret, port uint16) error {
	k.beginSet(index)
	if now.Public != key.PublicKey() {
		k.c.Out.Attr(wgDevicePrivateKey, key.Bytes())
	}
	if now.Port != port {
		k.c.Out.Attr(wgDeviceListenPort, nl.Native.AppendUint16(nil, port))
	}
	return k.finish()
}

// greet sends a keepalive to each peer that had a session when peers were read. After a new port
// the peer learns the port from it. After a new key the keepalive begins a session.
// The kernel sends one when a peer without keepalives gets an interval, so the peer's
// own interval is taken away and set again.
func (k *kernelWG) greet(index int, peers []wireguard.Peer) error {
	since := time.Now().Add(-dataplane.SessionLife)
	var errs []error
	for _, p := range peers {
		if !p.Handshake.After(since) {
			continue
		}
		for _, seconds := range [...]uint16{0, math.MaxUint16, p.Keepalive} {
			errs = append(errs, k.setKeepalive(index, p.Public, seconds))
		}
	}
	return errors.Join(errs...)
}

// setKeepalive changes the interval of a peer, if it is there.
func (k *kernelWG) setKeepalive(index int, key dataplane.PublicKey, seconds uint16) error {
	k.beginSet(index)
	end := k.beginPeer(key, wgPeerUpdateOnly)
	k.c.Out.Attr(wgPeerKeepalive, nl.Native.AppendUint16(nil, seconds))
	end()
	return k.finish()
}

func (k *kernelWG) beginSet(index int) {
	k.begin(k.family, wgSetDevice, 0)
	k.c.Out.AttrU32(wgDeviceIfindex, uint32(index))
}

func (k *kernelWG) finish() error {
	k.c.Out.End()
	_, err := k.c.Do()
	return err
}

// setPeer adds a peer to a device, or changes it and keeps its session. All other
// peers stay. The peer's former allowed IPs go only if replaces is set: the kernel takes all of them
// away first, and drops what arrives in that moment. If it greets a new peer, the kernel begins a
// session at once: it sends a keepalive to a peer that gets an interval, so the peer's own interval is
// set after another one.
func (k *kernelWG) setPeer(
	index int, p dataplane.WGPeer, psk dataplane.Secret, replaces, greets bool,
) error {
	if greets && p.Keepalive == 0 {
		greeted := p
		greeted.Keepalive = math.MaxUint16
		if err := k.setPeer(index, greeted, psk, replaces, false); err != nil {
			return err
		}
	}
	out := &k.c.Out
	k.beginSet(index)
	flags := uint32(0)
	if replaces {
		flags = wgPeerReplaceIPs
	}
	end := k.beginPeer(p.Public, flags)
	out.Attr(wgPeerPSK, psk.Bytes())
	if p.Endpoint.IsValid() {
		out.Attr(wgPeerEndpoint, sockaddr(p.Endpoint))
	}
	out.Attr(wgPeerKeepalive, nl.Native.AppendUint16(nil, p.Keepalive))
	ips := out.Nest(wgPeerAllowedIPs)
	for prefix := range p.AllowedIPs {
		one := out.Nest(0)
		out.Attr(wgAllowedIPFamily, nl.Native.AppendUint16(nil, uint16(nl.AF(cidr.FamilyOf(prefix.Addr())))))
		out.AttrAddr(wgAllowedIPAddress, prefix.Addr())
		out.Attr(wgAllowedIPMask, []byte{byte(prefix.Bits())})
		out.Unnest(one)
	}
	out.Unnest(ips)
	end()
	return k.finish()
}

// removePeer removes a peer from a device, if it is there.
func (k *kernelWG) removePeer(index int, key dataplane.PublicKey) error {
	k.beginSet(index)
	k.beginPeer(key, wgPeerRemoveMe)()
	return k.finish()
}

// beginPeer opens the attributes of the one peer in a message; end closes them.
func (k *kernelWG) beginPeer(key dataplane.PublicKey, flags uint32) (end func()) {
	out := &k.c.Out
	peers := out.Nest(wgDevicePeers)
	one := out.Nest(0)
	out.Attr(wgPeerPublicKey, key[:])
	out.AttrU32(wgPeerFlags, flags)
	return func() {
		out.Unnest(one)
		out.Unnest(peers)
	}
}

// read returns a device's configuration. The kernel spreads a device with many
// peers over several messages, and a peer with many allowed IPs over two.
func (k *kernelWG) read(index int) (wireguard.Reading, error) {
	k.begin(k.family, wgGetDevice, unix.NLM_F_DUMP)
	k.c.Out.AttrU32(wgDeviceIfindex, uint32(index))
	k.c.Out.End()
	b, err := k.c.Dump()
	if err != nil {
		return wireguard.Reading{}, fmt.Errorf("read WireGuard device: %w", err)
	}
	var r wireguard.Reading
	for m := range nl.Messages(b) {
		if m.Kind == k.family {
			takeDevice(&r, m.Body)
		}
	}
	return r, nil
}

func takeDevice(r *wireguard.Reading, body []byte) {
	for kind, value := range genAttrs(body) {
		switch kind {
		case wgDevicePublicKey:
			copy(r.Public[:], value)
		case wgDeviceListenPort:
			r.Port = nl.Native.Uint16(value)
		case wgDevicePeers:
			for _, peer := range nl.Attrs(value) {
				takePeer(r, peer)
			}
		}
	}
}

// takePeer reads one peer. One with the key of the previous peer continues it.
func takePeer(r *wireguard.Reading, attrs []byte) {
	var p wireguard.Peer
	var ips []byte
	for kind, value := range nl.Attrs(attrs) {
		switch kind {
		case wgPeerPublicKey:
			copy(p.Public[:], value)
		case wgPeerPSK:
			if psk, err := dataplane.SecretOf(value); err == nil {
				p.PSK = psk.PSKName()
			}
		case wgPeerEndpoint:
			p.Endpoint = endpointOf(value)
		case wgPeerKeepalive:
			p.Keepalive = nl.Native.Uint16(value)
		case wgPeerHandshake:
			p.Handshake = timespec(value)
		case wgPeerAllowedIPs:
			ips = value
		}
	}
	at := len(r.Peers) - 1
	if at < 0 || r.Peers[at].Public != p.Public {
		r.Peers = append(r.Peers, p)
		at++
	}
	for _, ip := range nl.Attrs(ips) {
		if prefix := allowedIP(ip); prefix.IsValid() {
			r.Peers[at].Allow(prefix)
		}
	}
}

// timespec reads struct __kernel_timespec.
func timespec(b []byte) time.Time {
	if len(b) < 16 || nl.Native.Uint64(b) == 0 {
		return time.Time{}
	}
	return time.Unix(int64(nl.Native.Uint64(b)), int64(nl.Native.Uint64(b[8:])))
}

func allowedIP(attrs []byte) netip.Prefix {
	var a netip.Addr
	bits := 0
	for kind, value := range nl.Attrs(attrs) {
		switch {
		case kind == wgAllowedIPAddress:
			a = nl.Addr(value)
		case kind == wgAllowedIPMask && len(value) > 0:
			bits = int(value[0])
		}
	}
	return netip.PrefixFrom(a, bits)
}

// sockaddr returns struct sockaddr_in or sockaddr_in6.
func sockaddr(a netip.AddrPort) []byte {
	family := nl.AF(cidr.FamilyOf(a.Addr()))
	b := nl.Native.AppendUint16(nil, uint16(family))
	b = binary.BigEndian.AppendUint16(b, a.Port())
	if a.Addr().Is4() {
		b = append(b, a.Addr().AsSlice()...)
		return append(b, make([]byte, 8)...)
	}
	b = append(b, make([]byte, 4)...) // flow
	b = append(b, a.Addr().AsSlice()...)
	return append(b, make([]byte, 4)...) // scope
}

// endpointOf reads what sockaddr writes.
func endpointOf(b []byte) netip.AddrPort {
	if len(b) < unix.SizeofSockaddrInet4 {
		return netip.AddrPort{}
	}
	port := binary.BigEndian.Uint16(b[2:])
	if nl.Native.Uint16(b) == unix.AF_INET {
		return netip.AddrPortFrom(nl.Addr(b[4:8]), port)
	}
	if len(b) < unix.SizeofSockaddrInet6 {
		return netip.AddrPort{}
	}
	return netip.AddrPortFrom(nl.Addr(b[8:24]), port)
}
