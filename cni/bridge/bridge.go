// Package bridge takes addresses off the bridge of the pods: the plugin bridge refuses a bridge that
// has an address of another subnet. It touches no bridge on which there is a pod. The caller says which
// addresses are its own.
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

// Clear removes the given ones of its addresses from a bridge without ports, in this process' network
// namespace, and returns them. A bridge that does not exist, or has a port, stays as it is.
func Clear(name string, isGiven func(netip.Prefix) bool) (removed []netip.Prefix, err error) {
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
		if !ok || !isGiven(p) {
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

func prefixOf(n *net.IPNet) (netip.Prefix, bool) {
	if n == nil {
		return netip.Prefix{}, false
	}
	addr, ok := netip.AddrFromSlice(n.IP)
	bits, _ := n.Mask.Size()
	return netip.PrefixFrom(addr.Unmap(), bits), ok
}
