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

func (i IPIP) words(l *line) {
	l.add(i.Parent != "", "dev %s", i.Parent)
	l.add(i.Local.IsValid(), "local %s", i.Local)
	l.add(i.Remote.IsValid(), "remote %s", i.Remote)
	l.add(i.TTL != 0, "ttl %d", i.TTL)
	l.add(i.PMTUDisc, "pmtudisc")
}

func (i IPIP) withWord(word string, f *fields) (LinkParams, bool) {
	switch word {
	case "dev":
		i.Parent = f.next()
	case "local":
		i.Local = f.addr(f.next())
	case "remote":
		i.Remote = f.addr(f.next())
	case "ttl":
		i.TTL = uint8(f.number(8))
	case "pmtudisc":
		i.PMTUDisc = true
	default:
		return i, false
	}
	return i, true
}

// become refuses the change that Linux refuses (net/ipv4/ip_tunnel.c,
// ip_tunnel_changelink): a tunnel to one host stays one to one host.
func (i IPIP) become(params LinkParams) error {
	if i.Remote.IsValid() != params.(IPIP).Remote.IsValid() {
		return errors.New("a tunnel with a remote address cannot become one without, or the reverse")
	}
	return nil
}
