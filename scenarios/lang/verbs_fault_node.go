package lang

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/driver"
	"github.com/flanneld/flannel/core/nodelease"
)

// errNotKube is the error of a topology without node objects.
var errNotKube = errors.New("only with topology store=kube")

// faultNode changes the Kubernetes node of a machine:
//
//	fault n2 node delete     the object is deleted, until the heal registers it again
//	fault n2 node late       it is registered anew, without a pod CIDR until the heal
//	fault n2 node replace    it is registered anew, with the same pod CIDR and no annotation
//	fault n2 node move       it is registered anew, with a pod CIDR that no node had before
//	fault n2 node strip      it loses our annotations
//	fault n2 node garble     its backend data is overwritten
//	fault n2 node copy=n1    it gets n1's backend data, as from a clone of n1's disk
//	fault n2 node heartbeat  the kubelet writes the object, without a change to our annotations
//	fault n2 node overwrite=192.168.64.202
//	                         the operator sets the address to publish, until the heal;
//	                         the uplink gets it as well, so packets to it arrive
func faultNode(s *Session, name string, n Node, a *args, _ string) error {
	var what, overwrite, original string
	if !a.text("overwrite", &overwrite) && !a.text("copy", &original) {
		what = a.word("what to do to the node object")
	}
	if err := a.done(); err != nil {
		return err
	}
	if !s.top.Kube {
		return errNotKube
	}
	objects, err := able[NodeObjects](s, s.World())
	if err != nil {
		return err
	}
	if overwrite != "" {
		return s.overwrite(objects, name, n, overwrite)
	}
	if original != "" {
		return copyData(objects, original, name)
	}
	gone := func() error { return objects.DeleteNode(name) }
	back := func() error { return objects.RegisterNode(name) }
	lasts := "the node object of " + name
	switch what {
	case "delete":
		return s.lasting(lasts, true, gone, back)
	case "late":
		return s.lasting(lasts, true, func() error { return errors.Join(gone(), objects.RegisterWithoutPodCIDR(name)) }, back)
	case "replace":
		return s.lasting(lasts, true, func() error { return errors.Join(gone(), back()) }, back)
	case "move":
		return s.lasting(lasts, true, func() error {
			err := gone()
			objects.MovePodCIDR(name)
			return errors.Join(err, back())
		}, back)
	case "strip":
		return objects.AnnotateNode(name, func(n *nodelease.Node) {
			*n = nodelease.Node{Name: n.Name, UID: n.UID, Created: n.Created, PodCIDRs: n.PodCIDRs}
		})
	case "garble":
		return objects.AnnotateNode(name, func(n *nodelease.Node) { n.Values[nodelease.BackendData] = "}garbage{" })
	case "heartbeat":
		return objects.AnnotateNode(name, func(*nodelease.Node) {})
	}
	const want = "want delete, late, replace, move, strip, garble, heartbeat, copy= or overwrite="
	return fmt.Errorf("fault node %s: %s", what, want)
}

// copyData copies one node's backend data to another.
func copyData(objects NodeObjects, from, to string) error {
	original, exists := objects.NodeObject(from)
	if !exists {
		return fmt.Errorf("copy=%s: there is no such node object", from)
	}
	return objects.AnnotateNode(to, func(n *nodelease.Node) {
		for _, a := range []nodelease.Annotation{nodelease.BackendData, nodelease.BackendV6Data} {
			n.Values[a] = original.Values[a]
		}
	})
}

func (s *Session) overwrite(objects NodeObjects, name string, n Node, text string) error {
	ip, err := netip.ParseAddr(text)
	if err != nil {
		return fmt.Errorf("overwrite=%s: %w", text, err)
	}
	which, bits := nodelease.PublicIPOverwrite, 24
	if cidr.FamilyOf(ip) == cidr.V6 {
		which, bits = nodelease.PublicIPv6Overwrite, 64
	}
	annotate := func(text string) error {
		err := objects.AnnotateNode(name, func(n *nodelease.Node) { n.Values[which] = text })
		if _, exists := objects.NodeObject(name); !exists {
			return nil // the annotation was deleted with the node
		}
		return err
	}
	k, err := able[Kernel](s, n)
	if err != nil {
		return err
	}
	alias := dataplane.Addr{Link: "eth0", Prefix: netip.PrefixFrom(ip, bits)}
	return s.lasting("the public address of "+name, true, func() error {
		return errors.Join(unless(driver.ErrExists, k.Add(alias)), annotate(text))
	}, func() error {
		// An IPv6 address may be gone with its link.
		return errors.Join(annotate(""), unless(driver.ErrNotFound, k.Remove(alias)))
	})
}

// unless returns err, or nil if it is the expected error.
func unless(expected, err error) error {
	if errors.Is(err, expected) {
		return nil
	}
	return err
}

// published returns the address that an operator has annotated for a node, or
// that of the NAT in front of it, if any.
func (s *Session) published(name string, f cidr.Family) (netip.Addr, bool) {
	if ip, ok := s.annotated(name, f); ok {
		return ip, true
	}
	if slices.Contains(s.top.NAT, name) {
		return PublicAddr(f, s.nodeIndex(name)), true
	}
	return netip.Addr{}, false
}

func (s *Session) annotated(name string, f cidr.Family) (netip.Addr, bool) {
	objects, ok := s.World().(NodeObjects)
	if !ok || !s.top.Kube {
		return netip.Addr{}, false
	}
	n, _ := objects.NodeObject(name)
	which := [2]nodelease.Annotation{nodelease.PublicIPOverwrite, nodelease.PublicIPv6Overwrite}[f]
	ip, err := netip.ParseAddr(n.Values[which])
	return ip, err == nil
}
