package kernel

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/driver"
)

// The functions of this file change a host behind flannel's back, as an
// administrator, another program or a cable does. Each has the side effects of
// the real kernel and ends with a hint.

// action notes such a change, makes it, and makes the kernel hint.
func (h *Host) action(err error, format string, args ...any) error {
	return h.actionOf("fault", err, format, args...)
}

// actionOf is action for a change of another kind than a fault.
func (h *Host) actionOf(kind string, err error, format string, args ...any) error {
	h.changed++ // even a failed change may have changed a table
	what := fmt.Sprintf(format, args...)
	if err != nil {
		return fmt.Errorf("%s: %s: %w", h.name, what, err)
	}
	h.world.Note(h.name+": "+kind, what)
	h.hint(nil)
	return nil
}

// onLink changes a link.
func (h *Host) onLink(name string, do func(*link) error, format string, args ...any) error {
	l, err := h.stack.find(name)
	if err == nil {
		err = do(l)
	}
	return h.action(err, format+" dev "+name, args...)
}

// LinkUp sets a link up.
func (h *Host) LinkUp(name string) error {
	return h.onLink(name, func(l *link) error {
		if err := l.mayComeUp(); err != nil {
			return err
		}
		l.setUp(true)
		return nil
	}, "link up")
}

// LinkDown sets a link down.
func (h *Host) LinkDown(name string) error {
	return h.onLink(name, func(l *link) error { l.setUp(false); return nil }, "link down")
}

// LinkDelete deletes a link, and the vxlan links on it.
func (h *Host) LinkDelete(name string) error {
	return h.onLink(name, func(l *link) error {
		return h.stack.apply(dataplane.Op{Verb: dataplane.Delete, Object: dataplane.Link{Name: name}})
	}, "link delete")
}

// Carrier plugs or unplugs the link's cable.
func (h *Host) Carrier(name string, on bool) error {
	return h.onLink(name, func(l *link) error { l.setCarrier(on); return nil }, "carrier %t", on)
}

// Enslave makes a link a port of another one.
func (h *Host) Enslave(name, master string) error {
	return h.onLink(name, func(l *link) error {
		switch {
		case h.stack.link(master) == nil:
			return fmt.Errorf("link %s: %w", master, driver.ErrNotFound)
		case !l.device.hasMAC():
			return fmt.Errorf("not an Ethernet device: %w", driver.ErrInvalid)
		}
		l.master = master
		return nil
	}, "master %s", master)
}

// ProtoDown keeps a link without a carrier.
func (h *Host) ProtoDown(name string) error {
	return h.onLink(name, func(l *link) error {
		if !l.device.hasMAC() {
			return fmt.Errorf("protodown: %w", driver.ErrUnsupported)
		}
		l.held = true
		return nil
	}, "protodown on")
}

// SetTTL makes a vxlan link send its packets with a TTL.
func (h *Host) SetTTL(name string, ttl uint8) error {
	return h.onLink(name, func(l *link) error {
		v, ok := l.device.(*vxlanDevice)
		if !ok {
			return fmt.Errorf("ttl: %w", driver.ErrUnsupported)
		}
		v.ttl, v.Other = ttl, fmt.Sprintf("ttl=%d", ttl)
		return nil
	}, "ttl %d", ttl)
}

// SetMAC gives a link another MAC.
func (h *Host) SetMAC(name string, mac dataplane.MAC) error {
	return h.onLink(name, func(l *link) error {
		switch {
		case !validMAC(mac):
			return fmt.Errorf("not a unicast MAC: %w", driver.ErrNotFound)
		case !l.device.hasMAC():
			return fmt.Errorf("a tun link has no MAC: %w", driver.ErrUnsupported)
		}
		l.setMAC(mac)
		return nil
	}, "mac %s", mac)
}

// SetMTU gives a link another MTU.
func (h *Host) SetMTU(name string, mtu int) error {
	return h.onLink(name, func(l *link) error {
		if !l.takesMTU(mtu) {
			return driver.ErrInvalid
		}
		l.setMTU(mtu)
		return nil
	}, "mtu %d", mtu)
}

// AddrAdd gives a link an address, with the connected route it implies.
func (h *Host) AddrAdd(name string, p netip.Prefix) error {
	return h.onLink(name, func(l *link) error { return l.addAddr(p) }, "addr add %s", p)
}

// AddrDel removes an address from a link, with all that depends on it.
func (h *Host) AddrDel(name string, p netip.Prefix) error {
	return h.onLink(name, func(l *link) error { return l.delAddr(p) }, "addr del %s", p)
}

// FlushAddrs removes all addresses of global scope from a link.
func (h *Host) FlushAddrs(name string) error {
	return h.onLink(name, func(l *link) error {
		for _, f := range cidr.Families {
			for _, a := range slices.Clone(l.addrs[f]) {
				if !linkScope(a.prefix.Addr()) {
					_ = l.delAddr(a.prefix) // a secondary may be gone with its primary
				}
			}
		}
		return nil
	}, "flush addrs")
}

// FlushRoutes deletes all routes of the main table through a link.
func (h *Host) FlushRoutes(name string) error {
	return h.onLink(name, func(l *link) error {
		for _, f := range cidr.Families {
			h.stack.fibs[f].remove(func(r *route) bool { return r.leave(l) })
		}
		return nil
	}, "flush routes")
}

// FlushNeigh deletes all neighbours of a link.
func (h *Host) FlushNeigh(name string) error {
	return h.onLink(name, func(l *link) error { l.neighs.clear(); return nil }, "flush neighbours")
}

// FlushFDB deletes all forwarding entries of a vxlan link.
func (h *Host) FlushFDB(name string) error {
	return h.onLink(name, func(l *link) error { l.fdb.clear(); return nil }, "flush fdb")
}

// DivertFDB makes a foreign next hop the destination of all forwarding entries of a vxlan link.
func (h *Host) DivertFDB(name string) error {
	return h.onLink(name, func(l *link) error {
		if _, ok := l.device.(*vxlanDevice); !ok {
			return fmt.Errorf("not a vxlan link: %w", driver.ErrUnsupported)
		}
		for mac := range l.fdb.all {
			l.fdb.set(mac, fdbEntry{netip.IPv4Unspecified(), true})
		}
		return nil
	}, "divert fdb")
}

// RouteAdd adds a route of any protocol.
func (h *Host) RouteAdd(o dataplane.Route) error { return h.addRoute(o, true) }

// RouteAppend adds a route behind others with its key; to an IPv6 route with a
// gateway it adds a path.
func (h *Host) RouteAppend(o dataplane.Route) error { return h.addRoute(o, false) }

func (h *Host) addRoute(o dataplane.Route, only bool) error {
	s := h.stack
	f := cidr.FamilyOf(o.Dst.Addr())
	add := func() error {
		r, err := s.checkedRoute(o)
		if err != nil {
			return err
		}
		if !only && f == cidr.V6 && s.fibs[f].appendHop(r) {
			return nil
		}
		return s.fibs[f].add(r, only)
	}
	return h.action(add(), "add %s", o)
}

// Add makes an object as any program may: a permanent neighbour or FDB entry, an
// address, a setting, a vxlan link.
func (h *Host) Add(o dataplane.Object) error {
	return h.action(h.stack.apply(dataplane.Op{Verb: dataplane.Create, Object: o}), "add %s", o)
}

// Replace makes an object as any program may, in the place of one with the same key.
func (h *Host) Replace(o dataplane.Object) error {
	return h.action(h.stack.apply(dataplane.Op{Verb: dataplane.Replace, Object: o}), "replace %s", o)
}

// Remove deletes an object. The kernel silently keeps an FDB entry that has
// another destination.
func (h *Host) Remove(o dataplane.Object) error {
	if e, ok := o.(dataplane.FDBEntry); ok {
		if l := h.stack.link(e.Link); l != nil {
			if have, there := l.fdb.get(e.MAC); there && have.value != e.Dst {
				return h.action(nil, "delete %s", o)
			}
		}
	}
	return h.action(h.stack.apply(dataplane.Op{Verb: dataplane.Delete, Object: o}), "delete %s", o)
}

// Learn makes a neighbour or FDB entry as the kernel learns it: not permanent.
func (h *Host) Learn(o dataplane.Object) error {
	learn := func() error {
		if err := h.stack.apply(dataplane.Op{Verb: dataplane.Create, Object: o}); err != nil {
			return err
		}
		switch o := o.(type) {
		case dataplane.Neigh:
			h.stack.link(o.Link).neighs.set(o.IP, neigh{o.MAC, false})
		case dataplane.FDBEntry:
			h.stack.link(o.Link).fdb.set(o.MAC, fdbEntry{o.Dst, false})
		default:
			panic(fmt.Sprintf("kernel: the kernel learns no %T", o))
		}
		return nil
	}
	return h.action(learn(), "learn %s", o)
}

// SpoilChecksums makes the network card compute wrong checksums of TCP and UDP inside
// VXLAN, as some do, or ends that. It does not affect a device whose checksums the kernel
// computes (see [dataplane.TxChecksum]).
func (h *Host) SpoilChecksums(on bool) error {
	h.stack.spoilsChecksums = on
	return h.action(nil, "spoil checksums %t", on)
}

// SetSysctl writes a setting.
func (h *Host) SetSysctl(path, value string) error {
	return h.action(h.stack.setSysctl(path, value), "sysctl %s = %s", path, value)
}

// FlushNextHops deletes all next-hop objects on a link, and the routes that use them.
func (h *Host) FlushNextHops(name string) error {
	return h.onLink(name, func(l *link) error { h.stack.dropNextHops(l); return nil }, "flush next hops")
}
