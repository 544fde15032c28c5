package node

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"time"

	"github.com/flanneld/flannel/core/backend"
	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/driver"
	"github.com/flanneld/flannel/core/lease"
)

// The pauses before the node asks the kernel again for refused objects.
const (
	refusedFirst = time.Second
	refusedMost  = 5 * time.Minute
)

// refusals are the peers' subnets for which the kernel refused an object, such
// as a route whose gateway is on no segment of this host. The node leaves them
// out of the desired state, as it does with a peer that the backend refuses, and
// tries all of them again from time to time, or when the host has changed.
//
//	refused ──► left out ──► retried with the others ──┬─► accepted: forgotten
//	               ▲                                   │
//	               └──────────── refused ──────────────┘
type refusals struct {
	of       map[netip.Prefix]refusal
	round    int            // counts plans
	trying   bool           // the next plan may hold their objects
	tried    bool           // the last plan could hold them
	attempts int            // in a row that the kernel refused
	at       time.Time      // time of the next attempt
	newly    []string       // the problems that the last plan found
	ailing   []string       // the links that the last plan could not make as desired
	inTheWay []netip.Prefix // the destinations of the routes that the last plan could not delete
	left     heldBack       // the last result of without
}

// refusal records why the kernel refused an object of a peer.
type refusal struct {
	key    lease.Key
	attrs  lease.Attrs
	object dataplane.Object // the refused one
	err    error
	round  int // of the plan that held the object last
}

// heldBack is a desired state, and the same without the refused subnets.
type heldBack struct{ full, rest *dataplane.State }

// refusedPeer reports whether a failed op is one peer's problem: the kernel
// refused what the peer's record says. Any other failure, such as a full table
// or a device that is down, concerns the host. So does all that fails on a link
// whose own settings were refused, such as one that carries no IPv6, and a route
// whose predecessor could not be deleted.
func (n *Node) refusedPeer(op dataplane.Op, err error) bool {
	if op.Verb == dataplane.Delete {
		return false
	}
	r := &n.host.refusals
	if route, ok := op.Object.(dataplane.Route); ok && route.NextHop != 0 {
		// The kernel has checked the gateway with the next hop, and knows the next hop unless it refused that.
		was, known := r.of[route.Dst]
		return known && was.round == r.round
	}
	subnets := n.host.want.index().subnetsOf(op.Object)
	notTheirs := !errors.Is(err, driver.ErrUnreachable) && !errors.Is(err, driver.ErrInvalid)
	if notTheirs || slices.Contains(r.ailing, linkOf(op.Object)) || slices.ContainsFunc(subnets, r.blocked) {
		r.keep(subnets, op.Object)
		return false
	}
	known := false
	for _, subnet := range subnets {
		p, ok := n.peerOf(subnet)
		if !ok {
			continue
		}
		known = true
		if _, again := r.of[subnet]; !again {
			r.newly = append(r.newly, backend.Problem{Key: p.Key, Err: err}.String())
		}
		r.of[subnet] = refusal{p.Key, p.Attrs, op.Object, err, r.round}
	}
	if known {
		r.left = heldBack{}
	}
	return known
}

// notDeleted notes that a plan has not deleted a route, or not the one that is there.
func (r *refusals) notDeleted(op dataplane.Op) {
	if route, ok := op.Object.(dataplane.Route); ok && op.Verb == dataplane.Delete {
		r.inTheWay = append(r.inTheWay, route.Dst)
	}
}

// blocked reports whether a route that covers a subnet may still be in the way of its
// new one.
func (r *refusals) blocked(subnet netip.Prefix) bool {
	return cidr.Within(r.inTheWay, subnet)
}

// keep leaves a subnet refused if its refused object failed in this plan for another
// reason, such as a link that is down: that does not prove that the kernel accepts it.
func (r *refusals) keep(subnets []netip.Prefix, object dataplane.Object) {
	for _, subnet := range subnets {
		if was, ok := r.of[subnet]; ok && was.object == object {
			was.round = r.round
			r.of[subnet] = was
		}
	}
}

// linkOf returns the link of an address or of an object of a peer, or "".
func linkOf(o dataplane.Object) string {
	switch o := o.(type) {
	case dataplane.Addr:
		return o.Link
	case dataplane.Route:
		return o.Link
	case dataplane.NextHop:
		return o.Link
	case dataplane.Neigh:
		return o.Link
	case dataplane.FDBEntry:
		return o.Link
	case dataplane.WGPeer:
		return o.Link
	}
	return ""
}

// peerOf returns the rendered peer with a subnet.
func (n *Node) peerOf(subnet netip.Prefix) (*lease.Lease, bool) {
	p, ok := n.host.want.index().peers[subnet]
	return p, ok
}

// settleRefused updates the refused subnets after a plan: it forgets those that the
// kernel accepted this time, and sets the time of the next attempt for the others.
func (n *Node) settleRefused() {
	r := &n.host.refusals
	if len(r.newly) > 0 {
		n.event(Warning, "peer-refused", inOneLine(r.newly))
	}
	r.newly = nil
	r.ailing, r.inTheWay = nil, nil
	again := r.tried
	if again {
		var accepted []string
		for _, subnet := range r.subnets() {
			if was := r.of[subnet]; was.round != r.round {
				accepted = append(accepted, fmt.Sprintf("peer %s: the kernel accepts it now", was.key))
				delete(r.of, subnet)
			}
		}
		if len(accepted) > 0 {
			n.event(Info, "peer-accepted", inOneLine(accepted))
		}
		r.trying, r.tried = false, false
		r.left = heldBack{}
	}
	r.round++
	if len(r.of) > 0 && (again || r.at.IsZero()) {
		r.at = n.now.Add(n.backoff(r.attempts, refusedFirst, refusedMost))
		r.attempts++
	}
}

// inOneLine returns the first of several texts and the number of the others: a
// host that loses an address has all its peers refused at once. Without texts it
// returns "".
func inOneLine(texts []string) string {
	switch len(texts) {
	case 0:
		return ""
	case 1:
		return texts[0]
	}
	return fmt.Sprintf("%s; and %d more", texts[0], len(texts)-1)
}

// retryRefused lets the next plan try the refused subnets again if they are due or the
// host has changed.
func (n *Node) retryRefused(changed bool) {
	r := &n.host.refusals
	if len(r.of) == 0 {
		return
	}
	if changed {
		r.attempts, r.at = 0, n.now
	}
	r.trying = !n.now.Before(r.at)
	if !r.trying {
		n.hostLane().lookBy(r.at, causeRetry)
	}
}

// withoutRefused returns the desired state without the refused subnets, except
// during a new attempt. A subnet whose record has changed is not refused any more.
func (n *Node) withoutRefused(want *dataplane.State) *dataplane.State {
	r := &n.host.refusals
	for subnet, was := range r.of {
		p, ok := n.peerOf(subnet)
		if !ok || p.Key != was.key || !p.Attrs.Equal(was.attrs) {
			delete(r.of, subnet)
			r.left = heldBack{}
		}
	}
	if len(r.of) == 0 {
		*r = refusals{of: r.of, round: r.round}
		return want
	}
	if r.trying {
		r.tried = true
		return want
	}
	if r.left.full != want {
		rest := want.Clone()
		leaveOut(rest, r.of)
		r.left = heldBack{want, rest}
	}
	return r.left.rest
}

// leaveOut removes all objects of the refused subnets, except a peer on another device
// than the refused object: the node may be about to change its way to the subnet. An FDB
// entry stays while another subnet is behind the same MAC address.
func leaveOut(s *dataplane.State, refused map[netip.Prefix]refusal) {
	out := func(subnet netip.Prefix, link string) bool {
		was, known := refused[subnet]
		refusing := linkOf(was.object)
		return known && (refusing == "" || refusing == link)
	}
	s.Peers.DeleteFunc(func(k dataplane.PeerKey, _ dataplane.Peer) bool { return out(k.Subnet, k.Link) })
	s.Policies.DeleteFunc(func(k dataplane.PolicyKey, _ dataplane.Policy) bool {
		_, to := refused[k.Dst]
		_, from := refused[k.Src]
		return to || from
	})
	leaveOutKeys(s, out)
	unused := map[dataplane.FDBKey]bool{}
	for subnet := range refused {
		key := dataplane.RouteKey{Dst: subnet}
		r, _ := s.Routes.Get(key)
		s.Routes.Delete(key)
		s.NextHops.Delete(r.NextHop)
		gateway := dataplane.NeighKey{Link: r.Link, IP: r.Via}
		if neigh, ok := s.Neighs.Get(gateway); ok {
			s.Neighs.Delete(gateway)
			unused[dataplane.FDBKey{Link: r.Link, MAC: neigh.MAC}] = true
		}
	}
	for k, neigh := range s.Neighs.All {
		delete(unused, dataplane.FDBKey{Link: k.Link, MAC: neigh.MAC})
	}
	for entry := range unused {
		s.FDB.Delete(entry)
	}
}

// leaveOutKeys removes refused subnets from the allowed IPs of WireGuard peers, and a peer with the last of them.
func leaveOutKeys(s *dataplane.State, out func(subnet netip.Prefix, link string) bool) {
	peers := s.WGPeers.Clone()
	for k, p := range peers.All {
		rest := p
		rest.Allowed, rest.More = [2]netip.Prefix{}, ""
		for subnet := range p.AllowedIPs {
			if !out(subnet, k.Link) {
				rest.Allow(subnet)
			}
		}
		if rest == p {
			continue
		}
		s.WGPeers.Delete(k)
		if rest.Allowed != [2]netip.Prefix{} {
			s.AddWGPeer(rest)
		}
	}
}

// retriesOnly reports whether a plan holds only objects that the kernel refused
// before, and endpoints that the node tries in turn.
func (n *Node) retriesOnly(plan []dataplane.Op) bool {
	r := &n.host.refusals
	return !slices.ContainsFunc(plan, func(op dataplane.Op) bool {
		if peer, ok := op.Object.(dataplane.WGPeer); ok && n.host.endpoints.turns[peer.Key()] {
			return false
		}
		if !r.trying {
			return true
		}
		subnets := n.host.want.index().subnetsOf(op.Object)
		return op.Verb == dataplane.Delete || len(subnets) == 0 ||
			slices.ContainsFunc(subnets, func(s netip.Prefix) bool { _, refused := r.of[s]; return !refused })
	})
}

// subnets returns the refused subnets in order.
func (r *refusals) subnets() []netip.Prefix {
	return slices.SortedFunc(maps.Keys(r.of), netip.Prefix.Compare)
}
