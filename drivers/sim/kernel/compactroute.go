package kernel

import (
	"net/netip"

	"github.com/flanneld/flannel/core/dataplane"
)

// compactRoute is a route as flannel makes one for each peer: of its protocol,
// with a gateway and nothing unusual. The values of two hosts are equal, unless
// their devices have different indexes. Where it is the only route to its
// destination, a table holds its number instead of a list.
type compactRoute struct {
	dst    netip.Prefix
	via    netip.Addr
	metric uint32
	link   int // index
	scope  dataplane.Scope
	onlink bool
}

// plain returns the compact form of a route, if it has one.
func (r *route) plain() (p compactRoute, ok bool) {
	if r.proto != dataplane.Protocol || r.link == nil || !r.via.IsValid() || len(r.paths) > 0 || r.nextHop != 0 ||
		r.src.IsValid() || r.asleep || r.hop.proto != 0 {
		return p, false
	}
	return compactRoute{r.dst, r.via, r.metric, r.link.index, r.scope, r.onlink}, true
}

// open returns the route of that number on this host.
func (f *fib) open(number uint32) route {
	p := &f.stack.network.values.routes.values[number]
	return route{
		dst: p.dst, metric: p.metric, scope: p.scope, proto: dataplane.Protocol,
		hop: hop{link: f.stack.linkAt(p.link), via: p.via, onlink: p.onlink},
	}
}

// at returns the routes to a destination, best first. The caller may change the
// list, and the routes in it, if it passes it to set afterwards.
func (f *fib) at(dst netip.Prefix) []*route {
	if list, ok := f.lists[dst]; ok {
		return list
	}
	if at, ok := f.stack.network.values.prefixes.find(dst); ok {
		if number, ok := f.plain.get(at); ok {
			r := f.open(number)
			return []*route{&r}
		}
	}
	return nil
}

// set makes a list the routes to a destination.
func (f *fib) set(dst netip.Prefix, list []*route) {
	v := f.stack.network.values
	before := f.len()
	delete(f.lists, dst)
	p, plain := compactRoute{}, false
	if len(list) == 1 {
		p, plain = list[0].plain()
	}
	if plain {
		f.plain.set(v.prefixes.number(dst), v.routes.number(p))
	} else if at, ok := v.prefixes.find(dst); ok {
		f.plain.delete(at)
	}
	if !plain && len(list) > 0 {
		f.lists[dst] = list
	}
	f.ofLen[dst.Bits()] += f.len() - before
}

// replaceCompact is replace for a compact route that comes to an empty place or
// replaces one, and reports which.
func (f *fib) replaceCompact(r *route) bool {
	p, ok := r.plain()
	if _, listed := f.lists[r.dst]; listed || !ok {
		return false
	}
	v := f.stack.network.values
	at := v.prefixes.number(r.dst)
	if old, there := f.plain.get(at); !there {
		f.ofLen[r.dst.Bits()]++
	} else if v.routes.values[old].metric != r.metric {
		return false
	}
	f.plain.set(at, v.routes.number(p))
	return true
}

// len returns the number of destinations.
func (f *fib) len() int { return len(f.lists) + f.plain.used }

// dsts yields the destinations in no order.
func (f *fib) dsts(yield func(netip.Prefix) bool) {
	for dst := range f.lists {
		if !yield(dst) {
			return
		}
	}
	for at := range f.plain.all {
		if !yield(f.stack.network.values.prefixes.values[at]) {
			return
		}
	}
}
