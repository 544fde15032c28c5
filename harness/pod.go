package harness

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink"

	"github.com/flanneld/flannel/core/cidr"
)

// bridgeName is the name of the bridge that the CNI plugin would make.
const bridgeName = "cni0"

// Pod is a host behind a node's bridge.
type Pod struct {
	*Host
	Node    *Node
	bridge  string
	number  int // of the address within the subnet: 2, 3, …
	addrs   [2]netip.Prefix
	witness *witness
}

// Addr returns the pod's address of a family, invalid if it has none.
func (p *Pod) Addr(f cidr.Family) netip.Addr { return p.addrs[f].Addr() }

// MTU returns the MTU of the pod's device.
func (p *Pod) MTU() (int, error) {
	link, err := p.link("eth0")
	if err != nil {
		return 0, err
	}
	return link.Attrs().MTU, nil
}

// AddPod adds a pod to a node, as the CNI plugin would from the subnet file
// (interop 4.2), except that it does not masquerade. Its name is, for example,
// "n1.pod1".
func (n *Node) AddPod(ctx context.Context) (*Pod, error) {
	return n.addPod(ctx, n.SubnetFile(), bridgeName)
}

// AddPodOf adds a pod of a named network, behind a bridge of its own.
func (n *Node) AddPodOf(ctx context.Context, network string) (*Pod, error) {
	return n.addPod(ctx, n.SubnetFileOf(network), bridgeName+"-"+network)
}

func (n *Node) addPod(ctx context.Context, subnetFile, bridge string) (*Pod, error) {
	env, err := n.readSubnetEnv(subnetFile)
	if err != nil {
		return nil, fmt.Errorf("add a pod: %w", err)
	}
	if err := n.syncBridge(bridge, env); err != nil {
		return nil, fmt.Errorf("add a pod: %w", err)
	}
	n.made++
	h, err := n.lab.newHost(fmt.Sprintf("%s.pod%d", n.Name, n.made))
	if err != nil {
		return nil, fmt.Errorf("add a pod: %w", err)
	}
	p := &Pod{Host: h, Node: n, bridge: bridge, number: n.made + 1}
	p.witness, err = newWitness(h)
	if err != nil {
		return nil, fmt.Errorf("add pod %s: %w", h.Name, err)
	}
	n.Pods, n.lab.pods = append(n.Pods, p), append(n.lab.pods, p)
	if err := p.connect(env); err != nil {
		return nil, fmt.Errorf("add pod %s: %w", h.Name, err)
	}
	if err := errors.Join(n.waitUp(ctx, p.port()), n.waitUp(ctx, bridge), p.waitUp(ctx, "eth0")); err != nil {
		return nil, fmt.Errorf("add pod %s: %w", h.Name, err)
	}
	return p, nil
}

// SyncPods configures the bridge and all pods of the node by the present subnet
// file. A real cluster would restart the pods instead. The node must have no pods of
// named networks.
func (n *Node) SyncPods() error {
	env, err := n.SubnetEnv()
	if err != nil {
		return err
	}
	if err := n.syncBridge(bridgeName, env); err != nil {
		return err
	}
	return each(n.Pods, func(p *Pod) error {
		return errors.Join(n.SetMTU(p.port(), env.MTU), p.configure(env))
	})
}

// SetPodMTU gives the bridge and all pods of the node another MTU than the subnet
// file says, as if they were made before the file changed.
func (n *Node) SetPodMTU(mtu int) error {
	return errors.Join(n.SetMTU(bridgeName, mtu), each(n.Pods, func(p *Pod) error {
		return errors.Join(n.SetMTU(p.port(), mtu), p.SetMTU("eth0", mtu))
	}))
}

// syncBridge configures a bridge by a subnet file.
func (n *Node) syncBridge(name string, env SubnetEnv) error {
	if _, err := n.nl.LinkByName(name); errors.As(err, &netlink.LinkNotFoundError{}) {
		bridge := &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: name, MTU: env.MTU}}
		if err := n.nl.LinkAdd(bridge); err != nil {
			return fmt.Errorf("node %s: add bridge %s: %w", n.Name, name, err)
		}
		// A bridge takes the lowest address of its ports, and changes it with
		// each pod, unless its address is set.
		if err := n.onLink(name, "fixing of MAC", func(l netlink.Link) error {
			return n.nl.LinkSetHardwareAddr(l, l.Attrs().HardwareAddr)
		}); err != nil {
			return err
		}
	}
	if err := errors.Join(n.SetMTU(name, env.MTU), n.SetUp(name)); err != nil {
		return err
	}
	return n.setAddrs(name, env.Subnet)
}

// port returns the name of the pod's device on its node.
func (p *Pod) port() string { return fmt.Sprintf("veth%d", p.number-1) }

// connect plugs a new pod into its node's bridge.
func (p *Pod) connect(env SubnetEnv) error {
	bridge, err := p.Node.link(p.bridge)
	if err != nil {
		return err
	}
	port := &netlink.Veth{
		LinkAttrs:     netlink.LinkAttrs{Name: p.port(), MTU: env.MTU, MasterIndex: bridge.Attrs().Index},
		PeerName:      "eth0",
		PeerMTU:       uint32(env.MTU),
		PeerNamespace: netlink.NsFd(p.space.FD()),
		PeerTxQLen:    -1,
	}
	if err := p.Node.nl.LinkAdd(port); err != nil {
		return fmt.Errorf("node %s: add device %s: %w", p.Node.Name, p.port(), err)
	}
	if err := errors.Join(p.Node.SetUp(p.port()), p.SetUp("eth0")); err != nil {
		return err
	}
	return p.configure(env)
}

// configure sets up the pod's own end by the subnet file.
func (p *Pod) configure(env SubnetEnv) error {
	if err := p.SetMTU("eth0", env.MTU); err != nil {
		return err
	}
	for f, bridge := range env.Subnet {
		p.addrs[f] = netip.Prefix{}
		if bridge.IsValid() {
			p.addrs[f] = netip.PrefixFrom(addrAt(bridge, p.number), bridge.Bits())
		}
	}
	if err := p.setAddrs("eth0", p.addrs); err != nil {
		return err
	}
	for f, bridge := range env.Subnet {
		if !bridge.IsValid() {
			continue
		}
		if err := p.AddRoute(defaultRoute(cidr.Family(f)), bridge.Addr(), "eth0"); err != nil {
			return err
		}
	}
	return nil
}

// setAddrs makes the given addresses the only ones of a device, except
// link-local ones.
func (h *Host) setAddrs(dev string, want [2]netip.Prefix) error {
	link, err := h.link(dev)
	if err != nil {
		return err
	}
	return eachFamily(func(f cidr.Family) error {
		have, err := h.nl.AddrList(link, nlFamily(f))
		if err != nil {
			return err
		}
		var there []netip.Prefix
		for _, a := range have {
			ip, _ := netip.AddrFromSlice(a.IP)
			ones, _ := a.Mask.Size()
			p := netip.PrefixFrom(ip.Unmap(), ones)
			if p == want[f] || p.Addr().IsLinkLocalUnicast() {
				there = append(there, p)
			} else if err := h.DelAddr(dev, p); err != nil {
				return err
			}
		}
		if want[f].IsValid() && !slices.Contains(there, want[f]) {
			return h.AddAddr(dev, want[f])
		}
		return nil
	})
}

// addrAt returns the address with that number within a subnet.
func addrAt(subnet netip.Prefix, number int) netip.Addr {
	a := subnet.Masked().Addr()
	for range number {
		a = a.Next()
	}
	return a
}
