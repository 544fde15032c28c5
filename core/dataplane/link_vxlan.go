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
	// Other is set by a driver that read values which another program has set and flannel never
	// does, such as "ttl=1". It is never wanted.
	Other string
}

// Kind implements [LinkParams].
func (VXLAN) Kind() LinkKind { return LinkVXLAN }

// params lists the parameters in the order of the canonical form.
func (v *VXLAN) params() []param {
	return []param{
		{"id", true, v.VNI, func(f *fields) { v.VNI = uint32(f.number(24)) }},
		{"dev", v.Parent != "", v.Parent, func(f *fields) { v.Parent = f.next() }},
		{"local", v.Local.IsValid(), v.Local, func(f *fields) { v.Local = f.addr(f.next()) }},
		{"port", true, v.Port, func(f *fields) { v.Port = uint16(f.number(16)) }},
		{"learning", v.Learning, nil, func(*fields) { v.Learning = true }},
		{"gbp", v.GBP, nil, func(*fields) { v.GBP = true }},
		{"other", v.Other != "", v.Other, func(f *fields) { v.Other = f.next() }},
	}
}

func (v VXLAN) words(l *line) { addParams(l, v.params()) }

func (v VXLAN) withWord(word string, f *fields) (LinkParams, bool) {
	ok := readParam(v.params(), word, f)
	return v, ok
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
