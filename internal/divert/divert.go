package divert

import (
	"errors"
	"fmt"
	"net"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// Attributes of a next hop (Linux include/uapi/linux/nexthop.h), for which the netlink package has
// no functions.
const (
	nhaID      = 1
	nhaGroup   = 2
	nhaGateway = 6
	nhaFDB     = 11
)

// firstID is the number of the first next hop. Forwarding entries use only groups of next hops: each
// family has a next hop, and its group the number after it.
const firstID = 0xfdb00

// nextHopMessage is struct nhmsg.
type nextHopMessage [8]byte

// Len implements [nl.NetlinkRequestData].
func (m nextHopMessage) Len() int { return len(m) }

// Serialize implements [nl.NetlinkRequestData].
func (m nextHopMessage) Serialize() []byte { return m[:] }

// Tables are the neighbour tables of a host.
type Tables interface {
	NeighList(link, family int) ([]netlink.Neigh, error)
	NeighDel(*netlink.Neigh) error
}

// FDB makes a next hop the destination of all forwarding entries of a vxlan device. No host has the
// next hop's address. Entries that have a next hop already keep it. Ask sends a request in the
// namespace of the tables.
func FDB(t Tables, ask func(*nl.NetlinkRequest) error, l netlink.Link) error {
	if _, is := l.(*netlink.Vxlan); !is {
		return fmt.Errorf("%s is not a vxlan device", l.Attrs().Name)
	}
	entries, err := t.NeighList(l.Attrs().Index, unix.AF_BRIDGE)
	if err != nil {
		return fmt.Errorf("list forwarding entries of %s: %w", l.Attrs().Name, err)
	}
	for _, e := range entries {
		if e.IP == nil {
			continue
		}
		if err := divert(t, ask, e); err != nil {
			return fmt.Errorf("divert %s: %w", e.HardwareAddr, err)
		}
	}
	return nil
}

// divert deletes an entry and adds one with a next hop: the kernel refuses to replace it by one.
func divert(t Tables, ask func(*nl.NetlinkRequest) error, e netlink.Neigh) error {
	family, gateway := byte(unix.AF_INET), net.IPv4(192, 0, 2, 1).To4()
	if e.IP.To4() == nil {
		family, gateway = unix.AF_INET6, net.ParseIP("2001:db8::1")
	}
	id := firstID + 2*uint32(family)
	if err := addNextHop(ask, family, id, nhaGateway, gateway); err != nil {
		return fmt.Errorf("add next hop %s: %w", gateway, err)
	}
	if err := addNextHop(ask, unix.AF_UNSPEC, id+1, nhaGroup, append(nl.Uint32Attr(id), 0, 0, 0, 0)); err != nil {
		return fmt.Errorf("add group of next hop %s: %w", gateway, err)
	}
	if err := t.NeighDel(&e); err != nil {
		return err
	}
	add := nl.NewNetlinkRequest(unix.RTM_NEWNEIGH, unix.NLM_F_CREATE|unix.NLM_F_EXCL|unix.NLM_F_ACK)
	add.AddData(&netlink.Ndmsg{
		Family: unix.AF_BRIDGE, Index: uint32(e.LinkIndex), State: unix.NUD_PERMANENT, Flags: unix.NTF_SELF,
	})
	add.AddData(nl.NewRtAttr(unix.NDA_LLADDR, e.HardwareAddr))
	add.AddData(nl.NewRtAttr(netlink.NDA_NH_ID, nl.Uint32Attr(id+1)))
	return ask(add)
}

// addNextHop adds a next hop for forwarding entries, unless it exists.
func addNextHop(ask func(*nl.NetlinkRequest) error, family byte, id uint32, attr int, value []byte) error {
	add := nl.NewNetlinkRequest(unix.RTM_NEWNEXTHOP, unix.NLM_F_CREATE|unix.NLM_F_EXCL|unix.NLM_F_ACK)
	add.AddData(nextHopMessage{family})
	add.AddData(nl.NewRtAttr(nhaID, nl.Uint32Attr(id)))
	add.AddData(nl.NewRtAttr(attr, value))
	add.AddData(nl.NewRtAttr(nhaFDB, nil))
	if err := ask(add); !errors.Is(err, unix.EEXIST) {
		return err
	}
	return nil
}
