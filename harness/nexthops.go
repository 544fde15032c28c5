package harness

import (
	"errors"
	"fmt"
	"net"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// The netlink package has no functions for next-hop objects.
const (
	nextHopHeader  = 8  // struct nhmsg
	nextHopID      = 1  // NHA_ID
	nextHopGroup   = 2  // NHA_GROUP
	nextHopLink    = 5  // NHA_OIF
	nextHopGateway = 6  // NHA_GATEWAY
	nextHopFDB     = 11 // NHA_FDB
)

// rawData is a part of a netlink message as it is sent.
type rawData []byte

// Len implements [nl.NetlinkRequestData].
func (d rawData) Len() int { return len(d) }

// Serialize implements [nl.NetlinkRequestData].
func (d rawData) Serialize() []byte { return d }

// FlushNextHops removes all next-hop objects of a device, and the routes that use them.
func (h *Host) FlushNextHops(dev string) error {
	return h.onLink(dev, "flush of next hops", func(l netlink.Link) error {
		return h.Do(func() error {
			list := nl.NewNetlinkRequest(unix.RTM_GETNEXTHOP, unix.NLM_F_DUMP)
			list.AddData(make(rawData, nextHopHeader))
			list.AddData(nl.NewRtAttr(nextHopLink, nl.Uint32Attr(uint32(l.Attrs().Index))))
			found, err := list.Execute(unix.NETLINK_ROUTE, unix.RTM_NEWNEXTHOP)
			return errors.Join(err, each(found, deleteNextHop))
		})
	})
}

// deleteNextHop deletes a next hop, given the kernel's message about it.
func deleteNextHop(message []byte) error {
	attrs, err := nl.ParseRouteAttr(message[nextHopHeader:])
	if err != nil {
		return err
	}
	remove := nl.NewNetlinkRequest(unix.RTM_DELNEXTHOP, unix.NLM_F_ACK)
	remove.AddData(make(rawData, nextHopHeader))
	for _, a := range attrs {
		if a.Attr.Type == nextHopID {
			remove.AddData(nl.NewRtAttr(nextHopID, a.Value))
		}
	}
	_, err = remove.Execute(unix.NETLINK_ROUTE, 0)
	return err
}

// divertedTo is the number of the first next hop to which DivertFDB leads entries. Forwarding entries use
// only groups of next hops: each family has a next hop, and its group the number after it.
const divertedTo = 0xfdb00

// DivertFDB makes a next hop the destination of all forwarding entries of a vxlan device. No host has the
// next hop's address. Entries that have a next hop already keep it.
func (h *Host) DivertFDB(dev string) error {
	return h.onLink(dev, "diversion of forwarding entries", func(l netlink.Link) error {
		entries, err := h.nl.NeighList(l.Attrs().Index, unix.AF_BRIDGE)
		return errors.Join(err, each(entries, func(n netlink.Neigh) error {
			if n.IP == nil {
				return nil
			}
			return h.Do(func() error { return h.divert(n) })
		}))
	})
}

// divert deletes an entry and adds one with a next hop: the kernel refuses to replace it by one.
func (h *Host) divert(n netlink.Neigh) error {
	family, gateway := byte(unix.AF_INET), net.IPv4(192, 0, 2, 1).To4()
	if n.IP.To4() == nil {
		family, gateway = unix.AF_INET6, net.ParseIP("2001:db8::1")
	}
	id := divertedTo + 2*uint32(family)
	if err := addFDBNextHop(family, id, nextHopGateway, gateway); err != nil {
		return fmt.Errorf("add next hop %s: %w", gateway, err)
	}
	if err := addFDBNextHop(unix.AF_UNSPEC, id+1, nextHopGroup, append(nl.Uint32Attr(id), 0, 0, 0, 0)); err != nil {
		return fmt.Errorf("add group of next hop %s: %w", gateway, err)
	}
	if err := h.nl.NeighDel(&n); err != nil {
		return err
	}
	add := nl.NewNetlinkRequest(unix.RTM_NEWNEIGH, unix.NLM_F_CREATE|unix.NLM_F_REPLACE|unix.NLM_F_ACK)
	add.AddData(&netlink.Ndmsg{
		Family: unix.AF_BRIDGE, Index: uint32(n.LinkIndex), State: unix.NUD_PERMANENT, Flags: unix.NTF_SELF,
	})
	add.AddData(nl.NewRtAttr(unix.NDA_LLADDR, n.HardwareAddr))
	add.AddData(nl.NewRtAttr(netlink.NDA_NH_ID, nl.Uint32Attr(id+1)))
	_, err := add.Execute(unix.NETLINK_ROUTE, 0)
	return err
}

// addFDBNextHop adds a next hop for forwarding entries, unless it exists.
func addFDBNextHop(family byte, id uint32, attr int, value []byte) error {
	add := nl.NewNetlinkRequest(unix.RTM_NEWNEXTHOP, unix.NLM_F_CREATE|unix.NLM_F_EXCL|unix.NLM_F_ACK)
	header := make(rawData, nextHopHeader)
	header[0] = family
	add.AddData(header)
	add.AddData(nl.NewRtAttr(nextHopID, nl.Uint32Attr(id)))
	add.AddData(nl.NewRtAttr(attr, value))
	add.AddData(nl.NewRtAttr(nextHopFDB, nil))
	_, err := add.Execute(unix.NETLINK_ROUTE, 0)
	if errors.Is(err, unix.EEXIST) {
		return nil
	}
	return err
}
