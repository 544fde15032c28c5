package linux

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"testing"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/driver"
	"github.com/flanneld/flannel/core/driver/drivertest"
)

// world is a network namespace for drivertest. Its host is manipulated with
// the netlink package, which the driver does not use: what one writes the
// other must read.
type world struct {
	d    *Driver
	host *netlink.Handle
	// far is where the other ends of the host's links are: setting one down
	// takes the carrier.
	far   *netlink.Handle
	farNS netns.NsHandle
}

func newWorld(t testing.TB) *world {
	t.Helper()
	ns, farNS := newNamespace(t), newNamespace(t)
	w := &world{farNS: farNS}
	var errs [3]error
	w.d, errs[0] = Open(t.Context(), ns)
	w.host, errs[1] = netlink.NewHandleAt(ns)
	w.far, errs[2] = netlink.NewHandleAt(farNS)
	if err := errors.Join(errs[:]...); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		w.host.Close()
		w.far.Close()
		if err := w.d.Close(); err != nil {
			t.Errorf("close driver: %v", err)
		}
	})
	if err := w.setDefaults(); err != nil {
		t.Fatal(err)
	}
	return w
}

// setDefaults brings up the loopback link and sets back to the kernel's
// defaults what a new namespace inherits from the host.
func (w *world) setDefaults() error {
	err := w.d.inside(func() error {
		for _, scope := range []string{"all", "default"} {
			s := dataplane.Sysctl{Path: "net/ipv4/conf/" + scope + "/promote_secondaries", Value: "0"}
			if err := writeSysctl(dataplane.Replace, s); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	return w.host.LinkSetUp(must(w.host.LinkByName("lo")))
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// Driver implements [drivertest.World].
func (w *world) Driver() driver.Driver { return w.d }

// Do implements [drivertest.World].
func (w *world) Do(_ context.Context, d drivertest.Deed) error {
	switch d.Verb {
	case drivertest.Add, drivertest.Append, drivertest.Learn, drivertest.Remove, drivertest.AddBlackhole:
		return w.doObject(d)
	case drivertest.CarrierOn, drivertest.CarrierOff:
		return w.setCarrier(d.Link, d.Verb == drivertest.CarrierOn)
	}
	l, err := w.host.LinkByName(d.Link)
	if err != nil {
		return err
	}
	switch d.Verb {
	case drivertest.Up:
		return w.host.LinkSetUp(l)
	case drivertest.Down:
		return w.host.LinkSetDown(l)
	case drivertest.SetMTU:
		return w.host.LinkSetMTU(l, d.MTU)
	case drivertest.SetMAC:
		return w.host.LinkSetHardwareAddr(l, d.MAC[:])
	}
	return w.flush(d.Verb, l)
}

func (w *world) setCarrier(name string, on bool) error {
	l, err := w.far.LinkByName(name)
	if err != nil {
		return err
	}
	if on {
		return w.far.LinkSetUp(l)
	}
	return w.far.LinkSetDown(l)
}

func (w *world) doObject(d drivertest.Deed) error {
	switch o := d.Object.(type) {
	case dataplane.Link:
		return w.doLink(d.Verb, o)
	case dataplane.Addr:
		l, err := w.host.LinkByName(o.Link)
		if err != nil {
			return err
		}
		a := &netlink.Addr{IPNet: ipNet(o.Prefix)}
		if o.Prefix.Addr().Is6() {
			a.Flags = unix.IFA_F_NODAD
		}
		if d.Verb == drivertest.Remove {
			return w.host.AddrDel(l, a)
		}
		return w.host.AddrAdd(l, a)
	case dataplane.Route:
		return w.doRoute(d.Verb, o)
	case dataplane.Neigh:
		return w.doNeigh(d.Verb, o.Link, &netlink.Neigh{IP: o.IP.AsSlice(), HardwareAddr: o.MAC[:]})
	case dataplane.FDBEntry:
		return w.doNeigh(d.Verb, o.Link, &netlink.Neigh{
			Family: unix.AF_BRIDGE, Flags: netlink.NTF_SELF, IP: o.Dst.AsSlice(), HardwareAddr: o.MAC[:],
		})
	}
	return fmt.Errorf("no deed for an object of type %T", d.Object)
}

func (w *world) doLink(verb drivertest.DeedVerb, o dataplane.Link) error {
	if verb == drivertest.Remove {
		return w.host.LinkDel(&netlink.Dummy{LinkAttrs: netlink.LinkAttrs{Name: o.Name}})
	}
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.MTU, attrs.HardwareAddr = o.Name, o.MTU, o.MAC[:]
	veth := &netlink.Veth{LinkAttrs: attrs, PeerName: o.Name, PeerNamespace: netlink.NsFd(w.farNS)}
	if err := w.host.LinkAdd(veth); err != nil {
		return err
	}
	if err := w.setCarrier(o.Name, true); err != nil || !o.Up {
		return err
	}
	return w.host.LinkSetUp(veth)
}

func (w *world) doRoute(verb drivertest.DeedVerb, o dataplane.Route) error {
	r := &netlink.Route{
		Dst: ipNet(o.Dst), Gw: o.Via.AsSlice(), Priority: int(o.Metric),
		Protocol: netlink.RouteProtocol(o.Protocol), Scope: netlink.Scope(o.Scope), Table: unix.RT_TABLE_MAIN,
	}
	if o.OnLink {
		r.Flags = int(netlink.FLAG_ONLINK)
	}
	if o.Link != "" {
		l, err := w.host.LinkByName(o.Link)
		if err != nil {
			return err
		}
		r.LinkIndex = l.Attrs().Index
	}
	switch verb {
	case drivertest.Append:
		return w.host.RouteAppend(r)
	case drivertest.Remove:
		return w.host.RouteDel(r)
	case drivertest.AddBlackhole:
		r.Type = unix.RTN_BLACKHOLE
	}
	return w.host.RouteAdd(r)
}

func (w *world) doNeigh(verb drivertest.DeedVerb, link string, n *netlink.Neigh) error {
	l, err := w.host.LinkByName(link)
	if err != nil {
		return err
	}
	n.LinkIndex, n.State = l.Attrs().Index, netlink.NUD_PERMANENT
	switch verb {
	case drivertest.Remove:
		return w.host.NeighDel(n)
	case drivertest.Learn:
		n.State = netlink.NUD_REACHABLE
	}
	return w.host.NeighAdd(n)
}

func (w *world) flush(verb drivertest.DeedVerb, l netlink.Link) error {
	index := l.Attrs().Index
	switch verb {
	case drivertest.FlushAddrs:
		return each(must(w.host.AddrList(l, netlink.FAMILY_ALL)), func(a netlink.Addr) error {
			if a.Scope != unix.RT_SCOPE_UNIVERSE {
				return nil
			}
			err := w.host.AddrDel(l, &a)
			if errors.Is(err, unix.EADDRNOTAVAIL) { // a secondary one went with its primary
				return nil
			}
			return err
		})
	case drivertest.FlushRoutes:
		for _, family := range []int{netlink.FAMILY_V4, netlink.FAMILY_V6} {
			routes := must(w.host.RouteListFiltered(family, &netlink.Route{LinkIndex: index}, netlink.RT_FILTER_OIF))
			if err := each(routes, func(r netlink.Route) error { return w.host.RouteDel(&r) }); err != nil {
				return err
			}
		}
		return nil
	case drivertest.FlushNeighs:
		return each(must(w.host.NeighList(index, netlink.FAMILY_ALL)), func(n netlink.Neigh) error {
			if n.State&netlink.NUD_NOARP != 0 { // the kernel's own multicast entries
				return nil
			}
			return w.host.NeighDel(&n)
		})
	case drivertest.FlushFDB:
		return each(must(w.host.NeighList(index, unix.AF_BRIDGE)), func(n netlink.Neigh) error {
			return w.host.NeighDel(&n)
		})
	}
	return fmt.Errorf("unknown verb %q", verb)
}

func each[T any](all []T, f func(T) error) error {
	for _, v := range all {
		if err := f(v); err != nil {
			return err
		}
	}
	return nil
}

func ipNet(p netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), cidr.FamilyOf(p.Addr()).Bits())}
}
