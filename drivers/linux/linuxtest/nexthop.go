package linuxtest

import (
	"errors"
	"fmt"

	"github.com/vishvananda/netlink/nl"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/drivers/drivertest"
)

// Attributes of a next hop (NHA_*).
const (
	nhaID      = 1
	nhaOIF     = 5
	nhaGateway = 6
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
