package kernel

import (
	"fmt"
	"maps"
	"slices"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/driver"
)

// applyNextHop performs an op on a next-hop object. A changed object changes its routes,
// and a deleted one takes them along.
func (s *stack) applyNextHop(verb dataplane.Verb, o dataplane.NextHop) error {
	_, there := s.nextHops[o.ID]
	if verb == dataplane.Delete {
		if !there {
			return driver.ErrNotFound
		}
		s.dropNextHop(o.ID)
		return nil
	}
	if o.Other != "" || !o.Via.Is4() || o.ID == 0 {
		return fmt.Errorf("this driver makes next hops with an IPv4 gateway: %w", driver.ErrUnsupported)
	}
	l, err := s.find(o.Link)
	if err != nil {
		return err
	}
	if !l.up || !l.carrier { // the kernel checks this first
		return fmt.Errorf("link %s: %w", l.name, driver.ErrLinkDown)
	}
	h := hop{link: l, via: o.Via, onlink: o.OnLink}
	if err := s.checkHop(cidr.V4, h, dataplane.ScopeGlobal); err != nil {
		return err
	}
	if err := possible(verb, there); err != nil {
		return err
	}
	if s.nextHops == nil {
		s.nextHops = map[dataplane.NextHopID]hop{}
	}
	s.nextHops[o.ID] = h
	if there {
		s.followNextHop(o.ID, h)
	}
	return nil
}

// followNextHop gives the routes that use an object its new hop.
func (s *stack) followNextHop(id dataplane.NextHopID, h hop) {
	for _, list := range s.fibs[cidr.V4].lists {
		for _, r := range list {
			if r.nextHop == id {
				r.hop = h
			}
		}
	}
}

func (s *stack) dropNextHop(id dataplane.NextHopID) {
	delete(s.nextHops, id)
	s.fibs[cidr.V4].remove(func(r *route) bool { return r.nextHop == id })
}

// dropNextHops deletes the objects on a link, as the kernel does when it goes down or loses
// its carrier. Routes with a gateway of their own outlive a lost carrier.
func (s *stack) dropNextHops(l *link) {
	for _, id := range slices.Sorted(maps.Keys(s.nextHops)) {
		if s.nextHops[id].link == l {
			s.dropNextHop(id)
		}
	}
}

func (s *stack) observeNextHops(state *dataplane.State) {
	for id := range s.nextHops {
		s.observeNextHop(state, id)
	}
}

// observeNextHop puts the object with a number into a state, or takes it out.
func (s *stack) observeNextHop(state *dataplane.State, id dataplane.NextHopID) {
	h, there := s.nextHops[id]
	if !there {
		state.NextHops.Delete(id)
		return
	}
	state.AddNextHop(dataplane.NextHop{ID: id, Link: h.link.name, Via: h.via, OnLink: h.onlink})
}

// routeOver returns a route that uses an object.
func (s *stack) routeOver(o dataplane.Route) (*route, error) {
	h, there := s.nextHops[o.NextHop]
	switch {
	case o.Dst != o.Dst.Masked() && o.Dst.Addr().Is4():
		return nil, fmt.Errorf("destination has host bits: %w", driver.ErrInvalid)
	case o.Dst.Addr().Is6() && s.no6:
		return nil, fmt.Errorf("the kernel has no IPv6: %w", driver.ErrUnsupported)
	case o.Dst.Addr().Is6():
		return nil, fmt.Errorf("only IPv4 routes use IPv4 next hops: %w", driver.ErrInvalid)
	case o.Via.Is6(): // the driver says so
		return nil, fmt.Errorf("gateway %s of the other family: %w", o.Via, driver.ErrInvalid)
	case !there:
		return nil, fmt.Errorf("there is no next hop %d: %w", o.NextHop, driver.ErrInvalid)
	case h.onlink && o.Scope >= dataplane.ScopeLink:
		return nil, fmt.Errorf("next hop %d for a destination on the link: %w", o.NextHop, driver.ErrInvalid)
	}
	return &route{
		dst: o.Dst.Masked(), metric: kernelMetric(o.RouteKey), proto: o.Protocol, scope: o.Scope,
		nextHop: o.NextHop, hop: h,
	}, nil
}
