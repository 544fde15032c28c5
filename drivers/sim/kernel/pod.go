package kernel

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/driver"
)

// bridgeName is the name of the pods' bridge in CNI.
const bridgeName = "cni0"

// Pod is a network namespace behind a host's bridge.
type Pod struct {
	Name  string
	Addrs [2]netip.Addr // by family; zero: none

	host  *Host
	stack *stack
}

// NewPod makes a pod with one address from each subnet of its host, as CNI
// does: the bridge has the first address of the subnet, the pod's gateway, and
// the lowest MTU of its pods.
func (h *Host) NewPod(name string, mtu int, subnets ...netip.Prefix) (*Pod, error) {
	h.changed++
	bridge, err := h.bridgeFor(mtu, subnets)
	if err != nil {
		return nil, fmt.Errorf("bridge for pod %s: %w", name, err)
	}
	s := newStack(h.network, h.name+"."+name)
	p := &Pod{Name: name, host: h, stack: s}
	eth0 := s.addLink("eth0", ethernet, mtu, dataplane.MAC{})
	bridge.wire.segment.attach(eth0, 0)
	eth0.setUp(true)
	for _, subnet := range subnets {
		if err := p.address(eth0, subnet); err != nil {
			return nil, fmt.Errorf("pod %s: %w", name, err)
		}
	}
	h.pods = append(h.pods, p)
	h.world.Note(h.name+": pod", name)
	return p, nil
}

// SetMTU gives the pod's device another MTU.
func (p *Pod) SetMTU(mtu int) error {
	p.host.changed++
	eth0 := p.stack.link("eth0")
	if !eth0.takesMTU(mtu) {
		return driver.ErrInvalid
	}
	eth0.setMTU(mtu)
	return nil
}

// address gives the pod the first free address of a subnet and its default route.
func (p *Pod) address(eth0 *link, subnet netip.Prefix) error {
	gateway := subnet.Masked().Addr().Next()
	taken := func(a netip.Addr) bool {
		return slices.ContainsFunc(p.host.pods, func(o *Pod) bool { return slices.Contains(o.Addrs[:], a) })
	}
	a := gateway.Next()
	for taken(a) {
		a = a.Next()
	}
	if !subnet.Contains(a) {
		return fmt.Errorf("subnet %s is full", subnet)
	}
	f := cidr.FamilyOf(a)
	p.Addrs[f] = a
	if err := eth0.addAddr(netip.PrefixFrom(a, subnet.Bits())); err != nil {
		return err
	}
	all, err := gateway.Prefix(0)
	if err != nil {
		return err
	}
	return p.stack.fibs[f].add(&route{dst: all, hop: hop{link: eth0, via: gateway}}, true)
}

// bridgeFor finds or makes the bridge, with an address in each subnet.
func (h *Host) bridgeFor(mtu int, subnets []netip.Prefix) (*link, error) {
	l := h.stack.link(bridgeName)
	if l == nil {
		l = h.stack.addLink(bridgeName, bridge, mtu, dataplane.MAC{})
		newSegment(h.world, h.name+"/"+bridgeName, l).attach(l, 0)
		l.setUp(true)
		h.hint(nil)
	}
	l.setMTU(min(l.mtu, mtu))
	for _, subnet := range subnets {
		own := netip.PrefixFrom(subnet.Masked().Addr().Next(), subnet.Bits())
		has := func(a address) bool { return a.prefix == own }
		if slices.ContainsFunc(l.addrs[cidr.FamilyOf(own.Addr())], has) {
			continue
		}
		if err := l.addAddr(own); err != nil {
			return nil, fmt.Errorf("address %s: %w", own, err)
		}
	}
	return l, nil
}

// Pods returns the host's pods in the order of their creation.
func (h *Host) Pods() []*Pod { return h.pods }

// Host returns the host of the pod.
func (p *Pod) Host() *Host { return p.host }

// Addr returns the pod's address of a family, zero if it has none.
func (p *Pod) Addr(f cidr.Family) netip.Addr { return p.Addrs[f] }

// Wire returns the wire between the pod and the bridge.
func (p *Pod) Wire() *Wire { return p.stack.link("eth0").wire }

// Remove deletes the pod.
func (p *Pod) Remove() {
	p.stack.delLink(p.stack.link("eth0"))
	p.host.pods = slices.DeleteFunc(p.host.pods, func(o *Pod) bool { return o == p })
	p.host.world.Note(p.host.name+": pod removed", p.Name)
}

// Ping sends an echo request from the pod.
func (p *Pod) Ping(dst netip.Addr, o PingOptions) *Probe { return p.stack.ping(dst, o) }
