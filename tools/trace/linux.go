package trace

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os/exec"
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

	rules *rules // as they were first read: one command traces many packets
}

// rules are those of all programs on a host.
type rules struct {
	filters [2][]Filter
	unread  []string
}

var _ Kernel = (*Linux)(nil)

// View implements [Kernel].
func (k *Linux) View(ctx context.Context, networks []netip.Prefix) (*View, error) {
	v, err := Look(ctx, k.Host, k.Firewall, networks)
	if err != nil || k.Run == nil {
		return v, err
	}
	if k.rules == nil {
		k.rules = k.readRules(ctx)
	}
	v.Filters, v.Unread = k.rules.filters, k.rules.unread
	return v, nil
}

// readRules reads the rules of all programs. A host without a tool most likely has no
// rules that need it.
func (k *Linux) readRules(ctx context.Context) *rules {
	v := new(rules)
	read := func(argv ...string) []byte {
		out, err := k.Run(ctx, argv...)
		if err != nil && !errors.Is(err, exec.ErrNotFound) {
			v.unread = append(v.unread, fmt.Sprintf("%s: %v", argv[0], err))
		}
		if err != nil {
			return nil
		}
		return out
	}
	ruleset := read("nft", "-j", "list", "ruleset")
	for _, f := range cidr.Families {
		program := cidr.Pick(f, "iptables", "ip6tables")
		converted := read(program + "-nft-save")
		legacy := read(program + "-legacy-save")
		v.filters[f] = append(v.filters[f], parseIPTables(program+"-nft", string(converted)),
			parseIPTables(program+"-legacy", string(legacy)))
		if ruleset == nil {
			continue
		}
		shown := func(table string) bool { return converted != nil && slices.Contains(iptablesTables, table) }
		tables, err := parseNFT(f, ruleset, shown)
		if err != nil {
			v.unread = append(v.unread, err.Error())
		}
		v.filters[f] = append(v.filters[f], tables...)
	}
	return v
}

// iptablesTables are the tables that iptables-nft makes. nft shows their rules in part.
var iptablesTables = []string{"filter", "nat", "mangle", "raw", "security"}

// Route implements [Kernel].
func (k *Linux) Route(q Question) (Route, error) {
	r, err := k.Host.Way(q)
	switch {
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
	return Route{Link: r.Link, Via: r.Via, Src: r.Src, MTU: r.MTU}, nil
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
