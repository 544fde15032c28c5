package linux

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/flanneld/flannel/core/dataplane"
)

// vxlanLink implements [linkKind] for [dataplane.VXLAN].
type vxlanLink struct{}

func (vxlanLink) parse(data []byte, into *link) {
	var v dataplane.VXLAN
	for kind, value := range attrs(data) {
		switch kind {
		case nl.IFLA_VXLAN_ID:
			v.VNI = u32(value)
		case nl.IFLA_VXLAN_LINK:
			into.parent = int(u32(value))
		case nl.IFLA_VXLAN_LOCAL, nl.IFLA_VXLAN_LOCAL6:
			if a := addr(value); a.IsValid() && !a.IsUnspecified() {
				v.Local = a
			}
		case nl.IFLA_VXLAN_PORT:
			if len(value) >= 2 {
				v.Port = uint16(value[0])<<8 | uint16(value[1])
			}
		case nl.IFLA_VXLAN_LEARNING:
			v.Learning = len(value) > 0 && value[0] != 0
		case nl.IFLA_VXLAN_GBP:
			v.GBP = true
		}
	}
	into.Params = v
}

func (vxlanLink) nameParent(params dataplane.LinkParams, name string) dataplane.LinkParams {
	v := params.(dataplane.VXLAN)
	v.Parent = name
	return v
}

// create makes a device in one request, so that a refusal leaves nothing behind.
func (vxlanLink) create(a *applier, want dataplane.Link) error {
	v, ls := want.Params.(dataplane.VXLAN), a.links
	parent, err := ls.vxlanParent(v)
	if err != nil {
		return err
	}
	c := ls.c
	var up uint32
	if want.Up {
		up = unix.IFF_UP
	}
	c.begin(unix.RTM_NEWLINK, unix.NLM_F_CREATE|unix.NLM_F_EXCL)
	c.putIfinfo(0, up, up)
	c.out.attrString(unix.IFLA_IFNAME, want.Name)
	c.putLinkAttrs(want, dataplane.Link{})
	info, data := c.beginVXLAN()
	c.out.attrU32(nl.IFLA_VXLAN_ID, v.VNI)
	if parent != 0 {
		c.out.attrU32(nl.IFLA_VXLAN_LINK, uint32(parent))
	}
	if v.Local.IsValid() {
		c.out.attrAddr(localAttr(v.Local), v.Local)
	}
	if v.Port != 0 {
		c.out.attr(nl.IFLA_VXLAN_PORT, []byte{byte(v.Port >> 8), byte(v.Port)})
	}
	c.out.attrFlag(nl.IFLA_VXLAN_LEARNING, v.Learning) // the kernel's default is on
	if v.GBP {
		c.out.attr(nl.IFLA_VXLAN_GBP, nil)
	}
	c.endVXLAN(info, data)
	c.out.end()
	if _, err = c.do(); errors.Is(err, unix.EEXIST) {
		return ls.explainExists(want, err, func(other link) error { return sameVXLAN(other, v) })
	}
	return err
}

// sameVXLAN returns an error if a link is a vxlan with this VNI and port, which
// the kernel does not tell apart.
func sameVXLAN(l link, want dataplane.VXLAN) error {
	v, ok := l.Params.(dataplane.VXLAN)
	if !ok || v.VNI != want.VNI || v.Port != want.Port || v.Local.Is6() != want.Local.Is6() {
		return nil
	}
	return fmt.Errorf("link %s has VNI %d and port %d already; delete it or choose another VNI or port", l.Name, v.VNI, v.Port)
}

func (vxlanLink) adjust(ls *links, have link, wanted dataplane.Link) (changed bool, err error) {
	now, want := have.Params.(dataplane.VXLAN), wanted.Params.(dataplane.VXLAN)
	parent, err := ls.vxlanParent(want)
	if err != nil {
		return false, err
	}
	if want == now && parent == have.parent {
		return false, nil
	}
	c := ls.c
	c.begin(unix.RTM_NEWLINK, 0)
	c.putIfinfo(have.index, 0, 0)
	info, data := c.beginVXLAN()
	if parent != have.parent {
		c.out.attrU32(nl.IFLA_VXLAN_LINK, uint32(parent))
	}
	if want.Local != now.Local {
		local := want.Local
		if !local.IsValid() {
			local = unspecified(now.Local)
		}
		c.out.attrAddr(localAttr(local), local)
	}
	if want.Learning != now.Learning {
		c.out.attrFlag(nl.IFLA_VXLAN_LEARNING, want.Learning)
	}
	c.endVXLAN(info, data)
	c.out.end()
	_, err = c.do()
	return err == nil, err
}

// vxlanParent returns the index of a vxlan's underlay link, 0 for none.
func (ls *links) vxlanParent(v dataplane.VXLAN) (int, error) {
	if v.Parent == "" {
		return 0, nil
	}
	l, err := ls.named(v.Parent)
	return l.index, err
}

// beginVXLAN opens the nested attributes that hold a vxlan's parameters.
func (c *conn) beginVXLAN() (info, data int) {
	info = c.out.nest(unix.IFLA_LINKINFO)
	c.out.attr(unix.IFLA_INFO_KIND, []byte(dataplane.LinkVXLAN))
	return info, c.out.nest(unix.IFLA_INFO_DATA)
}

func (c *conn) endVXLAN(info, data int) {
	c.out.unnest(data)
	c.out.unnest(info)
}

// localAttr returns the attribute that holds a vxlan's local address.
func localAttr(a netip.Addr) uint16 {
	if a.Is4() {
		return nl.IFLA_VXLAN_LOCAL
	}
	return nl.IFLA_VXLAN_LOCAL6
}

// unspecified returns 0.0.0.0 or ::, by the family of a.
func unspecified(a netip.Addr) netip.Addr {
	if a.Is4() {
		return netip.IPv4Unspecified()
	}
	return netip.IPv6Unspecified()
}
