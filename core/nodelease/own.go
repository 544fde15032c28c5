package nodelease

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/config"
	"github.com/flanneld/flannel/core/lease"
)

// own holds the last valid annotations of an operator on our own node.
type own struct {
	uid                 string
	detected, published lease.ByFamily
}

// assigned returns the values that the cluster assigns to our own node.
func (t *Table) assigned() *lease.Assigned {
	e := t.nodes[t.self]
	if e == nil {
		return &lease.Assigned{Err: fmt.Errorf("there is no node %s", t.self)}
	}
	a := &lease.Assigned{Node: t.self, Internal: e.node.internal()}
	a.Key, a.Err = e.node.key(t.network)
	if a.Err != nil {
		if e.node.PodCIDRs == "" {
			a.Err = fmt.Errorf("%w yet; it is kube-controller-manager that hands them out, "+
				"if it runs with --allocate-node-cidrs and --cluster-cidr", a.Err)
		}
		return a
	}
	if !a.Key.IsValid() {
		a.Err = fmt.Errorf("node %s: pod CIDR %s is of a family that the network config has off", t.self, e.node.PodCIDRs)
		return a
	}
	if t.own.uid != e.node.UID {
		t.own = own{uid: e.node.UID}
	}
	a.Err = errors.Join(
		e.node.override(PublicIPOverwrite, cidr.V4, &t.own.published),
		e.node.override(PublicIPv6Overwrite, cidr.V6, &t.own.published),
		e.node.override(NodePublicIP, cidr.V4, &t.own.detected),
		e.node.override(NodePublicIPv6, cidr.V6, &t.own.detected))
	a.Detected, a.Published = t.own.detected, t.own.published
	return a
}

// LeavesOut returns an error if a network does not contain our own node's subnet, and that of the config in force does.
func (t *Table) LeavesOut(network config.Network) error {
	e := t.nodes[t.self]
	if e == nil {
		return nil
	}
	now, err := e.node.key(t.network)
	next, nextErr := e.node.key(network)
	if err != nil || nextErr != nil || !now.IsValid() || !isInside(t.network, now) || isInside(network, next) {
		return nil
	}
	return fmt.Errorf("its network does not contain the pod CIDR %s of this node", next)
}

// internal returns the first InternalIP of each family. The kubelet and the cloud
// controller write them; one that does not parse counts as absent.
func (n *Node) internal() lease.ByFamily {
	var addrs lease.ByFamily
	for text := range strings.SplitSeq(n.InternalIPs, ",") {
		a, err := netip.ParseAddr(text)
		if err != nil || a.Zone() != "" {
			continue
		}
		f := cidr.FamilyOf(a.Unmap())
		if !addrs.Of(f).IsValid() {
			addrs.Set(f, a.Unmap())
		}
	}
	return addrs
}

// override reads an operator's annotation of an address. An unreadable one leaves
// the last one in force (interop K7: upstream falls back silently).
func (n *Node) override(which Annotation, f cidr.Family, into *lease.ByFamily) error {
	text := n.Values[which]
	if text == "" {
		into.Set(f, netip.Addr{})
		return nil
	}
	a, ok := cidr.ParseAddr(f, text)
	if !ok || a.IsUnspecified() || a.IsMulticast() || a.IsLoopback() {
		return fmt.Errorf("node %s: annotation %s is %q: want an %v address that peers can reach", n.Name, suffixes[which],
			short(text), f)
	}
	into.Set(f, a)
	return nil
}
