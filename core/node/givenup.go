package node

import (
	"errors"
	"fmt"
	"slices"

	"github.com/flanneld/flannel/core/backend/ways"
	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/driver"
)

// A host may be unable to have a former way any longer: the daemon's new container has no /dev/net/tun, or
// the host has booted a kernel without the module. Such a way is of no use, and must not keep the node from
// being ready: a rolling update would stop at its first node, and with it the change on all others. So
// once everything of the present way stands, the node goes on without that former way, until its next start.
// Peers that send by no other way reach the node as soon as they follow the change.

// noteLacking keeps why the host cannot make the device of a way.
func (n *Node) noteLacking(op dataplane.Op, err error) {
	link, isLink := op.Object.(dataplane.Link)
	_, isProxy := op.Object.(dataplane.Proxy)
	again := isLink && op.Verb == dataplane.Replace && link.Kind() != dataplane.LinkWireGuard // it is deleted and created
	if op.Verb == dataplane.Delete || !isLink && !isProxy || again {
		return
	}
	set := n.network.backend
	id := set.Owner(deviceOf(op.Object))
	lacking, present := errors.Is(err, driver.ErrUnsupported) || errors.Is(err, driver.ErrDenied), id == set.Present()
	if present && set.Encrypts(id) {
		lacking = lacking && op.Verb == dataplane.Create // otherwise it has its device
	} else if present {
		lacking = true // another program may have its port
	}
	if lacking {
		n.network.change.lacks[id] = err
	}
}

// givesUpFormer ends the former ways that the host cannot have, if the plan would change nothing else of the
// node's own. It returns false if there are none.
func (n *Node) givesUpFormer(plan []dataplane.Op) bool {
	s := &n.network
	lacks, present := s.change.lacks, s.backend.Present()
	owner := func(op dataplane.Op) string { return s.backend.Owner(deviceOf(op.Object)) }
	if !slices.ContainsFunc(plan, func(op dataplane.Op) bool { return isOwn(op) && owner(op) == present }) {
		delete(lacks, present)
	}
	stands := !slices.ContainsFunc(plan, func(op dataplane.Op) bool {
		return isOwn(op) && (owner(op) == present || lacks[owner(op)] == nil)
	})
	set := s.backend
	for _, id := range s.backend.Former() {
		why := lacks[id]
		delete(lacks, id)
		if why == nil || !stands {
			continue
		}
		s.givenUp[id] = true
		n.event(Warning, "backend-given-up", fmt.Sprintf("this host cannot keep %s beside %s: %v; going on without it: "+
			"peers that have not followed the change reach this node once they do", id, set.Present(), why))
		set = set.Without(id)
	}
	if set == s.backend {
		return false
	}
	n.useWays(set)
	return true
}

// withoutGivenUp returns the set without the former ways that the node has given up. A config that names such
// a way makes the node try it again. A network beside others frees its former devices at once, unless the config names
// the former backend: another network may want them in turn for its own. Ports it frees anyway.
func (n *Node) withoutGivenUp(set *ways.Set) *ways.Set {
	if n.store.view.Beside != nil {
		set = set.WithoutAsides()
	}
	delete(n.network.givenUp, set.Present())
	for _, id := range set.Former() {
		if n.network.givenUp[id] || n.store.view.Beside != nil && !n.isNamed(id) {
			set = set.Without(id)
		}
	}
	return set
}

// deviceOf returns the device that an object is, or belongs to, or "".
func deviceOf(o dataplane.Object) string {
	switch o := o.(type) {
	case dataplane.Link:
		return o.Name
	case dataplane.Proxy:
		return o.Link
	case dataplane.Sysctl:
		return o.Link
	}
	return linkOf(o)
}
