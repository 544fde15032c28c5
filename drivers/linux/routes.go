package linux

import (
	"fmt"
	"net/netip"

	"golang.org/x/sys/unix"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/drivers/linux/internal/nl"
)

// defaultMetric6 is the metric that the kernel gives an IPv6 route without a metric.
const defaultMetric6 = 1024

// loopbackIndex is that of lo, in every namespace.
const loopbackIndex = 1

// rtaNhID is RTA_NH_ID: the route's hops are in a nexthop object.
const rtaNhID = 0x1e

// Forms of routes that [dataplane.Route] has no field for.
const (
	multipath     = "multipath"
	nexthopObject = "nexthop-object"
	metrics       = "metrics"
)

// hop is one next hop of a route.
type hop struct {
	oif    int
	via    netip.Addr
	onlink bool
	odd    string // properties of the hop that no field describes
}

// route is a route of the main table as the kernel reports it, with links by
// index.
type route struct {
	dst      netip.Prefix
	metric   uint32
	kind     uint8
	scope    uint8
	protocol uint8
	tos      uint8
	hasSrc   bool // an IPv6 route that applies only to packets from a prefix
	src      netip.Addr
	nextHop  dataplane.NextHopID
	object   uint32 // the next-hop object that the route uses, of any family; 0: none
	mtu      int    // of the route alone; 0: that of the link
	hop             // of a route with one
	hops     []hop  // of a multipath route
}

// dumpRoutes reads the main table of a family.
func dumpRoutes(c *nl.Conn, f cidr.Family) ([]byte, error) {
	c.Begin(unix.RTM_GETROUTE, unix.NLM_F_DUMP)
	c.Out.U8(nl.AF(f), 0, 0, 0, unix.RT_TABLE_MAIN, 0, 0, 0)
	c.Out.U32(0)
	c.Out.AttrU32(unix.RTA_TABLE, unix.RT_TABLE_MAIN)
	c.Out.End()
	b, err := c.Dump()
	if nl.IsGone(err) { // the kernel has no such table yet
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("dump %s routes: %w", f, err)
	}
	return b, nil
}

// parseRoute reads an RTM_NEWROUTE. It returns false unless it is a route
// of the main table that every packet may take.
func parseRoute(body []byte, r *route) bool {
	if len(body) < unix.SizeofRtMsg {
		return false
	}
	flags := nl.Native.Uint32(body[8:])
	if flags&unix.RTM_F_CLONED != 0 {
		return false
	}
	*r = route{tos: body[3], protocol: body[5], scope: body[6], kind: body[7], hops: r.hops[:0]}
	r.onlink = flags&unix.RTNH_F_ONLINK != 0
	table := uint32(body[4])
	r.dst = netip.PrefixFrom(netip.IPv6Unspecified(), int(body[1]))
	if body[0] == unix.AF_INET {
		r.dst = netip.PrefixFrom(netip.IPv4Unspecified(), int(body[1]))
	}
	for kind, value := range nl.Attrs(body[unix.SizeofRtMsg:]) {
		switch kind {
		case unix.RTA_DST:
			r.dst = netip.PrefixFrom(nl.Addr(value), int(body[1]))
		case unix.RTA_PRIORITY:
			r.metric = nl.U32(value)
		case unix.RTA_TABLE:
			table = nl.U32(value)
		case unix.RTA_SRC:
			r.hasSrc = true
		case unix.RTA_PREFSRC:
			r.src = nl.Addr(value)
		case unix.RTA_MULTIPATH:
			r.parseHops(value)
		case rtaNhID:
			r.object = nl.U32(value)
			r.nextHop = dataplane.NextHopID(r.object)
		case unix.RTA_METRICS:
			r.mtu = mtuOf(value)
			r.hop.parse(kind, value)
		default:
			r.hop.parse(kind, value)
		}
	}
	if r.nextHop != 0 && body[0] != unix.AF_INET {
		r.odd = nexthopObject
		r.nextHop = 0
	}
	if r.kind != unix.RTN_UNICAST { // IPv6 lets a blackhole lead to the loopback link
		r.oif = 0
	}
	return table == unix.RT_TABLE_MAIN && !r.hasSrc && r.tos == 0
}

// allHops returns the hops of the route, one or several. With net.ipv4.nexthop_compat_mode=0 the kernel
// names only the next-hop object that has them.
func (r *route) allHops(objects nextHopObjects) []hop {
	switch {
	case len(r.hops) > 0:
		return r.hops
	case r.oif == 0 && r.object != 0:
		return objects.hops(r.object)
	}
	return []hop{r.hop}
}

func (h *hop) parse(kind uint16, value []byte) {
	switch kind {
	case unix.RTA_OIF:
		h.oif = int(nl.U32(value))
	case unix.RTA_GATEWAY:
		h.via = nl.Addr(value)
	case unix.RTA_VIA: // a gateway of the other family
		if len(value) > 2 {
			h.via, h.odd = nl.Addr(value[2:]), "via-other-family"
		}
	case unix.RTA_ENCAP:
		h.odd = "encapsulated"
	case unix.RTA_METRICS: // such as an MTU
		if len(value) > 0 && h.odd == "" {
			h.odd = metrics
		}
	}
}

// parseHops reads the struct rtnexthop list of a multipath route.
func (r *route) parseHops(b []byte) {
	for len(b) >= unix.SizeofRtNexthop {
		n := int(nl.Native.Uint16(b))
		if n < unix.SizeofRtNexthop || n > len(b) {
			return
		}
		h := hop{oif: int(nl.Native.Uint32(b[4:])), onlink: b[2]&unix.RTNH_F_ONLINK != 0}
		for kind, value := range nl.Attrs(b[unix.SizeofRtNexthop:n]) {
			h.parse(kind, value)
		}
		r.hops = append(r.hops, h)
		b = b[min(nl.Align(n), len(b)):]
	}
}

// leavesBy reports whether a hop of the route is one of the links.
func (r *route) leavesBy(links map[int]string) bool {
	if _, ok := links[r.oif]; ok && r.oif != 0 {
		return true
	}
	for _, h := range r.hops {
		if _, ok := links[h.oif]; ok {
			return true
		}
	}
	return false
}

// value returns the route with its link by name.
func (r *route) value(ls *links) (dataplane.Route, error) {
	name, err := ls.nameOf(r.oif)
	if err != nil {
		return dataplane.Route{}, err
	}
	v := dataplane.Route{
		RouteKey: r.key(),
		Link:     name, Via: r.via, OnLink: r.onlink, NextHop: r.nextHop,
		Scope: dataplane.Scope(r.scope), Protocol: r.protocol,
		Other: r.other(),
	}
	if r.kind == unix.RTN_BLACKHOLE {
		v.Kind = dataplane.Blackhole
	}
	return v, nil
}

func (r *route) key() dataplane.RouteKey {
	k := dataplane.RouteKey{Dst: r.dst, Metric: r.metric}
	if r.dst.Addr().Is6() && k.Metric == defaultMetric6 {
		k.Metric = 0
	}
	return k
}

// other names the properties for which dataplane.Route has no field.
func (r *route) other() string {
	switch {
	case r.kind == unix.RTN_BLACKHOLE:
		return ""
	case r.kind != unix.RTN_UNICAST:
		return routeType(r.kind)
	case len(r.hops) > 0:
		return multipath
	case r.odd == metrics && r.protocol != dataplane.Protocol: // where packets go does not depend on them
		return ""
	}
	return r.odd
}

func routeType(kind uint8) string {
	switch kind {
	case unix.RTN_UNREACHABLE:
		return "unreachable"
	case unix.RTN_PROHIBIT:
		return "prohibit"
	case unix.RTN_THROW:
		return "throw"
	}
	return fmt.Sprintf("type-%d", kind)
}

// putRoute writes a message about a route through the link with that index.
func putRoute(c *nl.Conn, kind, flags uint16, r dataplane.Route, oif int) {
	family, rtype := cidr.FamilyOf(r.Dst.Addr()), byte(unix.RTN_UNICAST)
	if r.Kind == dataplane.Blackhole {
		rtype = unix.RTN_BLACKHOLE
	}
	switch {
	case r.Other != "": // only to delete: any route with this key and protocol
		rtype, oif = unix.RTN_UNSPEC, 0
		r.Via = netip.Addr{}
	case kind == unix.RTM_DELROUTE && family == cidr.V6 && !r.Via.IsValid():
		// A missing gateway would match any, and so would a missing link:
		// to the kernel, blackholes lie on loopback.
		r.Via = netip.IPv6Unspecified()
		if r.Kind == dataplane.Blackhole {
			oif = loopbackIndex
		}
	}
	if r.NextHop != 0 { // the kernel takes either a next hop or what describes one
		r.Via, r.OnLink = netip.Addr{}, false
		oif = 0
	}
	var nexthop uint32
	if r.OnLink {
		nexthop = unix.RTNH_F_ONLINK
	}
	metric := r.Metric
	if family == cidr.V6 && metric == 0 {
		metric = defaultMetric6
	}
	c.Begin(kind, flags)
	c.Out.U8(nl.AF(family), byte(r.Dst.Bits()), 0, 0, unix.RT_TABLE_MAIN, r.Protocol, byte(r.Scope), rtype)
	c.Out.U32(nexthop)
	c.Out.AttrAddr(unix.RTA_DST, r.Dst.Addr())
	if r.Via.IsValid() {
		c.Out.AttrAddr(unix.RTA_GATEWAY, r.Via)
	}
	if oif != 0 {
		c.Out.AttrU32(unix.RTA_OIF, uint32(oif))
	}
	if r.NextHop != 0 && r.Other == "" {
		c.Out.AttrU32(rtaNhID, uint32(r.NextHop))
	}
	if metric != 0 {
		c.Out.AttrU32(unix.RTA_PRIORITY, metric)
	}
	c.Out.End()
}
