package oracle

import (
	"cmp"
	"encoding/json"
	"maps"
	"net/netip"
	"slices"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/lease"
)

// wireguards are the names of the wireguard backend's devices (interop 6.0).
var wireguards = [2]string{cidr.V4: "flannel-wg", cidr.V6: "flannel-wg-v6"}

// wireguard derives the devices, their routes and their peers (interop 6.5: the
// wireguard backend). In mode separate each family has a device, else one device
// carries both.
func (d *derivation) wireguard(others []lease.Lease) {
	o := d.net.options
	both := []cidr.Family{}
	for _, f := range cidr.Families {
		if d.net.of[f].IsValid() {
			both = append(both, f)
		}
	}
	if o.Mode != "separate" {
		d.wireguardDevice(wireguards[cidr.V4], o.ListenPort, both, others)
		return
	}
	for _, f := range both {
		port := [2]uint16{cidr.V4: o.ListenPort, cidr.V6: o.ListenPortV6}[f]
		d.wireguardDevice(wireguards[f], port, []cidr.Family{f}, others)
	}
}

// wireguardDevice derives one device with its addresses, routes and peers.
func (d *derivation) wireguardDevice(dev string, port uint16, families []cidr.Family, others []lease.Lease) {
	o, mtu := d.net.options, d.host.Uplink.MTU
	if o.MTU > 0 {
		mtu = min(mtu, o.MTU)
	}
	own, _, _ := WireGuardData(d.own)
	if made, ok := d.host.NewKeys[dev]; ok {
		own = made
	}
	d.want.AddLink(dataplane.Link{
		Name: dev, MTU: mtu - o.Overhead, Up: true,
		Params: dataplane.WireGuard{ListenPort: port, PublicKey: own, Userspace: o.Implementation == "userspace"},
	})
	for _, f := range families {
		if subnet := d.own.Key.Of(f); subnet.IsValid() {
			d.want.AddAddr(dataplane.Addr{Link: dev, Prefix: base(subnet)})
		}
		route := dataplane.Route{RouteKey: dataplane.RouteKey{Dst: d.net.of[f]}, Link: dev}
		if f == cidr.V4 {
			route.Scope = dataplane.ScopeLink
		} else {
			d.speakIPv6(dev, mtu-o.Overhead)
		}
		d.route(route)
		// Without the device, no packet leaves by the default route (docs/security.md: T3).
		d.route(dataplane.Route{RouteKey: dataplane.RouteKey{Dst: d.net.of[f], Metric: 1<<32 - 1}, Kind: dataplane.Blackhole})
	}
	for _, c := range d.claims(families, others) {
		if c.public == own {
			continue
		}
		peer, known := d.want.WGPeers.Get(dataplane.WGPeerKey{Link: dev, Public: c.public})
		if !known {
			peer = d.wireguardPeer(dev, port, c)
		}
		for _, f := range families {
			peer.Allow(c.subnet[f])
			d.serveByOne(c.subnet[f])
		}
		d.want.AddWGPeer(peer)
	}
}

// claim is a record's claim to a public key on one device.
type claim struct {
	record lease.Lease
	subnet [2]netip.Prefix
	to     [2]netip.Addr
	public dataplane.PublicKey
	port   uint16
}

// claims returns the claims of all records that a device can serve, the oldest first: that one names a key's
// endpoint. Packets to the subnets of all of them go to the host with the key.
func (d *derivation) claims(families []cidr.Family, others []lease.Lease) []claim {
	found := map[lease.Key]*claim{}
	var order []lease.Key
	for _, f := range families {
		for _, p := range d.peers(f, others) {
			c := found[p.record.Key]
			if c == nil {
				c = &claim{record: p.record}
				found[p.record.Key] = c
				order = append(order, p.record.Key)
			}
			c.subnet[f] = p.subnet
			c.to[f] = p.to
		}
	}
	var all []claim
	for _, k := range order {
		c := found[k]
		public, port, ok := wireGuardHalf(c.record, c.subnet[cidr.V4].IsValid())
		c.public, c.port = public, port
		if ok && c.to[d.outer(*c)].IsValid() { // a Mode may want an address of the other family
			all = append(all, *c)
		}
	}
	slices.SortStableFunc(all, func(a, b claim) int {
		return cmp.Or(cmp.Compare(a.record.CreateRevision, b.record.CreateRevision), a.record.Key.Compare(b.record.Key))
	})
	return all
}

// wireguardPeer derives the peer for a claim.
func (d *derivation) wireguardPeer(dev string, port uint16, c claim) dataplane.WGPeer {
	o := d.net.options
	if c.port != 0 {
		port = c.port
	}
	psk, _ := dataplane.ParseSecret(o.PSK)
	return dataplane.WGPeer{
		WGPeerKey: dataplane.WGPeerKey{Link: dev, Public: c.public},
		Endpoint:  netip.AddrPortFrom(c.to[d.outer(c)], port),
		Keepalive: o.PersistentKeepaliveInterval,
		PSK:       psk.PSKName(),
	}
}

// outer returns the family of a peer's endpoint.
func (d *derivation) outer(c claim) cidr.Family {
	own := d.host.Uplink.Public
	switch {
	case d.net.options.Mode == "ipv4":
		return cidr.V4
	case d.net.options.Mode == "ipv6":
		return cidr.V6
	case !c.to[cidr.V6].IsValid():
		return cidr.V4
	case !c.to[cidr.V4].IsValid():
		return cidr.V6
	case !c.to[cidr.V4].IsPrivate() && own[cidr.V4].IsValid():
		return cidr.V4
	case !c.to[cidr.V6].IsPrivate() && !own[cidr.V6].IsPrivate():
		return cidr.V6
	}
	return cidr.V4
}

// WireGuardData returns the public key and the port in a record, and whether it
// has them. The port of an old record is 0.
func WireGuardData(r lease.Lease) (dataplane.PublicKey, uint16, bool) {
	return wireGuardHalf(r, r.Key.V4.IsValid())
}

// wireGuardHalf reads the IPv4 half of a record's data, or the other.
func wireGuardHalf(r lease.Lease, v4 bool) (public dataplane.PublicKey, port uint16, ok bool) {
	f := cidr.V6
	if v4 {
		f = cidr.V4
	}
	var data struct {
		PublicKey string
		Port      uint16
	}
	if json.Unmarshal(r.Attrs.Data(f), &data) != nil {
		return public, 0, false
	}
	public, err := dataplane.ParsePublicKey(data.PublicKey)
	return public, data.Port, err == nil
}

// sameTunnel compares the parameters of a link. With Implementation auto the kernel
// decides where the device runs. Only the process that runs a userspace device knows
// more than that it exists.
func (d Demand) sameTunnel(want, have dataplane.LinkParams) bool {
	w, ok := want.(dataplane.WireGuard)
	h, same := have.(dataplane.WireGuard)
	if !ok || !same {
		return want == have
	}
	if d.anyDevice {
		w.Userspace = h.Userspace
	}
	if w.PublicKey.IsZero() { // the record is for another backend: the node is about to publish the device's key
		w.PublicKey = h.PublicKey
	}
	if d.host.NoProcess && h.Userspace {
		w = dataplane.WireGuard{Userspace: w.Userspace}
		h = dataplane.WireGuard{Userspace: true}
	}
	return w == h
}

// wgPeers compares the peers of devices. Only the process that runs a device shows
// its peers.
func (d Demand) wgPeers(have *dataplane.State) []string {
	want := maps.Collect(d.want.WGPeers.All)
	maps.DeleteFunc(want, func(k dataplane.WGPeerKey, _ dataplane.WGPeer) bool {
		params, ok := have.Links[k.Link].Params.(dataplane.WireGuard)
		return d.host.NoProcess && ok && params.Userspace
	})
	same := func(want, present dataplane.WGPeer) bool {
		_, alive := have.Alive[want.Key()] // then the device itself knows the peer's endpoint
		if alive || d.lenient || d.host.EndpointsSeen {
			want.Endpoint = present.Endpoint
		}
		if d.lenient && want.Keepalive == 0 {
			want.Keepalive = present.Keepalive
		}
		if d.lenient { // a lost record may have the key, too, or another mode of the previous backend
			for subnet := range present.AllowedIPs {
				want.Allow(subnet)
			}
		}
		return want == present
	}
	ours := func(p dataplane.WGPeer) bool { return d.devices[p.Link] }
	return compare(want, maps.Collect(have.WGPeers.All), same, ours)
}
