package linuxtest

import (
	"errors"
	"fmt"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/drivers/drivertest"
)

// Attributes of a next hop (NHA_*).
const (
	nhaID      = 1
	nhaGroup   = 2
	nhaOIF     = 5
	nhaGateway = 6
	nhaFDB     = 11
)

// nextHopMessage is struct nhmsg.
type nextHopMessage []byte

// Len implements [nl.NetlinkRequestData].
func (m nextHopMessage) Len() int { return len(m) }

// Serialize implements [nl.NetlinkRequestData].
func (m nextHopMessage) Serialize() []byte { return m }

// ask sends a request for which the netlink package has no function.
func (h *Host) ask(request *nl.NetlinkRequest) error {
	socket, err := nl.GetNetlinkSocketAt(h.NS, netns.None(), unix.NETLINK_ROUTE)
	if err != nil {
		return fmt.Errorf("open netlink socket: %w", err)
	}
	defer socket.Close()
	request.Sockets = map[int]*nl.SocketHandle{unix.NETLINK_ROUTE: {Socket: socket}}
	_, err = request.Execute(unix.NETLINK_ROUTE, 0)
	return err
}

// doNextHop adds or deletes a next hop.
func (h *Host) doNextHop(verb drivertest.ActionVerb, o dataplane.NextHop) error {
	message := make(nextHopMessage, 8)
	request := nl.NewNetlinkRequest(unix.RTM_DELNEXTHOP, unix.NLM_F_ACK)
	request.AddData(message)
	request.AddData(nl.NewRtAttr(nhaID, nl.Uint32Attr(uint32(o.ID))))
	if verb == drivertest.Add {
		l, err := h.LinkByName(o.Link)
		if err != nil {
			return err
		}
		request.Type = unix.RTM_NEWNEXTHOP
		request.Flags |= unix.NLM_F_CREATE | unix.NLM_F_EXCL
		message[0], message[2] = unix.AF_INET, dataplane.Protocol
		if o.OnLink {
			nl.NativeEndian().PutUint32(message[4:], unix.RTNH_F_ONLINK)
		}
		request.AddData(nl.NewRtAttr(nhaOIF, nl.Uint32Attr(uint32(l.Attrs().Index))))
		request.AddData(nl.NewRtAttr(nhaGateway, o.Via.AsSlice()))
	} else if verb != drivertest.Remove {
		return errors.New("next hops are only added and deleted")
	}
	return h.ask(request)
}

// divertedTo is the number of the first next hop to which divertFDB leads entries. Forwarding entries use
// only groups of next hops: each family has a next hop, and its group the number after it.
const divertedTo = 0xfdb00

// divertFDB makes a next hop the destination of all forwarding entries of a vxlan device: it deletes
// and adds them, since the kernel refuses to replace a destination by a next hop.
func (h *Host) divertFDB(l netlink.Link) error {
	if _, is := l.(*netlink.Vxlan); !is {
		return fmt.Errorf("%s is not a vxlan device", l.Attrs().Name)
	}
	all, err := h.NeighList(l.Attrs().Index, unix.AF_BRIDGE)
	return each(all, err, func(n netlink.Neigh) error {
		if n.IP == nil {
			return nil // it has one
		}
		family, gateway := byte(unix.AF_INET), n.IP.To4()
		if gateway == nil {
			family, gateway = unix.AF_INET6, n.IP
		}
		id := divertedTo + 2*uint32(family)
		err := errors.Join(h.addFDBNextHop(family, id, nhaGateway, gateway),
			h.addFDBNextHop(unix.AF_UNSPEC, id+1, nhaGroup, append(nl.Uint32Attr(id), 0, 0, 0, 0)),
			h.NeighDel(&n))
		if err != nil {
			return err
		}
		request := nl.NewNetlinkRequest(unix.RTM_NEWNEIGH, unix.NLM_F_CREATE|unix.NLM_F_EXCL|unix.NLM_F_ACK)
		request.AddData(&netlink.Ndmsg{
			Family: unix.AF_BRIDGE, Index: uint32(n.LinkIndex), State: unix.NUD_PERMANENT, Flags: unix.NTF_SELF,
		})
		request.AddData(nl.NewRtAttr(unix.NDA_LLADDR, n.HardwareAddr))
		request.AddData(nl.NewRtAttr(netlink.NDA_NH_ID, nl.Uint32Attr(id+1)))
		return h.ask(request)
	})
}

// addFDBNextHop adds a next hop for forwarding entries, unless it exists.
func (h *Host) addFDBNextHop(family byte, id uint32, attr int, value []byte) error {
	request := nl.NewNetlinkRequest(unix.RTM_NEWNEXTHOP, unix.NLM_F_CREATE|unix.NLM_F_EXCL|unix.NLM_F_ACK)
	message := make(nextHopMessage, 8)
	message[0] = family
	request.AddData(message)
	request.AddData(nl.NewRtAttr(nhaID, nl.Uint32Attr(id)))
	request.AddData(nl.NewRtAttr(attr, value))
	request.AddData(nl.NewRtAttr(nhaFDB, nil))
	err := h.ask(request)
	if errors.Is(err, unix.EEXIST) {
		return nil
	}
	return err
}
