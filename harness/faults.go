package harness

import (
	"context"
	"errors"
	"fmt"
	"net/netip"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/drivers/linux"
)

// UplinkDown sets the node's uplink administratively down.
func (n *Node) UplinkDown() error { return n.SetDown(uplink) }

// UplinkUp sets the uplink up again and restores the routes and addresses that
// the kernel removed, as a network manager would. It returns when the uplink
// carries frames.
func (n *Node) UplinkUp(ctx context.Context) error {
	if err := n.SetUp(uplink); err != nil {
		return err
	}
	if err := n.setAddrs(uplink, n.underlay); err != nil {
		return err
	}
	if err := n.lab.routeToRouter(n.segment, n.Host); err != nil {
		return err
	}
	return n.reconnected(ctx)
}

// PullCable takes the carrier from the node's uplink.
func (n *Node) PullCable() error { return n.segment.sw.SetDown(n.Name) }

// PlugCable undoes PullCable. It returns when the uplink carries frames.
func (n *Node) PlugCable(ctx context.Context) error {
	if err := n.segment.sw.SetUp(n.Name); err != nil {
		return err
	}
	return n.reconnected(ctx)
}

// reconnected waits until frames pass again, and makes every host ask again for
// neighbours that did not answer. Otherwise Linux drops the packets queued for a
// neighbour when the third request goes unanswered, even if the answer could come
// now.
func (n *Node) reconnected(ctx context.Context) error {
	if err := n.segment.waitPlugged(ctx, n.Host, uplink); err != nil {
		return err
	}
	return each(n.lab.hosts, (*Host).forgetUnanswered)
}

// Isolate cuts the node off from the underlay: frames vanish, the carrier
// stays.
func (n *Node) Isolate() error {
	sw := n.segment.sw
	return sw.onLink(n.Name, "disconnection", sw.nl.LinkSetNoMaster)
}

// Rejoin undoes Isolate.
func (n *Node) Rejoin(ctx context.Context) error {
	sw := n.segment.sw
	err := sw.onLink(n.Name, "connection", func(l netlink.Link) error { return sw.nl.LinkSetMaster(l, n.segment.bridge) })
	if err != nil {
		return err
	}
	return n.reconnected(ctx)
}

// SetUplinkAddr moves the node to another address of its segment: the old
// address of that family goes, with the routes that used it, and the default
// routes come back.
func (n *Node) SetUplinkAddr(addr netip.Prefix) error {
	n.underlay[cidr.FamilyOf(addr.Addr())] = addr
	if err := n.setAddrs(uplink, n.underlay); err != nil {
		return err
	}
	return n.lab.routeToRouter(n.segment, n.Host)
}

// SetUnderlayMTU changes the MTU of the node's uplink and of its port on the segment.
func (n *Node) SetUnderlayMTU(mtu int) error {
	return errors.Join(n.SetMTU(uplink, mtu), n.segment.sw.SetMTU(n.Name, mtu))
}

// withDriver calls do with a driver of the host that is open during the call.
func (h *Host) withDriver(ctx context.Context, do func(*linux.Driver) error) error {
	d, err := linux.Open(ctx, netns.NsHandle(h.space.FD()), nil)
	if err != nil {
		return fmt.Errorf("host %s: open its driver: %w", h.Name, err)
	}
	return errors.Join(do(d), d.Close())
}

// State reads the host's objects within the extent.
func (h *Host) State(ctx context.Context, extent dataplane.Extent) (state *dataplane.State, err error) {
	err = h.withDriver(ctx, func(d *linux.Driver) error {
		seen, err := d.Look(ctx, extent)
		if err != nil {
			return fmt.Errorf("host %s: look: %w", h.Name, err)
		}
		state = seen.State
		return nil
	})
	return state, err
}

// Apply performs ops on the host, as another program would.
func (h *Host) Apply(ctx context.Context, ops ...dataplane.Op) error {
	return h.withDriver(ctx, func(d *linux.Driver) error {
		errs := d.Apply(ctx, ops)
		for i, err := range errs {
			if err != nil {
				errs[i] = fmt.Errorf("host %s: %s: %w", h.Name, ops[i], err)
			}
		}
		return errors.Join(errs...)
	})
}
