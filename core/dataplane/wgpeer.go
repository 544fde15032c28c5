package dataplane

import (
	"cmp"
	"net/netip"
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
	// Allowed holds the destinations behind the peer, at most one for each family.
	Allowed [2]netip.Prefix
	// More counts further allowed IPs. It is never wanted.
	More      int
	Keepalive uint16     // seconds between packets to an idle peer; 0: off
	PSK       SecretName // [Secret.PSKName] of the pre-shared key; "": none
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
	for _, prefix := range p.Allowed {
		if prefix.IsValid() {
			allowed = append(allowed, prefix.String())
		}
	}
	return []param{
		{"endpoint", p.Endpoint.IsValid(), p.Endpoint, func(f *fields) { p.Endpoint = f.addrPort(f.next()) }},
		{"allowed", len(allowed) > 0, strings.Join(allowed, ","), p.parseAllowed},
		{"more", p.More != 0, p.More, func(f *fields) { p.More = int(f.number(31)) }},
		{"keepalive", p.Keepalive != 0, p.Keepalive, func(f *fields) { p.Keepalive = uint16(f.number(16)) }},
		{"psk", p.PSK != "", p.PSK, func(f *fields) { p.PSK = f.secretName() }},
		{"dev", true, p.Link, func(f *fields) { p.Link = f.next() }},
	}
}

func (p *WGPeer) parseAllowed(f *fields) {
	for text := range strings.SplitSeq(f.next(), ",") {
		prefix, err := netip.ParsePrefix(text)
		if err != nil {
			f.fail("%w", err)
			return
		}
		family := cidr.FamilyOf(prefix.Addr())
		if p.Allowed[family].IsValid() {
			f.fail("two allowed IPs of %s", family)
		}
		p.Allowed[family] = prefix
	}
}
