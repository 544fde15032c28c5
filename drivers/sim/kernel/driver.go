package kernel

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/driver"
)

// hostDriver is the kernel lane of a host, as one process sees it. Its calls
// take no virtual time.
type hostDriver struct {
	h      *Host
	paths  *paths
	memory lookMemory
}

var _ driver.Lane = (*hostDriver)(nil)

// Driver returns the kernel lane of the host, as a process sees it that never
// ends. Each process of a daemon has a lane of its own.
func (h *Host) Driver() driver.Lane { return h.lane }

func (d *hostDriver) Hints() <-chan struct{} { return d.h.hints.channel }

func (d *hostDriver) Apply(ctx context.Context, ops []dataplane.Op) []error {
	errs := make([]error, len(ops))
	d.h.world.Fold([]byte(d.h.opLabel)) // the host of the ops that follow; the event has their time
	for i, op := range ops {
		err := ctx.Err()
		if err == nil {
			err = d.h.refusal()
		}
		if err == nil {
			err = d.apply(op)
		}
		if err != nil {
			errs[i] = fmt.Errorf("%s: %w", op, err)
		}
		d.h.noteOp(op, err)
	}
	if len(ops) > 0 {
		d.h.seen.follow(d.h.changed, ops)
		d.h.changed++
		d.announce(ops)
	}
	return errs
}

// announce hints at the driver's own changes. The driver itself needs no hint at changes of
// few single objects, as drivers/linux does not.
func (d *hostDriver) announce(ops []dataplane.Op) {
	if len(ops) > fewOps || slices.ContainsFunc(ops, heard) {
		d.memory = lookMemory{}
		d.h.hint(nil)
		return
	}
	d.memory.follow(ops)
	before := d.h.told
	d.h.hint(d.paths)
	d.memory.told += d.h.told - before
}

func (d *hostDriver) apply(op dataplane.Op) error {
	switch o := op.Object.(type) {
	case dataplane.Proxy:
		return d.paths.apply(op.Verb, o)
	case dataplane.Peer:
		return d.paths.applyPeer(op.Verb, o)
	case dataplane.Link:
		if want, ok := o.Params.(dataplane.WireGuard); ok {
			return d.applyWireGuard(op.Verb, o, want)
		}
	case dataplane.WGPeer:
		psk, err := d.paths.psk(o.PSK)
		if err != nil && op.Verb != dataplane.Delete {
			return err
		}
		return d.h.stack.applyWGPeer(op.Verb, o, psk)
	}
	return d.h.stack.apply(op)
}

// Look implements [driver.Lane]. It returns the same state again as long as
// nothing has changed.
func (d *hostDriver) Look(ctx context.Context, extent dataplane.Extent) (driver.Observation, error) {
	if err := d.h.readable(ctx); err != nil {
		return driver.Observation{}, err
	}
	d.paths.psks = extent.PSKs
	again, extent := extent.Again, extent.Whole()
	seen := &d.h.seen
	if !seen.holds(d, extent) {
		*seen = cachedLook{paths: d.paths, extent: extent, changed: d.h.changed, state: d.observe(extent)}
	} else if len(seen.ops) > 0 {
		seen.state = d.h.stack.observeAgain(seen.state, extent, seen.ops)
		seen.ops = nil
	}
	seen.state = d.observeWireGuard(d.running(seen.state, extent), extent)
	state := d.remembered(seen.state, extent, again)
	return driver.Observation{State: state, Facts: d.answer(d.h.Facts(extent.Reach...), extent)}, nil
}

// running returns the state with the current counters of the packet paths; they
// count without a change of the host.
func (d *hostDriver) running(state *dataplane.State, extent dataplane.Extent) *dataplane.State {
	if len(state.Proxies) == 0 {
		return state
	}
	now := *state
	now.Running = map[string]dataplane.Running{}
	for _, name := range extent.Links {
		d.paths.observeRunning(&now, name)
	}
	if maps.EqualFunc(now.Running, state.Running, dataplane.Running.Equal) {
		return state
	}
	return &now
}

// Facts returns the facts of the kernel lane, with the routes to the given
// addresses, which must be in order.
func (h *Host) Facts(reach ...netip.Addr) driver.HostFacts {
	c := &h.facts
	if c.changed != h.changed || !slices.Equal(c.reach, reach) {
		*c = cachedFacts{h.changed, reach, h.stack.facts(dataplane.Extent{Reach: reach})}
	}
	return c.facts
}

// cachedFacts are valid as long as nothing on the host has changed.
type cachedFacts struct {
	changed uint64       // 0: never read
	reach   []netip.Addr // for which routes were read
	facts   driver.HostFacts
}

// underlay reports whether the route can be among the facts.
func (r *route) underlay() bool { return r.link != nil && r.proto != dataplane.Protocol }

func (s *stack) facts(extent dataplane.Extent) driver.HostFacts {
	facts := driver.HostFacts{NextHops: true}
	for _, l := range s.links {
		facts.Links = append(facts.Links, l.fact())
	}
	for _, f := range cidr.Families {
		asked := func(r *route) bool { return r.underlay() && extent.Reaches(r.dst) }
		// Compact routes are flannel's own.
		for _, r := range s.fibs[f].list(maps.Keys(s.fibs[f].lists), asked) {
			facts.Routes = append(facts.Routes, r.fact())
		}
	}
	return facts
}

func (l *link) fact() driver.Link {
	out := driver.Link{
		Name: l.name, Index: l.index, MTU: l.mtu, Up: l.up,
		Loopback: l.device == loopback, Bridge: l.device == bridge, Master: l.master, MAC: l.mac,
		Inside:    l.device == bridge || l.device == ethernet,
		NoCarrier: l.up && (!l.carrier || l.held),
	}
	for _, f := range cidr.Families {
		out.NoForwarding[f] = l.stack.forwardsNothing(l, f)
		for _, a := range l.addrs[f] {
			out.Addrs = append(out.Addrs, driver.LinkAddr{
				Prefix: a.prefix, Permanent: true,
				LinkLocal: a.prefix.Addr().IsLinkLocalUnicast(),
			})
			ofNetwork := !a.prefix.IsSingleIP() && !a.prefix.Addr().IsLinkLocalUnicast()
			out.Inside = out.Inside && (l.device == bridge || !ofNetwork)
		}
	}
	return out
}

func (r *route) fact() driver.Route {
	out := driver.Route{Dst: r.dst, Metric: r.metric, Src: r.src}
	for _, h := range r.hops() {
		out.Hops = append(out.Hops, driver.Hop{Link: h.link.name, Via: h.via})
	}
	return out
}

func (d *hostDriver) observe(extent dataplane.Extent) *dataplane.State {
	s := d.h.stack
	state := dataplane.NewState()
	for _, name := range extent.Links {
		if l := s.link(name); l != nil {
			l.observe(state)
			d.paths.observe(state, name)
		}
	}
	s.observeAll(state, extent)
	s.observeNextHops(state)
	s.observePolicies(state, extent)
	for _, c := range extent.Sysctls {
		if value, ok := s.sysctls[c.Path]; ok {
			c.Value = value
			state.AddSysctl(c)
		}
	}
	return state
}

func (l *link) observe(state *dataplane.State) {
	state.AddLink(dataplane.Link{
		Name: l.name, MTU: l.mtu, MAC: l.mac, Up: l.up, Master: l.master, ProtoDown: l.held, Params: l.device.params(),
	})
	for _, f := range cidr.Families {
		for _, a := range l.addrs[f] {
			if !linkScope(a.prefix.Addr()) && l.device != loopback {
				state.AddAddr(dataplane.Addr{Link: l.name, Prefix: a.prefix})
			}
		}
	}
}

// observeAll adds all neighbours, FDB entries and routes within the extent.
func (s *stack) observeAll(state *dataplane.State, extent dataplane.Extent) {
	for _, name := range extent.Links {
		l := s.link(name)
		if l == nil {
			continue
		}
		for ip, n := range l.neighs.all {
			l.observeNeigh(state, ip, n)
		}
		for mac, e := range l.fdb.all {
			l.observeFDB(state, mac, e)
		}
	}
	for _, f := range cidr.Families {
		for dst := range s.fibs[f].lists {
			s.fibs[f].observeAt(state, dst, extent)
		}
		for _, number := range s.fibs[f].plain.all {
			r := s.fibs[f].open(number)
			r.observe(state, extent)
		}
	}
}

func (l *link) observeNeigh(state *dataplane.State, ip netip.Addr, n neigh) {
	if n.permanent {
		state.AddNeigh(dataplane.Neigh{NeighKey: dataplane.NeighKey{Link: l.name, IP: ip}, MAC: n.value})
	}
}

func (l *link) observeFDB(state *dataplane.State, mac dataplane.MAC, e fdbEntry) {
	if e.permanent {
		state.AddFDB(dataplane.FDBEntry{FDBKey: dataplane.FDBKey{Link: l.name, MAC: mac}, Dst: e.value})
	}
}

// observeAt adds the routes to a destination within the extent; of routes with
// one key it adds the one that the kernel would use first. A route outside the
// extent hides none inside it.
func (f *fib) observeAt(state *dataplane.State, dst netip.Prefix, extent dataplane.Extent) {
	for _, r := range f.at(dst) {
		r.observe(state, extent)
	}
}

// observe adds the route if it is within the extent and the first of its key.
func (r *route) observe(state *dataplane.State, extent dataplane.Extent) {
	if r.proto != dataplane.Protocol && !extent.InNetworks(r.dst) && !r.leavesBy(extent.Links) {
		return
	}
	v := r.value()
	if _, second := state.Routes.Get(v.RouteKey); !second {
		state.AddRoute(v)
	}
}

func (r *route) leavesBy(links []string) bool {
	return r.link != nil && slices.ContainsFunc(r.hops(), func(h hop) bool { return slices.Contains(links, h.link.name) })
}

// value returns the route as a value of the core.
func (r *route) value() dataplane.Route {
	v := dataplane.Route{
		RouteKey: dataplane.RouteKey{Dst: r.dst, Metric: r.metric},
		Via:      r.via, OnLink: r.onlink, Scope: r.scope, Protocol: r.proto,
		NextHop: r.nextHop,
	}
	if cidr.FamilyOf(r.dst.Addr()) == cidr.V6 && v.Metric == metricDefault6 {
		v.Metric = 0
	}
	switch {
	case r.link == nil:
		v.Kind = dataplane.Blackhole
	case len(r.paths) > 0:
		v.Via = netip.Addr{}
		v.OnLink = false
		v.Other = "multipath"
	default:
		v.Link = r.link.name
	}
	return v
}

// linkScope reports whether the kernel gives an address link scope; it never
// does so to an IPv4 address by itself.
func linkScope(a netip.Addr) bool { return a.Is6() && a.IsLinkLocalUnicast() }
