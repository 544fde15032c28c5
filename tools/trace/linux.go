package trace

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/driver"
	"github.com/flanneld/flannel/internal/wholedump"
)

// Host is flanneld's lane of a host, which can also say which way a packet takes.
type Host interface {
	driver.Lane
	driver.Router
}

// Linux is the kernel of a network namespace.
type Linux struct {
	Netlink *wholedump.Handle
	Host    Host
	// Firewall is the lane of flanneld.
	Firewall driver.Lane
	// Run runs a program on the host, and returns its output; the rules of all programs are
	// read that way. Nil: they are not read.
	Run func(ctx context.Context, argv ...string) ([]byte, error)

	rules *programRules // as they were first read: one command traces many packets
}

var (
	_ Kernel      = (*Linux)(nil)
	_ DeviceHooks = (*Linux)(nil)
)

// View implements [Kernel].
func (k *Linux) View(ctx context.Context, networks []netip.Prefix) (*View, error) {
	v, err := Look(ctx, k.Host, k.Firewall, networks)
	if err != nil || k.Run == nil {
		return v, err
	}
	if k.rules == nil {
		k.rules = k.readRules(ctx)
	}
	v.Rules, v.Policies = k.rules.tables, k.rules.policies
	v.Unread, v.Security = k.rules.unread, k.rules.security
	v.Frames = k.rules.frames
	return v, nil
}

// Route implements [Kernel].
func (k *Linux) Route(q Question) (Route, error) {
	r, err := k.Host.Way(q)
	switch {
	case errors.Is(err, unix.EINVAL) && q.In != "":
		return Route{}, fmt.Errorf("%w, or none leads back to %s", ErrBlackhole, q.Src)
	case errors.Is(err, unix.EINVAL):
		return Route{}, ErrBlackhole
	case errors.Is(err, unix.EXDEV):
		return Route{}, ErrSource
	case errors.Is(err, unix.ENETUNREACH), errors.Is(err, unix.EHOSTUNREACH), errors.Is(err, unix.EACCES):
		return Route{}, ErrNoRoute
	case err != nil:
		return Route{}, err
	}
	switch r.Kind {
	case unix.RTN_LOCAL:
		return Route{Local: true}, nil
	case unix.RTN_BLACKHOLE:
		return Route{}, ErrBlackhole
	case unix.RTN_UNREACHABLE, unix.RTN_PROHIBIT, unix.RTN_THROW:
		return Route{}, ErrNoRoute
	}
	return Route{Link: r.Link, Via: r.Via, Src: r.Src, MTU: r.MTU, Table: r.Table}, nil
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
			found := Neighbour{Exists: true, Failed: n.State&failed != 0,
				Fixed: n.State&netlink.NUD_PERMANENT != 0}
			copy(found.MAC[:], n.HardwareAddr)
			return found, nil
		}
	}
	return Neighbour{}, nil
}

// Neighbours returns the addresses within a prefix that have answered of late, or have a permanent entry.
func (k *Linux) Neighbours(within netip.Prefix) []netip.Addr {
	family := cidr.Pick(cidr.FamilyOf(within.Addr()), unix.AF_INET, unix.AF_INET6)
	all, err := k.Netlink.NeighList(0, family)
	if err != nil {
		return nil
	}
	const known = netlink.NUD_REACHABLE | netlink.NUD_STALE | netlink.NUD_DELAY | netlink.NUD_PROBE |
		netlink.NUD_PERMANENT
	var found []netip.Addr
	for _, n := range all {
		if a := addrOf(n.IP); n.State&known != 0 && within.Contains(a) {
			found = append(found, a)
		}
	}
	slices.SortFunc(found, netip.Addr.Compare)
	return found
}

// addrOf returns an address of the library, zero for none.
func addrOf(ip []byte) netip.Addr {
	a, _ := netip.AddrFromSlice(ip)
	return a.Unmap()
}
