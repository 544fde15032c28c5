package dataplane

import (
	"cmp"
	"net/netip"
)

// The route protocols that matter to flannel (rtm_protocol).
const (
	// ProtocolKernel marks routes that the kernel made itself, for example for a
	// connected subnet (RTPROT_KERNEL).
	ProtocolKernel = 2

	// ProtocolRA marks routes from a router's announcements (RTPROT_RA).
	ProtocolRA = 9

	// ProtocolBoot marks routes that were made without a protocol (RTPROT_BOOT);
	// upstream flannel makes its routes this way (interop 6.0).
	ProtocolBoot = 3

	// Protocol marks our routes, so that a restart without memory recognises
	// them. The number is free in iproute2's rt_protos.
	Protocol = 102
)

// Scope is the distance to a route's destination (rtm_scope).
type Scope uint8

// The scopes flannel uses. IPv6 routes always read back as ScopeGlobal.
const (
	ScopeGlobal Scope = 0
	ScopeLink   Scope = 253
)

// RouteKey identifies a route of the main table. The metric is the kernel's,
// with an IPv6 route's default of 1024 written as 0.
type RouteKey struct {
	Dst    netip.Prefix
	Metric uint32
}

// Compare orders keys by destination, a wider prefix before a narrower one, then by metric.
func (k RouteKey) Compare(o RouteKey) int {
	return cmp.Or(comparePrefixes(k.Dst, o.Dst), cmp.Compare(k.Metric, o.Metric))
}

// Key returns the key.
func (k RouteKey) Key() RouteKey { return k }

// RouteKind says whether a route forwards packets or drops them (rtm_type).
type RouteKind string

// The kinds flannel uses.
const (
	Unicast   RouteKind = ""          // packets go to the next hop
	Blackhole RouteKind = "blackhole" // the kernel drops packets; the route has no link and no gateway
)

// Route is a route of the main table with at most one next hop.
type Route struct {
	RouteKey
	Kind   RouteKind
	Link   string
	Via    netip.Addr // zero: directly connected
	OnLink bool       // the gateway is reachable on Link whatever the addresses say
	// NextHop is the object that the route uses, 0 for a route with a gateway of its own. Link,
	// Via and OnLink are those of the object. Only IPv4 routes have one.
	NextHop  NextHopID
	Scope    Scope
	Protocol uint8
	// Other is set by a driver that read a route which the fields above do not
	// describe, such as a multipath route. It is never wanted.
	Other string
}

// String returns the canonical form, such as
// "route 10.5.3.0/24 via 10.5.3.0 dev flannel.1 onlink". The protocol is
// shown unless it is ours.
func (r Route) String() string {
	return textOf(r.params(), "route %s", r.Dst)
}

func (Route) kind() *kind { return &routeKind }

var routeKind = tableKind("route", parseRoute, func(s *State) *Table[RouteKey, Route] { return &s.Routes })

func parseRoute(f *fields) Object {
	r := Route{RouteKey: RouteKey{Dst: f.prefix()}, Protocol: Protocol}
	f.params(r.params())
	return r
}

// params lists the parameters in the order of the canonical form.
func (r *Route) params() []param {
	return []param{
		{string(Blackhole), r.Kind == Blackhole, nil, func(*fields) { r.Kind = Blackhole }},
		{"nhid", r.NextHop != 0, r.NextHop, func(f *fields) { r.NextHop = parseNextHopID(f) }},
		{"via", r.Via.IsValid(), r.Via, func(f *fields) { r.Via = f.addr(f.next()) }},
		{"dev", r.Link != "", r.Link, func(f *fields) { r.Link = f.next() }},
		{"onlink", r.OnLink, nil, func(*fields) { r.OnLink = true }},
		{"scope", r.Scope != ScopeGlobal, r.Scope, func(f *fields) { r.Scope = Scope(f.number(8)) }},
		{"metric", r.Metric != 0, r.Metric, func(f *fields) { r.Metric = uint32(f.number(32)) }},
		{"proto", r.Protocol != Protocol, r.Protocol, func(f *fields) { r.Protocol = uint8(f.number(8)) }},
		{"other", r.Other != "", r.Other, func(f *fields) { r.Other = f.next() }},
	}
}
