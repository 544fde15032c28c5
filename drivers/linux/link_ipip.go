package linux

import (
	"errors"

	vnl "github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

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
			if a := nl.Addr(value); a.IsValid() && !a.IsUnspecified() {
				i.Local = a
			}
		case vnl.IFLA_IPTUN_REMOTE:
			if a := nl.Addr(value); a.IsValid() && !a.IsUnspecified() {
				i.Remote = a
			}
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

// create makes a device in one request, so that a refusal leaves nothing behind.
func (ipipLink) create(a *applier, want dataplane.Link) error {
	ls := a.links
	parent, err := ls.parentIndex(want.Params.(dataplane.IPIP).Parent)
	if err != nil {
		return err
	}
	c := ls.c
	var up uint32
	if want.Up {
		up = unix.IFF_UP
	}
	c.Begin(unix.RTM_NEWLINK, unix.NLM_F_CREATE|unix.NLM_F_EXCL)
	putIfinfo(c, 0, up, up)
	c.Out.AttrString(unix.IFLA_IFNAME, want.Name)
	putLinkAttrs(c, want, dataplane.Link{})
	putIPIP(c, want.Params.(dataplane.IPIP), parent)
	c.Out.End()
	_, err = c.Do()
	if errors.Is(err, unix.EEXIST) {
		return ls.explainExists(want, err, func(link) error { return nil })
	}
	return explainKind(want.Kind(), err)
}

// adjust writes all parameters: the kernel takes each absent one for its default.
func (ipipLink) adjust(ls *links, have link, wanted dataplane.Link) (changed bool, err error) {
	want := wanted.Params.(dataplane.IPIP)
	parent, err := ls.parentIndex(want.Parent)
	if err != nil {
		return false, err
	}
	if want == have.Params.(dataplane.IPIP) && parent == have.parent {
		return false, nil
	}
	c := ls.c
	c.Begin(unix.RTM_NEWLINK, 0)
	putIfinfo(c, have.index, 0, 0)
	putIPIP(c, want, parent)
	c.Out.End()
	_, err = c.Do()
	return err == nil, err
}

// putIPIP writes the parameters of a tunnel.
func putIPIP(c *nl.Conn, i dataplane.IPIP, parent int) {
	info := c.Out.Nest(unix.IFLA_LINKINFO)
	c.Out.Attr(unix.IFLA_INFO_KIND, []byte(dataplane.LinkIPIP))
	data := c.Out.Nest(unix.IFLA_INFO_DATA)
	c.Out.AttrU32(vnl.IFLA_IPTUN_LINK, uint32(parent))
	if i.Local.IsValid() {
		c.Out.AttrAddr(vnl.IFLA_IPTUN_LOCAL, i.Local)
	}
	if i.Remote.IsValid() {
		c.Out.AttrAddr(vnl.IFLA_IPTUN_REMOTE, i.Remote)
	}
	c.Out.Attr(vnl.IFLA_IPTUN_TTL, []byte{i.TTL})
	c.Out.AttrFlag(vnl.IFLA_IPTUN_PMTUDISC, i.PMTUDisc)
	c.Out.Unnest(data)
	c.Out.Unnest(info)
}
