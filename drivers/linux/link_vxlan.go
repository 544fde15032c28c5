package linux

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	vnl "github.com/vishvananda/netlink/nl"

	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/drivers/linux/internal/nl"
)

// vxlanLink implements [linkKind] for [dataplane.VXLAN].
type vxlanLink struct{}

func (vxlanLink) parse(data []byte, into *link) {
	var v dataplane.VXLAN
	var other []string
	for kind, value := range nl.Attrs(data) {
		if name, odd := foreignValues[kind]; odd && len(value) == 1 && value[0] != 0 {
			other = append(other, fmt.Sprintf("%s=%d", name, value[0]))
		}
		switch kind {
		case vnl.IFLA_VXLAN_ID:
			v.VNI = nl.U32(value)
		case vnl.IFLA_VXLAN_LINK:
			into.parent = int(nl.U32(value))
		case vnl.IFLA_VXLAN_LOCAL, vnl.IFLA_VXLAN_LOCAL6:
			if a := specified(value); a.IsValid() { // the kernel may report both families
				v.Local = a
			}
		case vnl.IFLA_VXLAN_GROUP, vnl.IFLA_VXLAN_GROUP6:
			if a := specified(value); a.IsValid() {
				other = append(other, "remote="+a.String())
			}
		case vnl.IFLA_VXLAN_PORT:
			if len(value) >= 2 {
				v.Port = uint16(value[0])<<8 | uint16(value[1])
			}
		case vnl.IFLA_VXLAN_LEARNING:
			v.Learning = len(value) > 0 && value[0] != 0
		case vnl.IFLA_VXLAN_GBP:
			v.GBP = true
		}
	}
	v.Other = strings.Join(other, ",")
	into.Params = v
}

// foreignValues are the one-byte values that other programs may set on a device, and that may keep its
// packets from arriving. All of them are 0 on flannel's devices.
var foreignValues = map[uint16]string{vnl.IFLA_VXLAN_TTL: "ttl", vnl.IFLA_VXLAN_TOS: "tos", vxlanDF: "df"}

// vxlanDF is IFLA_VXLAN_DF (Linux include/uapi/linux/if_link.h).
const vxlanDF = 29

// putDefaults resets [foreignValues], and a remote address. That has the family of the local one.
func putDefaults(out *nl.Encoder, now dataplane.VXLAN) {
	for _, kind := range slices.Sorted(maps.Keys(foreignValues)) {
		out.Attr(kind, []byte{0})
	}
	if !strings.Contains(now.Other, "remote=") {
		return
	}
	if now.Local.Is6() {
		out.AttrAddr(vnl.IFLA_VXLAN_GROUP6, netip.IPv6Unspecified())
	} else {
		out.AttrAddr(vnl.IFLA_VXLAN_GROUP, netip.IPv4Unspecified())
	}
}

func (vxlanLink) nameParent(params dataplane.LinkParams, name string) dataplane.LinkParams {
	v := params.(dataplane.VXLAN)
	v.Parent = name
	return v
}

func (vxlanLink) create(a *applier, want dataplane.Link) error {
	v, ls := want.Params.(dataplane.VXLAN), a.links
	parent, err := ls.parentIndex(v.Parent)
	if err != nil {
		return err
	}
	params := func(out *nl.Encoder) {
		out.AttrU32(vnl.IFLA_VXLAN_ID, v.VNI)
		if parent != 0 {
			out.AttrU32(vnl.IFLA_VXLAN_LINK, uint32(parent))
		}
		if v.Local.IsValid() {
			out.AttrAddr(localAttr(v.Local), v.Local)
		}
		if v.Port != 0 {
			out.Attr(vnl.IFLA_VXLAN_PORT, []byte{byte(v.Port >> 8), byte(v.Port)})
		}
		out.AttrFlag(vnl.IFLA_VXLAN_LEARNING, v.Learning) // the kernel's default is on
		if v.GBP {
			out.Attr(vnl.IFLA_VXLAN_GBP, nil)
		}
	}
	return ls.create(want, params, func(other link) error { return sameVXLAN(other, v) })
}

// sameVXLAN returns an error that names the vxlan with this VNI and port, if
// there is one: the kernel allows only one.
func sameVXLAN(l link, want dataplane.VXLAN) error {
	v, ok := l.Params.(dataplane.VXLAN)
	if !ok || v.VNI != want.VNI || v.Port != want.Port || v.Local.Is6() != want.Local.Is6() {
		return nil
	}
	return fmt.Errorf("link %s has VNI %d and port %d already; delete it or choose another VNI or port", l.Name, v.VNI,
		v.Port)
}

func (vxlanLink) adjust(ls *links, have link, wanted dataplane.Link) (changed bool, err error) {
	now, want := have.Params.(dataplane.VXLAN), wanted.Params.(dataplane.VXLAN)
	parent, err := ls.parentIndex(want.Parent)
	if err != nil {
		return false, err
	}
	if want == now && parent == have.parent {
		return false, nil
	}
	err = ls.change(have, func(out *nl.Encoder) {
		if parent != have.parent {
			out.AttrU32(vnl.IFLA_VXLAN_LINK, uint32(parent))
		}
		if want.Local != now.Local {
			local := want.Local
			if !local.IsValid() {
				local = unspecified(now.Local)
			}
			out.AttrAddr(localAttr(local), local)
		}
		if want.Learning != now.Learning {
			out.AttrFlag(vnl.IFLA_VXLAN_LEARNING, want.Learning)
		}
		if now.Other != "" {
			putDefaults(out, now)
		}
	})
	return err == nil, err
}

// localAttr returns the attribute that holds a vxlan's local address.
func localAttr(a netip.Addr) uint16 {
	if a.Is4() {
		return vnl.IFLA_VXLAN_LOCAL
	}
	return vnl.IFLA_VXLAN_LOCAL6
}

// unspecified returns 0.0.0.0 or ::, by the family of a.
func unspecified(a netip.Addr) netip.Addr {
	if a.Is4() {
		return netip.IPv4Unspecified()
	}
	return netip.IPv6Unspecified()
}
