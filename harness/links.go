package harness

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/dataplane"
)

// pollEvery is the shortest interval for polling a condition that has no announcement.
const pollEvery = 10 * time.Millisecond

// SetUp sets a device administratively up.
func (h *Host) SetUp(dev string) error { return h.onLink(dev, "set up", h.nl.LinkSetUp) }

// waitUp waits until a device that is set up has noticed its carrier and may use
// its addresses. The kernel does both a little later, and until then drops outgoing
// packets.
func (h *Host) waitUp(ctx context.Context, dev string) error {
	return h.Await(ctx, "device "+dev+" to be usable", func() (bool, error) {
		link, err := h.link(dev)
		if err != nil {
			return false, err
		}
		// A bridge that never lost its carrier stays in state "unknown".
		const running = unix.IFF_RUNNING | unix.IFF_LOWER_UP
		idle := link.Type() == "bridge" && link.Attrs().RawFlags&running == running
		if !idle && link.Attrs().OperState != netlink.OperUp {
			return false, nil
		}
		addrs, err := h.nl.AddrList(link, unix.AF_INET6)
		tentative := slices.ContainsFunc(addrs, func(a netlink.Addr) bool { return a.Flags&unix.IFA_F_TENTATIVE != 0 })
		return !tentative, err
	})
}

// Await waits for a condition that has no announcement. An error ends the wait. After each look
// it rests for at least as long as the look took.
func (h *Host) Await(ctx context.Context, what string, condition func() (bool, error)) error {
	for {
		began := time.Now()
		if ok, err := condition(); ok || err != nil {
			return err
		}
		select {
		case <-time.After(max(pollEvery, time.Since(began))):
		case <-ctx.Done():
			if ok, err := condition(); ok || err != nil { // the rest may have been long
				return err
			}
			return fmt.Errorf("host %s: wait for %s: %w", h.Name, what, context.Cause(ctx))
		}
	}
}

// SetDown sets a device administratively down. The kernel drops every route
// through it, and its IPv6 addresses.
func (h *Host) SetDown(dev string) error { return h.onLink(dev, "set down", h.nl.LinkSetDown) }

// DeleteLink removes a device.
func (h *Host) DeleteLink(dev string) error { return h.onLink(dev, "deletion", h.nl.LinkDel) }

// SetMAC changes a device's Ethernet address.
func (h *Host) SetMAC(dev string, mac dataplane.MAC) error {
	return h.onLink(dev, "change of MAC", func(l netlink.Link) error {
		return h.nl.LinkSetHardwareAddr(l, net.HardwareAddr(mac[:]))
	})
}

// Enslave makes a device a port of a bridge.
func (h *Host) Enslave(dev, master string) error {
	return h.onLink(dev, "new master "+master, func(l netlink.Link) error {
		m, err := h.link(master)
		if err != nil {
			return err
		}
		return h.nl.LinkSetMasterByIndex(l, m.Attrs().Index)
	})
}

// ProtoDown keeps a device without a carrier, as routing daemons do.
func (h *Host) ProtoDown(dev string) error {
	return h.setAttr(dev, "protodown", nl.NewRtAttr(unix.IFLA_PROTO_DOWN, []byte{1}))
}

// SetTTL makes a vxlan device send its packets with a TTL.
func (h *Host) SetTTL(dev string, ttl uint8) error {
	info := nl.NewRtAttr(unix.IFLA_LINKINFO, nil)
	info.AddRtAttr(nl.IFLA_INFO_KIND, nl.NonZeroTerminated("vxlan"))
	info.AddRtAttr(nl.IFLA_INFO_DATA, nil).AddRtAttr(nl.IFLA_VXLAN_TTL, []byte{ttl})
	return h.setAttr(dev, fmt.Sprintf("ttl %d", ttl), info)
}

// setAttr sets an attribute of a device for which the netlink package has no function.
func (h *Host) setAttr(dev, what string, attr *nl.RtAttr) error {
	return h.onLink(dev, what, func(l netlink.Link) error {
		return h.Do(func() error {
			set := nl.NewNetlinkRequest(unix.RTM_NEWLINK, unix.NLM_F_ACK)
			head := nl.NewIfInfomsg(unix.AF_UNSPEC)
			head.Index = int32(l.Attrs().Index)
			set.AddData(head)
			set.AddData(attr)
			_, err := set.Execute(unix.NETLINK_ROUTE, 0)
			return err
		})
	})
}

// SetMTU changes a device's MTU.
func (h *Host) SetMTU(dev string, mtu int) error {
	return h.onLink(dev, "change of MTU", func(l netlink.Link) error { return h.nl.LinkSetMTU(l, mtu) })
}

// AddAddr adds an address to a device, usable at once.
func (h *Host) AddAddr(dev string, addr netip.Prefix) error {
	return h.onLink(dev, "address "+addr.String(), func(l netlink.Link) error {
		a := &netlink.Addr{IPNet: ipNet(addr)}
		if addr.Addr().Is6() {
			a.Flags = unix.IFA_F_NODAD
		}
		return h.nl.AddrAdd(l, a)
	})
}

// DelAddr removes an address from a device. The kernel drops the routes whose
// gateway was reachable by it.
func (h *Host) DelAddr(dev string, addr netip.Prefix) error {
	return h.onLink(dev, "removal of address "+addr.String(), func(l netlink.Link) error {
		return h.nl.AddrDel(l, &netlink.Addr{IPNet: ipNet(addr)})
	})
}

// AddRoute adds or replaces a foreign route: it carries no mark of flannel.
// Without a gateway it is connected.
func (h *Host) AddRoute(dst netip.Prefix, via netip.Addr, dev string) error {
	return h.onLink(dev, "route "+dst.String(), func(l netlink.Link) error {
		return h.nl.RouteReplace(&netlink.Route{Dst: ipNet(dst), Gw: via.AsSlice(), LinkIndex: l.Attrs().Index})
	})
}

// DelRoute removes a route.
func (h *Host) DelRoute(dst netip.Prefix) error {
	if err := h.nl.RouteDel(&netlink.Route{Dst: ipNet(dst)}); err != nil {
		return fmt.Errorf("host %s: delete route %s: %w", h.Name, dst, err)
	}
	return nil
}

// FlushRoutes removes all routes of the main table through a device.
func (h *Host) FlushRoutes(dev string) error {
	return h.onLink(dev, "flush of routes", func(l netlink.Link) error {
		filter := &netlink.Route{LinkIndex: l.Attrs().Index, Table: unix.RT_TABLE_MAIN}
		return eachFamily(func(f cidr.Family) error {
			routes, err := h.nl.RouteListFiltered(nlFamily(f), filter, netlink.RT_FILTER_OIF|netlink.RT_FILTER_TABLE)
			return errors.Join(err, each(routes, func(r netlink.Route) error {
				err := h.nl.RouteDel(&r)
				if errors.Is(err, unix.ESRCH) { // the link is that of the next hop that the route uses
					return h.nl.RouteDel(&netlink.Route{Dst: r.Dst, Priority: r.Priority, Protocol: r.Protocol, Table: r.Table})
				}
				return err
			}))
		})
	})
}

// FlushNeighs removes all neighbours (ARP, NDP) of a device, permanent ones
// included.
func (h *Host) FlushNeighs(dev string) error {
	return h.onLink(dev, "flush of neighbours", func(l netlink.Link) error {
		return eachFamily(func(f cidr.Family) error {
			neighs, err := h.nl.NeighList(l.Attrs().Index, nlFamily(f))
			return errors.Join(err, each(neighs, func(n netlink.Neigh) error {
				if n.State&netlink.NUD_NOARP != 0 {
					return nil // multicast and the like: the kernel's own entries
				}
				return h.nl.NeighDel(&n)
			}))
		})
	})
}

// forgetUnanswered removes the neighbours that have not answered a request yet.
func (h *Host) forgetUnanswered() error {
	return eachFamily(func(f cidr.Family) error {
		neighs, err := h.nl.NeighList(0, nlFamily(f))
		return errors.Join(err, each(neighs, func(n netlink.Neigh) error {
			if n.State != netlink.NUD_INCOMPLETE {
				return nil
			}
			return h.nl.NeighDel(&n)
		}))
	})
}

// FlushFDB removes all forwarding entries of a vxlan device.
func (h *Host) FlushFDB(dev string) error {
	return h.onLink(dev, "flush of forwarding entries", func(l netlink.Link) error {
		entries, err := h.nl.NeighList(l.Attrs().Index, unix.AF_BRIDGE)
		return errors.Join(err, each(entries, func(n netlink.Neigh) error {
			if n.IP == nil { // it has a next hop
				n.IP = net.IPv4zero
			}
			return h.nl.NeighDel(&n)
		}))
	})
}

// FlushAddrs removes all addresses of global scope of a device.
func (h *Host) FlushAddrs(dev string) error {
	return h.onLink(dev, "flush of addresses", func(l netlink.Link) error {
		addrs, err := h.nl.AddrList(l, netlink.FAMILY_ALL)
		return errors.Join(err, each(addrs, func(a netlink.Addr) error {
			if a.Scope != unix.RT_SCOPE_UNIVERSE {
				return nil
			}
			return h.nl.AddrDel(l, &a)
		}))
	})
}

// eachFamily calls do for both address families and joins the errors.
func eachFamily(do func(cidr.Family) error) error { return each(cidr.Families[:], do) }

// each calls do for all elements and joins the errors. An element that is gone is
// not an error.
func each[E any](elements []E, do func(E) error) error {
	var errs []error
	for _, e := range elements {
		if err := do(e); err != nil && !errors.Is(err, unix.ESRCH) && !errors.Is(err, unix.ENOENT) {
			errs = append(errs, fmt.Errorf("%v: %w", e, err))
		}
	}
	return errors.Join(errs...)
}
