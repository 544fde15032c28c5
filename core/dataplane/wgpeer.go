package dataplane

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/flanneld/flannel/core/cidr"
)

// SessionLife is how long a WireGuard session lasts after its handshake
// (REJECT_AFTER_TIME). A peer with traffic makes the next one before.
const SessionLife = 3 * time.Minute

// WGPeerKey identifies a peer of a [WireGuard] device.
type WGPeerKey struct {
	Link   string
	Public PublicKey
}

// Compare orders keys by link, then by public key.
func (k WGPeerKey) Compare(o WGPeerKey) int {
	return cmp.Or(cmp.Compare(k.Link, o.Link), k.Public.Compare(o.Public))
}

// Key returns the key.
func (k WGPeerKey) Key() WGPeerKey { return k }

// WGPeer is a peer of a [WireGuard] device. Replace changes it in place and keeps
// its session: it sets the endpoint, if there is one, and replaces the allowed IPs,
// the keepalive and the PSK. An allowed IP of another peer moves to this one. The
// peers of a device end with it, and a userspace device's with its process.
type WGPeer struct {
	WGPeerKey
	// Endpoint is where packets to the peer go. The device itself changes it when an
	// authenticated packet comes from elsewhere. Zero: not known yet.
	Endpoint netip.AddrPort
	// Others holds the endpoints that other records with the peer's key name. A device knows none of them: the node
	// tries them, and takes them out before it compares the peer with the host's.
	Others Endpoints
	// Allowed holds the destinations behind the peer, by family: the first one in the order of addresses.
	Allowed [2]netip.Prefix
	// More holds further destinations, of a peer with several subnets. [WGPeer.Allow] adds to both.
	More      Prefixes
	Keepalive uint16     // seconds between packets to an idle peer; 0: off
	PSK       SecretName // [Secret.PSKName] of the pre-shared key; "": none
}

// Endpoints is a list of endpoints that compares by value: their text, with commas between them.
type Endpoints string

// All yields the endpoints in order.
func (es Endpoints) All(yield func(netip.AddrPort) bool) {
	if es == "" {
		return
	}
	for text := range strings.SplitSeq(string(es), ",") {
		if e, err := netip.ParseAddrPort(text); err == nil && !yield(e) {
			return
		}
	}
}

// With returns the list with one more endpoint.
func (es Endpoints) With(e netip.AddrPort) Endpoints {
	all := slices.Collect(es.All)
	switch {
	case slices.Contains(all, e):
		return es
	case es == "":
		return Endpoints(e.String())
	}
	return es + Endpoints(","+e.String())
}

// Prefixes is a sorted list of prefixes that compares by value: their text, with commas between them.
type Prefixes string

// All yields the prefixes in order.
func (ps Prefixes) All(yield func(netip.Prefix) bool) {
	if ps == "" {
		return
	}
	for text := range strings.SplitSeq(string(ps), ",") {
		if p, err := netip.ParsePrefix(text); err == nil && !yield(p) {
			return
		}
	}
}

// with returns the list with one more prefix.
func (ps Prefixes) with(p netip.Prefix) Prefixes {
	all := slices.Collect(ps.All)
	at, found := slices.BinarySearchFunc(all, p, netip.Prefix.Compare)
	if found {
		return ps
	}
	var texts []string
	for _, p := range slices.Insert(all, at, p) {
		texts = append(texts, p.String())
	}
	return Prefixes(strings.Join(texts, ","))
}

// Allow adds an allowed IP, so that peers with equal ones are equal. An invalid prefix changes nothing.
func (p *WGPeer) Allow(prefix netip.Prefix) {
	if !prefix.IsValid() {
		return
	}
	first := &p.Allowed[cidr.FamilyOf(prefix.Addr())]
	switch {
	case !first.IsValid():
		*first = prefix
	case prefix.Compare(*first) < 0:
		p.More = p.More.with(*first)
		*first = prefix
	case prefix != *first:
		p.More = p.More.with(prefix)
	}
}

// AllowedIPs yields all destinations behind the peer.
func (p WGPeer) AllowedIPs(yield func(netip.Prefix) bool) {
	for _, prefix := range p.Allowed {
		if prefix.IsValid() && !yield(prefix) {
			return
		}
	}
	p.More.All(yield)
}

// Allows reports whether a subnet is one of the peer's allowed IPs.
func (p WGPeer) Allows(subnet netip.Prefix) bool {
	if slices.Contains(p.Allowed[:], subnet) {
		return subnet.IsValid()
	}
	for prefix := range p.More.All {
		if prefix == subnet {
			return true
		}
	}
	return false
}

// String returns the canonical form, such as
// "wgpeer b2hO...= endpoint 192.168.64.4:51820 allowed 10.5.3.0/24,fd00:0:0:3::/64 keepalive 25 dev flannel-wg".
func (p WGPeer) String() string {
	return textOf(p.params(), "wgpeer %s", p.Public)
}

func (WGPeer) kind() *kind { return &wgPeerKind }

var wgPeerKind = tableKind("wgpeer", parseWGPeer, func(s *State) *Table[WGPeerKey, WGPeer] { return &s.WGPeers })

func parseWGPeer(f *fields) Object {
	p := WGPeer{WGPeerKey: WGPeerKey{Public: f.publicKey()}}
	f.params(p.params())
	if p.Link == "" {
		f.fail("no dev")
	}
	return p
}

// params lists the parameters in the order of the canonical form.
func (p *WGPeer) params() []param {
	var allowed []string
	for prefix := range p.AllowedIPs {
		allowed = append(allowed, prefix.String())
	}
	return []param{
		{"endpoint", p.Endpoint.IsValid(), p.Endpoint, func(f *fields) { p.Endpoint = f.addrPort(f.next()) }},
		{"others", p.Others != "", p.Others, p.parseOthers},
		{"allowed", len(allowed) > 0, strings.Join(allowed, ","), p.parseAllowed},
		{"keepalive", p.Keepalive != 0, p.Keepalive, func(f *fields) { p.Keepalive = uint16(f.number(16)) }},
		{"psk", p.PSK != "", p.PSK, func(f *fields) { p.PSK = f.secretName() }},
		{"dev", true, p.Link, func(f *fields) { p.Link = f.next() }},
	}
}

func (p *WGPeer) parseOthers(f *fields) {
	for text := range strings.SplitSeq(f.next(), ",") {
		p.Others = p.Others.With(f.addrPort(text))
	}
}

func (p *WGPeer) parseAllowed(f *fields) {
	for text := range strings.SplitSeq(f.next(), ",") {
		prefix, err := netip.ParsePrefix(text)
		if err != nil {
			f.fail("%w", err)
			return
		}
		if p.Allows(prefix) {
			f.fail("%s is an allowed IP twice", prefix)
		}
		p.Allow(prefix)
	}
}
