// Package bridge repairs the bridge of the pods: it removes the address of a subnet that the
// node had before, which the plugin bridge refuses to replace. It touches no bridge on which
// there is a pod, and only addresses that have the form of a pods' gateway.
package bridge

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink"

	"github.com/flanneld/flannel/internal/wholedump"
)

// Clear removes the gateway addresses of former subnets from a bridge without ports, in this
// process' network namespace, and returns them. Present are the node's subnets. A bridge that does
// not exist, or has a port, stays as it is.
func Clear(name string, present []netip.Prefix) (removed []netip.Prefix, err error) {
	link, err := netlink.LinkByName(name)
	if errors.As(err, new(netlink.LinkNotFoundError)) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("find bridge %s: %w", name, err)
	}
	idle, err := isIdle(link)
	if err != nil || !idle {
		return nil, err
	}
	addrs, err := wholedump.Here.AddrList(link, netlink.FAMILY_ALL)
	if err != nil {
		return nil, fmt.Errorf("list addresses of %s: %w", name, err)
	}
	var errs []error
	for _, a := range addrs {
		p, ok := prefixOf(a.IPNet)
		if !ok || !isFormer(p, present) {
			continue
		}
		if err := netlink.AddrDel(link, &a); err != nil {
			errs = append(errs, fmt.Errorf("remove address %s of a former subnet from %s: %w", p, name, err))
			continue
		}
		removed = append(removed, p)
	}
	return removed, errors.Join(errs...)
}

// isIdle reports whether a link is a bridge without ports.
func isIdle(bridge netlink.Link) (bool, error) {
	if bridge.Type() != "bridge" {
		return false, nil
	}
	links, err := wholedump.Here.LinkList()
	if err != nil {
		return false, fmt.Errorf("list devices: %w", err)
	}
	return !slices.ContainsFunc(links, func(l netlink.Link) bool {
		return l.Attrs().MasterIndex == bridge.Attrs().Index
	}), nil
}

// isFormer reports whether an address is the gateway, the first address, of a subnet other than
// the present ones, in one of their families.
func isFormer(p netip.Prefix, present []netip.Prefix) bool {
	isGateway := p.Addr() == p.Masked().Addr().Next() && !p.Addr().IsLinkLocalUnicast()
	ours := func(own netip.Prefix) bool { return own.Masked() == p.Masked() }
	sameFamily := func(own netip.Prefix) bool { return own.Addr().Is4() == p.Addr().Is4() }
	return isGateway && slices.ContainsFunc(present, sameFamily) && !slices.ContainsFunc(present, ours)
}

func prefixOf(n *net.IPNet) (netip.Prefix, bool) {
	if n == nil {
		return netip.Prefix{}, false
	}
	addr, ok := netip.AddrFromSlice(n.IP)
	bits, _ := n.Mask.Size()
	return netip.PrefixFrom(addr.Unmap(), bits), ok
}
