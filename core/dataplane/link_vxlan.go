package dataplane

import (
	"cmp"
	"errors"
	"net/netip"
)

// LinkVXLAN is the kernel's name for the kind of [VXLAN].
const LinkVXLAN LinkKind = "vxlan"

// VXLAN holds the parameters of a vxlan device (Linux drivers/net/vxlan).
type VXLAN struct {
	VNI      uint32
	Parent   string     // name of the underlay link
	Local    netip.Addr // outer source address
	Port     uint16     // outer UDP destination port
	Learning bool
	GBP      bool
}

// Kind implements [LinkParams].
func (VXLAN) Kind() LinkKind { return LinkVXLAN }

func (v VXLAN) words(l *line) {
	l.add(true, "id %d", v.VNI)
	l.add(v.Parent != "", "dev %s", v.Parent)
	l.add(v.Local.IsValid(), "local %s", v.Local)
	l.add(true, "port %d", v.Port)
	l.add(v.Learning, "learning")
	l.add(v.GBP, "gbp")
}

func (v VXLAN) withWord(word string, f *fields) (LinkParams, bool) {
	switch word {
	case "id":
		v.VNI = uint32(f.number(24))
	case "dev":
		v.Parent = f.next()
	case "local":
		v.Local = f.addr(f.next())
	case "port":
		v.Port = uint16(f.number(16))
	case "learning":
		v.Learning = true
	case "gbp":
		v.GBP = true
	default:
		return v, false
	}
	return v, true
}

// become refuses the changes that Linux refuses (drivers/net/vxlan/vxlan_core.c,
// vxlan_nl2conf), and the removal of the parent, which Linux ignores.
func (v VXLAN) become(params LinkParams) error {
	want := params.(VXLAN)
	if v.Parent != "" && want.Parent == "" {
		return errors.New("the parent cannot be removed")
	}
	return cmp.Or(
		fixed("VNI", v.VNI, want.VNI),
		fixed("port", v.Port, want.Port),
		fixed("GBP", v.GBP, want.GBP),
	)
}
