package linux

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/driver"
)

// apply does one op on a link.
func (ls *links) apply(verb dataplane.Verb, want dataplane.Link) error {
	defer ls.forget()
	if want.MAC[0]&1 != 0 { // the kernel says EADDRNOTAVAIL, as if something were missing
		return fmt.Errorf("MAC is a multicast address: %w", driver.ErrInvalid)
	}
	switch verb {
	case dataplane.Create:
		return ls.create(want)
	case dataplane.Replace:
		return ls.adjust(want)
	default:
		return ls.remove(want.Name)
	}
}

// create makes a link in one request, so that a refusal leaves nothing behind.
func (ls *links) create(want dataplane.Link) error {
	if want.Type != dataplane.LinkVXLAN {
		return fmt.Errorf("type %s: %w", want.Type, driver.ErrUnsupported)
	}
	parent, err := ls.parentIndex(want)
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
	c.out.attrU32(nl.IFLA_VXLAN_ID, want.VXLAN.VNI)
	if parent != 0 {
		c.out.attrU32(nl.IFLA_VXLAN_LINK, uint32(parent))
	}
	if a := want.VXLAN.Local; a.IsValid() {
		c.out.attrAddr(localAttr(a), a)
	}
	if p := want.VXLAN.Port; p != 0 {
		c.out.attr(nl.IFLA_VXLAN_PORT, []byte{byte(p >> 8), byte(p)})
	}
	c.out.attrFlag(nl.IFLA_VXLAN_LEARNING, want.VXLAN.Learning) // the kernel's default is on
	if want.VXLAN.GBP {
		c.out.attr(nl.IFLA_VXLAN_GBP, nil)
	}
	c.endVXLAN(info, data)
	c.out.end()
	if _, err = c.do(); errors.Is(err, unix.EEXIST) {
		return ls.explainExists(want, err)
	}
	return err
}

// explainExists says what is in the way of a link: one of its name, or
// another vxlan with its VNI and port, which the kernel does not tell apart.
func (ls *links) explainExists(want dataplane.Link, cause error) error {
	all, err := ls.all()
	if err != nil {
		return cause
	}
	for _, l := range all {
		if l.Name == want.Name {
			return fmt.Errorf("a link of this name, type %s, is there: %w", l.Type, cause)
		}
	}
	for _, l := range all {
		if l.Type == dataplane.LinkVXLAN && l.VXLAN.VNI == want.VXLAN.VNI && l.VXLAN.Port == want.VXLAN.Port &&
			l.VXLAN.Local.Is6() == want.VXLAN.Local.Is6() {
			return fmt.Errorf("link %s has VNI %d and port %d already; delete it or choose another VNI or port: %w",
				l.Name, l.VXLAN.VNI, l.VXLAN.Port, cause)
		}
	}
	return cause
}

// adjust changes an existing link in place, with requests that hold only what
// differs. The kernel refuses a vxlan's parameters and MTU in one; a parameter
// may shrink the MTU, so the MTU is the second. The kernel handles "up" last.
func (ls *links) adjust(want dataplane.Link) error {
	have, err := ls.named(want.Name)
	if err != nil {
		return err
	}
	if err := changeable(have, want); err != nil {
		return err
	}
	parent, err := ls.parentIndex(want)
	if err != nil {
		return err
	}
	if vxlanDiffers(want.VXLAN, have, parent) {
		if err := ls.adjustVXLAN(want.VXLAN, have, parent); err != nil {
			return err
		}
		have.MTU = 0 // unknown now
	}
	var flags, change uint32
	if want.Up != have.Up {
		change = unix.IFF_UP
	}
	if want.Up {
		flags = change
	}
	c := ls.c
	c.begin(unix.RTM_NEWLINK, 0)
	c.putIfinfo(have.index, flags, change)
	c.putLinkAttrs(want, have.Link)
	c.out.end()
	_, err = c.do()
	return err
}

// changeable reports what of a link the kernel cannot change.
func changeable(have link, want dataplane.Link) error {
	if have.parent != 0 && want.VXLAN.Parent == "" { // it would say yes and do nothing
		return fmt.Errorf("parent cannot be taken away, delete and create the link: %w", driver.ErrUnsupported)
	}
	for _, fixed := range []struct {
		what       string
		have, want any
	}{
		{"type", have.Type, want.Type},
		{"VNI", have.VXLAN.VNI, want.VXLAN.VNI},
		{"port", have.VXLAN.Port, want.VXLAN.Port},
		{"GBP", have.VXLAN.GBP, want.VXLAN.GBP},
	} {
		if fixed.have != fixed.want {
			return fmt.Errorf("%s is %v and cannot become %v, delete and create the link: %w",
				fixed.what, fixed.have, fixed.want, driver.ErrUnsupported)
		}
	}
	return nil
}

// vxlanDiffers reports whether a parameter that can change must.
func vxlanDiffers(want dataplane.VXLAN, have link, parent int) bool {
	return want.Local != have.VXLAN.Local || want.Learning != have.VXLAN.Learning || parent != have.parent
}

// adjustVXLAN changes the parameters that differ; no attribute, no change.
func (ls *links) adjustVXLAN(want dataplane.VXLAN, have link, parent int) error {
	c := ls.c
	c.begin(unix.RTM_NEWLINK, 0)
	c.putIfinfo(have.index, 0, 0)
	info, data := c.beginVXLAN()
	if parent != have.parent {
		c.out.attrU32(nl.IFLA_VXLAN_LINK, uint32(parent))
	}
	if want.Local != have.VXLAN.Local {
		local := want.Local
		if !local.IsValid() {
			local = unspecified(have.VXLAN.Local)
		}
		c.out.attrAddr(localAttr(local), local)
	}
	if want.Learning != have.VXLAN.Learning {
		c.out.attrFlag(nl.IFLA_VXLAN_LEARNING, want.Learning)
	}
	c.endVXLAN(info, data)
	c.out.end()
	_, err := c.do()
	return err
}

func (ls *links) remove(name string) error {
	have, err := ls.named(name)
	if err != nil {
		return err
	}
	ls.c.begin(unix.RTM_DELLINK, 0)
	ls.c.putIfinfo(have.index, 0, 0)
	ls.c.out.end()
	_, err = ls.c.do()
	return err
}

// parentIndex returns the index of a vxlan's underlay link, 0 for none.
func (ls *links) parentIndex(want dataplane.Link) (int, error) {
	if want.VXLAN.Parent == "" {
		return 0, nil
	}
	l, err := ls.named(want.VXLAN.Parent)
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

// putLinkAttrs writes MTU and MAC where they are wanted and differ.
func (c *conn) putLinkAttrs(want, have dataplane.Link) {
	if want.MTU != 0 && want.MTU != have.MTU {
		c.out.attrU32(unix.IFLA_MTU, uint32(want.MTU))
	}
	if !want.MAC.IsZero() && want.MAC != have.MAC {
		c.out.attr(unix.IFLA_ADDRESS, want.MAC[:])
	}
}

// unspecified returns 0.0.0.0 or ::, by the family of a.
func unspecified(a netip.Addr) netip.Addr {
	if a.Is4() {
		return netip.IPv4Unspecified()
	}
	return netip.IPv6Unspecified()
}
