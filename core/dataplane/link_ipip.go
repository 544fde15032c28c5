package dataplane

import (
	"errors"
	"net/netip"
)

// LinkIPIP is the kernel's name for the kind of [IPIP].
const LinkIPIP LinkKind = "ipip"

// IPIP holds the parameters of an IPv4-in-IPv4 tunnel (RFC 2003, Linux
// net/ipv4/ipip.c). Without a remote address, the gateway of a packet's route is
// the other end.
type IPIP struct {
	Parent   string     // name of the underlay link; "": the routes choose it
	Local    netip.Addr // outer source address
	Remote   netip.Addr // other end of the tunnel, invalid if it has many
	TTL      uint8      // of outer packets; 0: as the inner packet
	PMTUDisc bool       // outer packets carry DF even if the inner packet does not
}

// Kind implements [LinkParams].
func (IPIP) Kind() LinkKind { return LinkIPIP }

// params lists the parameters in the order of the canonical form.
func (i *IPIP) params() []param {
	return []param{
		{"dev", i.Parent != "", i.Parent, func(f *fields) { i.Parent = f.next() }},
		{"local", i.Local.IsValid(), i.Local, func(f *fields) { i.Local = f.addr(f.next()) }},
		{"remote", i.Remote.IsValid(), i.Remote, func(f *fields) { i.Remote = f.addr(f.next()) }},
		{"ttl", i.TTL != 0, i.TTL, func(f *fields) { i.TTL = uint8(f.number(8)) }},
		{"pmtudisc", i.PMTUDisc, nil, func(*fields) { i.PMTUDisc = true }},
	}
}

func (i IPIP) words(l *line) { addParams(l, i.params()) }

func (i IPIP) withWord(word string, f *fields) (LinkParams, bool) {
	ok := readParam(i.params(), word, f)
	return i, ok
}

// become refuses the change that Linux refuses (net/ipv4/ip_tunnel.c,
// ip_tunnel_changelink): a tunnel to one host stays one to one host.
func (i IPIP) become(params LinkParams) error {
	if i.Remote.IsValid() != params.(IPIP).Remote.IsValid() {
		return errors.New("a tunnel with a remote address cannot become one without, or the reverse")
	}
	return nil
}
