package linux

import (
	"fmt"

	vnl "github.com/vishvananda/netlink/nl"

	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/drivers/linux/internal/nl"
)

// ipipLink implements [linkKind] for [dataplane.IPIP].
type ipipLink struct{}

func (ipipLink) parse(data []byte, into *link) {
	var i dataplane.IPIP
	for kind, value := range nl.Attrs(data) {
		switch kind {
		case vnl.IFLA_IPTUN_LINK:
			into.parent = int(nl.U32(value))
		case vnl.IFLA_IPTUN_LOCAL:
			i.Local = specified(value)
		case vnl.IFLA_IPTUN_REMOTE:
			i.Remote = specified(value)
		case vnl.IFLA_IPTUN_TTL:
			if len(value) > 0 {
				i.TTL = value[0]
			}
		case vnl.IFLA_IPTUN_PMTUDISC:
			i.PMTUDisc = len(value) > 0 && value[0] != 0
		}
	}
	into.Params = i
}

func (ipipLink) nameParent(params dataplane.LinkParams, name string) dataplane.LinkParams {
	i := params.(dataplane.IPIP)
	i.Parent = name
	return i
}

func (ipipLink) create(a *applier, want dataplane.Link) error {
	i, ls := want.Params.(dataplane.IPIP), a.links
	parent, err := ls.parentIndex(i.Parent)
	if err != nil {
		return err
	}
	params := func(out *nl.Encoder) { putIPIP(out, i, parent) }
	return ls.create(want, params, func(other link) error { return sameIPIP(other, i, parent) })
}

// sameIPIP returns an error that names the tunnel with these ends, if there is
// one: the kernel allows only one.
func sameIPIP(l link, want dataplane.IPIP, parent int) error {
	i, ok := l.Params.(dataplane.IPIP)
	if !ok || i.Local != want.Local || i.Remote != want.Remote || l.parent != parent {
		return nil
	}
	return fmt.Errorf("link %s is an ipip tunnel with these ends already; delete it", l.Name)
}

// adjust writes all parameters: the kernel sets each absent one to its default.
func (ipipLink) adjust(ls *links, have link, wanted dataplane.Link) (changed bool, err error) {
	want := wanted.Params.(dataplane.IPIP)
	parent, err := ls.parentIndex(want.Parent)
	if err != nil {
		return false, err
	}
	if want == have.Params.(dataplane.IPIP) && parent == have.parent {
		return false, nil
	}
	err = ls.change(have, func(out *nl.Encoder) { putIPIP(out, want, parent) })
	return err == nil, err
}

// putIPIP writes the parameters of a tunnel.
func putIPIP(out *nl.Encoder, i dataplane.IPIP, parent int) {
	out.AttrU32(vnl.IFLA_IPTUN_LINK, uint32(parent))
	if i.Local.IsValid() {
		out.AttrAddr(vnl.IFLA_IPTUN_LOCAL, i.Local)
	}
	if i.Remote.IsValid() {
		out.AttrAddr(vnl.IFLA_IPTUN_REMOTE, i.Remote)
	}
	out.Attr(vnl.IFLA_IPTUN_TTL, []byte{i.TTL})
	out.AttrFlag(vnl.IFLA_IPTUN_PMTUDISC, i.PMTUDisc)
}
