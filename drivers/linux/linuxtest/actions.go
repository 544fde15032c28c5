package linuxtest

import (
	"errors"
	"fmt"
	"net"
	"net/netip"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/drivers/drivertest"
	"github.com/flanneld/flannel/internal/divert"
)

func (h *Host) do(d drivertest.Action) error {
	switch d.Verb {
	case drivertest.Add, drivertest.Append, drivertest.Learn, drivertest.Remove, drivertest.AddBlackhole:
		return h.doObject(d)
	case drivertest.CarrierOn, drivertest.CarrierOff:
		return h.setCarrier(d.Link, d.Verb == drivertest.CarrierOn)
	}
	l, err := h.LinkByName(d.Link)
	if err != nil {
		return err
	}
	switch d.Verb {
	case drivertest.Up:
		return h.LinkSetUp(l)
	case drivertest.Down:
		return h.LinkSetDown(l)
	case drivertest.SetMTU:
		return h.LinkSetMTU(l, d.MTU)
	case drivertest.SetMAC:
		return h.LinkSetHardwareAddr(l, d.MAC[:])
	}
	return h.flush(d.Verb, l)
}

func (h *Host) setCarrier(name string, on bool) error {
	l, err := h.Far.LinkByName(name)
	if err != nil {
		return err
	}
	if on {
		return h.Far.LinkSetUp(l)
	}
	return h.Far.LinkSetDown(l)
}

func (h *Host) doObject(d drivertest.Action) error {
	switch o := d.Object.(type) {
	case dataplane.Link:
		return h.doLink(d.Verb, o)
	case dataplane.Addr:
		l, err := h.LinkByName(o.Link)
		if err != nil {
			return err
		}
		a := &netlink.Addr{IPNet: IPNet(o.Prefix)}
		if o.Prefix.Addr().Is6() {
			a.Flags = unix.IFA_F_NODAD
		}
		if d.Verb == drivertest.Remove {
			return h.AddrDel(l, a)
		}
		return h.AddrAdd(l, a)
	case dataplane.Route:
		return h.doRoute(d.Verb, o)
	case dataplane.NextHop:
		return h.doNextHop(d.Verb, o)
	case dataplane.Neigh:
		return h.doNeigh(d.Verb, o.Link, &netlink.Neigh{IP: o.IP.AsSlice(), HardwareAddr: o.MAC[:]})
	case dataplane.Policy:
		return h.doPolicy(d.Verb, o)
	case dataplane.FDBEntry:
		return h.doNeigh(d.Verb, o.Link, &netlink.Neigh{
			Family: unix.AF_BRIDGE, Flags: netlink.NTF_SELF, IP: o.Dst.AsSlice(), HardwareAddr: o.MAC[:],
		})
	}
	return fmt.Errorf("no action for an object of type %T", d.Object)
}

func (h *Host) doLink(verb drivertest.ActionVerb, o dataplane.Link) error {
	if verb == drivertest.Remove {
		return h.LinkDel(&netlink.Dummy{LinkAttrs: netlink.LinkAttrs{Name: o.Name}})
	}
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.MTU = o.Name, o.MTU
	attrs.HardwareAddr = o.MAC[:]
	veth := &netlink.Veth{LinkAttrs: attrs, PeerName: o.Name, PeerNamespace: netlink.NsFd(h.FarNS)}
	if err := h.LinkAdd(veth); err != nil {
		return err
	}
	if err := h.setCarrier(o.Name, true); err != nil || !o.Up {
		return err
	}
	return h.LinkSetUp(veth)
}

func (h *Host) doRoute(verb drivertest.ActionVerb, o dataplane.Route) error {
	r := &netlink.Route{
		Dst: IPNet(o.Dst), Gw: o.Via.AsSlice(), Priority: int(o.Metric),
		Protocol: netlink.RouteProtocol(o.Protocol), Scope: netlink.Scope(o.Scope), Table: unix.RT_TABLE_MAIN,
	}
	if o.OnLink {
		r.Flags = int(netlink.FLAG_ONLINK)
	}
	if o.Link != "" {
		l, err := h.LinkByName(o.Link)
		if err != nil {
			return err
		}
		r.LinkIndex = l.Attrs().Index
	}
	switch verb {
	case drivertest.Append:
		return h.RouteAppend(r)
	case drivertest.Remove:
		return h.RouteDel(r)
	case drivertest.AddBlackhole:
		r.Type = unix.RTN_BLACKHOLE
	}
	return h.RouteAdd(r)
}

func (h *Host) doNeigh(verb drivertest.ActionVerb, link string, n *netlink.Neigh) error {
	l, err := h.LinkByName(link)
	if err != nil {
		return err
	}
	n.LinkIndex, n.State = l.Attrs().Index, netlink.NUD_PERMANENT
	switch verb {
	case drivertest.Remove:
		return h.NeighDel(n)
	case drivertest.Learn:
		n.State = netlink.NUD_REACHABLE
	}
	return h.NeighAdd(n)
}

func (h *Host) doPolicy(verb drivertest.ActionVerb, o dataplane.Policy) error {
	p := &netlink.XfrmPolicy{
		Src: IPNet(o.Src), Dst: IPNet(o.Dst), Priority: int(o.Priority),
		Dir: map[dataplane.Direction]netlink.Dir{
			dataplane.PolicyIn:      netlink.XFRM_DIR_IN,
			dataplane.PolicyOut:     netlink.XFRM_DIR_OUT,
			dataplane.PolicyForward: netlink.XFRM_DIR_FWD,
		}[o.Dir],
	}
	if o.Action == dataplane.Block {
		p.Action = netlink.XFRM_POLICY_BLOCK
	}
	if o.Action == dataplane.Protect {
		p.Tmpls = []netlink.XfrmPolicyTmpl{{
			Src: o.From.AsSlice(), Dst: o.To.AsSlice(), Reqid: int(o.ReqID),
			Proto: netlink.XFRM_PROTO_ESP, Mode: netlink.XFRM_MODE_TUNNEL,
		}}
	}
	if verb == drivertest.Remove {
		return h.XfrmPolicyDel(p)
	}
	return h.XfrmPolicyAdd(p)
}

func (h *Host) flush(verb drivertest.ActionVerb, l netlink.Link) error {
	index := l.Attrs().Index
	switch verb {
	case drivertest.FlushAddrs:
		all, err := h.AddrList(l, netlink.FAMILY_ALL)
		return each(all, err, func(a netlink.Addr) error {
			if a.Scope != unix.RT_SCOPE_UNIVERSE {
				return nil
			}
			err := h.AddrDel(l, &a)
			if errors.Is(err, unix.EADDRNOTAVAIL) { // a secondary address went with its primary
				return nil
			}
			return err
		})
	case drivertest.FlushRoutes:
		for _, family := range []int{netlink.FAMILY_V4, netlink.FAMILY_V6} {
			all, err := h.RouteListFiltered(family, &netlink.Route{LinkIndex: index}, netlink.RT_FILTER_OIF)
			if err := each(all, err, h.delRoute); err != nil {
				return err
			}
		}
		return nil
	case drivertest.FlushNeighs:
		all, err := h.NeighList(index, netlink.FAMILY_ALL)
		return each(all, err, func(n netlink.Neigh) error {
			if n.State&netlink.NUD_NOARP != 0 { // the kernel's own multicast entries
				return nil
			}
			return h.NeighDel(&n)
		})
	case drivertest.FlushFDB:
		all, err := h.NeighList(index, unix.AF_BRIDGE)
		return each(all, err, func(n netlink.Neigh) error {
			if n.IP == nil { // it has a next hop
				n.IP = net.IPv4zero
			}
			return h.NeighDel(&n)
		})
	case drivertest.DivertFDB:
		return divert.FDB(h.Handle, h.ask, l)
	}
	return fmt.Errorf("unknown verb %q", verb)
}

// delRoute deletes a listed route. One that uses a next hop is listed with the link of that.
func (h *Host) delRoute(r netlink.Route) error {
	err := h.RouteDel(&r)
	if errors.Is(err, unix.ESRCH) {
		return h.RouteDel(&netlink.Route{
			Dst: r.Dst, Priority: r.Priority, Protocol: r.Protocol, Scope: r.Scope, Table: r.Table,
		})
	}
	return err
}

// each calls f for every listed item until f fails.
func each[T any](all []T, err error, f func(T) error) error {
	if err != nil {
		return err
	}
	for _, v := range all {
		if err := f(v); err != nil {
			return err
		}
	}
	return nil
}

// IPNet returns the prefix in the netlink package's form.
func IPNet(p netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), cidr.FamilyOf(p.Addr()).Bits())}
}
