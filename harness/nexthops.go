package harness

import (
	"errors"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/flanneld/flannel/internal/divert"
)

// The netlink package has no functions for next-hop objects.
const (
	nextHopHeader = 8 // struct nhmsg
	nextHopID     = 1 // NHA_ID
	nextHopLink   = 5 // NHA_OIF
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

// DivertFDB makes a next hop the destination of all forwarding entries of a vxlan device. No host has the
// next hop's address. Entries that have a next hop already keep it.
func (h *Host) DivertFDB(dev string) error {
	ask := func(r *nl.NetlinkRequest) error {
		return h.Do(func() error {
			_, err := r.Execute(unix.NETLINK_ROUTE, 0)
			return err
		})
	}
	return h.onLink(dev, "diversion of forwarding entries", func(l netlink.Link) error {
		return divert.FDB(h.nl, ask, l)
	})
}
