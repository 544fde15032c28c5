package node

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"

	"github.com/flanneld/flannel/core/backend"
	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/lease"
	"github.com/flanneld/flannel/core/reconcile"
)

// guard holds the last guarded desired state and its inputs.
type guard struct {
	want, have *dataplane.State
	inside     map[string]bool
	reconcile.Guarded
}

// guarded returns the desired state with routes that keep packets encrypted although
// foreign routes would lead them past WireGuard. It logs those foreign routes, and the
// ones that take packets all the same.
func (n *Node) guarded(want *dataplane.State) *dataplane.State {
	g, have := &n.host.guard, n.host.have
	inside := n.inside()
	if g.want == want && g.have == have && maps.Equal(g.inside, inside) {
		return g.State
	}
	within := func(link string) bool { return inside[link] }
	*g = guard{want, have, inside, reconcile.Guard(want, have, n.ownership(), n.peersWithin, within)}
	n.once(Warning, "foreign-route", inOneLine(g.notes()))
	n.once(Error, "foreign-route-wins", inOneLine(textsOf(g.Beaten)))
	// The other daemon's routes come after its address.
	if text := g.sharing(); text == "" || !n.log.Lasts("device-shared") {
		n.once(Warning, "device-shared", text)
	}
	return g.State
}

// inside returns the links by which no packet leaves this host: those that say so, except
// the ones that the host's way to other hosts begins with.
func (n *Node) inside() map[string]bool {
	links := map[string]bool{}
	for _, l := range n.host.facts.Links {
		if l.Inside {
			links[l.Name] = true
		}
	}
	delete(links, n.host.uplink.Link)
	for _, r := range n.host.facts.Routes {
		for _, hop := range r.Hops {
			delete(links, hop.Link)
		}
	}
	return links
}

// ownership returns the marks of the node's objects on the host.
func (n *Node) ownership() reconcile.Ownership {
	return reconcile.Ownership{
		Links: n.host.links, Networks: n.host.networks, Beside: n.store.view.Beside.Apart(),
	}
}

// sharing says that another daemon of flannel uses a device of this one, or is empty.
func (g *guard) sharing() string {
	const what = "its objects are left alone; give one of the two daemons another VNI or another backend"
	switch {
	case len(g.Shared) > 0:
		return fmt.Sprintf("another flanneld uses %s as well, for another network: %s", g.Shared[0].Link, what)
	case len(g.SharedAddrs) > 0:
		a := g.SharedAddrs[0]
		return fmt.Sprintf("%s has the address %s, which is in none of this daemon's networks: another flanneld seems to "+
			"use the device as well: %s", a.Link, a.Prefix.Addr(), what)
	}
	return ""
}

// sharingNotes tells an operator about the other daemon, with one of its routes or its address.
func (g *guard) sharingNotes() []string {
	switch {
	case len(g.Shared) > 0:
		first := g.Shared[0]
		return []string{fmt.Sprintf("%s. It has %d routes, such as %s; if no other one runs, they are left over: %s",
			g.sharing(), len(g.Shared), first.Dst, reconcile.DeleteCommand(first))}
	case len(g.SharedAddrs) > 0:
		a := g.SharedAddrs[0]
		return []string{fmt.Sprintf("%s. If no other one runs, the address is left over: ip addr del %s dev %s",
			g.sharing(), a.Prefix, a.Link)}
	}
	return nil
}

// notes name the foreign routes over which added routes take precedence.
func (g *guard) notes() []string {
	var notes []string
	for _, b := range g.Held {
		notes = append(notes, fmt.Sprintf("foreign %s would lead packets past %s unencrypted, and narrower routes "+
			"of flannel prevent that; %s", b.Foreign, b.Want.Link, b.Remedy()))
	}
	return notes
}

// clear names the foreign routes that lead packets past encryption.
func (g *guard) clear() []string {
	var texts []string
	for _, b := range g.Beaten {
		if b.Clear {
			texts = append(texts, b.Error())
		}
	}
	return texts
}

// shownRoutes is how many foreign routes the notes and the reasons name. A routing daemon may
// have thousands, and what is true of some of them is true of all.
const shownRoutes = 5

// few returns the first of the texts about foreign routes, and the number of the others.
func few(texts []string) []string {
	if len(texts) <= shownRoutes {
		return texts
	}
	return append(texts[:shownRoutes:shownRoutes],
		fmt.Sprintf("the same for %d more foreign routes", len(texts)-shownRoutes))
}

// bypassed returns the problems of the peers to which foreign routes take packets, one for
// each peer.
func (n *Node) bypassed() []backend.Problem {
	var problems []backend.Problem
	more := map[lease.Key]int{}
	for _, b := range n.host.guard.Beaten {
		for _, subnet := range b.Subnets {
			p, ok := n.peerOf(subnet)
			if !ok {
				continue
			}
			more[p.Key]++
			if more[p.Key] == 1 {
				problems = append(problems, backend.Problem{Key: p.Key, Err: b})
			}
		}
	}
	for i, p := range problems {
		if others := more[p.Key] - 1; others > 0 {
			problems[i].Err = fmt.Errorf("%w; the same for %d more foreign routes", p.Err, others)
		}
	}
	return problems
}

// peersWithin returns the subnets to which the desired state leads that overlap a
// destination, in order. A record that the backend refuses names none: it must move no
// packet, least of all those to the node's own pods.
func (n *Node) peersWithin(dst netip.Prefix) []netip.Prefix {
	own := n.host.want.self.Key
	if cidr.Contains(own.V4, dst) || cidr.Contains(own.V6, dst) {
		return nil // the routes to the host's pods, on every host; no served subnet overlaps the own
	}
	x := n.host.want.index()
	for bits := dst.Bits(); bits > 0; bits-- { // no two served subnets overlap
		subnet := netip.PrefixFrom(dst.Addr(), bits).Masked()
		if _, ok := x.peers[subnet]; ok && x.leadsTo(subnet) {
			return []netip.Prefix{subnet}
		}
	}
	if dst.IsSingleIP() {
		return nil // a host may have a foreign route for each of its own pods
	}
	var found []netip.Prefix
	all := x.inOrder()
	from := func(s netip.Prefix, a netip.Addr) int { return s.Addr().Compare(a) }
	first, _ := slices.BinarySearchFunc(all, dst.Addr(), from)
	for _, subnet := range all[first:] {
		if !dst.Contains(subnet.Addr()) {
			break
		}
		if x.leadsTo(subnet) {
			found = append(found, subnet)
		}
	}
	return found
}
