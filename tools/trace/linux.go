package trace

import (
	"context"
	"errors"
	"fmt"
	"net/netip"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/driver"
)

// Linux is the kernel of a network namespace.
type Linux struct {
	Netlink *netlink.Handle
	// Host and Firewall are the lanes of flanneld.
	Host, Firewall driver.Lane
}

var _ Kernel = (*Linux)(nil)

// View implements [Kernel].
func (k *Linux) View(ctx context.Context, networks []netip.Prefix) (*View, error) {
	return Look(ctx, k.Host, k.Firewall, networks)
}

// Route implements [Kernel].
func (k *Linux) Route(q Question) (Route, error) {
	options := &netlink.RouteGetOptions{Iif: q.In}
	if q.Src.IsValid() {
		options.SrcAddr = q.Src.AsSlice()
	}
	routes, err := k.Netlink.RouteGetWithOptions(q.Dst.AsSlice(), options)
	switch {
	case errors.Is(err, unix.EINVAL):
		return Route{}, ErrBlackhole
	case errors.Is(err, unix.EXDEV):
		return Route{}, ErrSource
	case errors.Is(err, unix.ENETUNREACH), errors.Is(err, unix.EHOSTUNREACH), errors.Is(err, unix.EACCES):
		return Route{}, ErrNoRoute
	case err != nil:
		return Route{}, fmt.Errorf("route to %s: %w", q.Dst, err)
	case len(routes) == 0:
		return Route{}, ErrNoRoute
	}
	r := routes[0]
	switch r.Type {
	case unix.RTN_LOCAL:
		return Route{Local: true}, nil
	case unix.RTN_BLACKHOLE:
		return Route{}, ErrBlackhole
	case unix.RTN_UNREACHABLE, unix.RTN_PROHIBIT, unix.RTN_THROW:
		return Route{}, ErrNoRoute
	}
	link, err := k.Netlink.LinkByIndex(r.LinkIndex)
	if err != nil {
		return Route{}, fmt.Errorf("route to %s: device %d: %w", q.Dst, r.LinkIndex, err)
	}
	way := Route{Link: link.Attrs().Name, MTU: r.MTU}
	way.Via = addrOf(r.Gw)
	way.Src = addrOf(r.Src)
	return way, nil
}

// Neighbour implements [Kernel].
func (k *Linux) Neighbour(name string, ip netip.Addr) (Neighbour, error) {
	link, err := k.Netlink.LinkByName(name)
	if err != nil {
		return Neighbour{}, fmt.Errorf("neighbours of %s: %w", name, err)
	}
	family := cidr.Pick(cidr.FamilyOf(ip), unix.AF_INET, unix.AF_INET6)
	all, err := k.Netlink.NeighList(link.Attrs().Index, family)
	if err != nil {
		return Neighbour{}, fmt.Errorf("neighbours of %s: %w", name, err)
	}
	for _, n := range all {
		if addrOf(n.IP) == ip {
			const failed = netlink.NUD_FAILED | netlink.NUD_INCOMPLETE
			found := Neighbour{Exists: true, Failed: n.State&failed != 0}
			copy(found.MAC[:], n.HardwareAddr)
			return found, nil
		}
	}
	return Neighbour{}, nil
}

// addrOf returns an address of the library, zero for none.
func addrOf(ip []byte) netip.Addr {
	a, _ := netip.AddrFromSlice(ip)
	return a.Unmap()
}
