package linux

import (
	"fmt"
	"net/netip"

	"golang.org/x/sys/unix"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/driver"
	"github.com/flanneld/flannel/drivers/linux/internal/nl"
)

// noKind stands for the kind of a link for which the kernel names none, such as
// a physical one: the text form of a link needs a word there.
const noKind = dataplane.OtherLink("none")

// skipStats is RTEXT_FILTER_SKIP_STATS: counters are most of a link's answer.
const skipStats = 1 << 3

// link is a device, with the details that only this package needs.
type link struct {
	dataplane.Link
	index    int
	parent   int // index of the underlay link that Params should name, 0 for none
	master   int // index of the link that this one is a port of, 0 for none
	loopback bool
	carrier  bool
	joined   bool     // a veth whose other end is in the same namespace
	forwards [2]*bool // by family: the link's own setting of forwarding, nil if it has none
}

// linkKind describes one kind of link to this driver. The file of a kind
// is link_<kind>.go; [plainLink] serves the kinds that flannel never makes.
type linkKind interface {
	// parse reads the kind's parameters (IFLA_INFO_DATA) into the link. A
	// parent is left as an index.
	parse(data []byte, into *link)

	// nameParent puts the name of the underlay link into the parameters.
	nameParent(params dataplane.LinkParams, name string) dataplane.LinkParams

	// create makes a device.
	create(a *applier, want dataplane.Link) error

	// adjust changes those of the kind's parameters that differ, and reports
	// whether it changed any.
	adjust(ls *links, have link, want dataplane.Link) (changed bool, err error)
}

// kindOf returns the implementation of a kind. A new kind is one file and one
// line here.
func kindOf(kind dataplane.LinkKind) linkKind {
	switch kind {
	case dataplane.LinkVXLAN:
		return vxlanLink{}
	case dataplane.LinkTUN:
		return tunLink{}
	case dataplane.LinkIPIP:
		return ipipLink{}
	case dataplane.LinkWireGuard:
		return wireguardLink{}
	}
	return plainLink{}
}

// plainLink is a link whose parameters flannel does not know.
type plainLink struct{}

func (plainLink) parse([]byte, *link) {}

func (plainLink) nameParent(params dataplane.LinkParams, _ string) dataplane.LinkParams {
	return params
}

func (plainLink) create(_ *applier, want dataplane.Link) error {
	return fmt.Errorf("type %s: %w", want.Kind(), driver.ErrUnsupported)
}

func (plainLink) adjust(*links, link, dataplane.Link) (changed bool, err error) { return false, nil }

// links finds links by name or index and remembers them for one call.
type links struct {
	c       *nl.Conn
	wg      *wireguards
	byName  map[string]link
	byIndex map[int]string
}

func newLinks(c *nl.Conn, wg *wireguards) *links {
	return &links{c: c, wg: wg, byName: map[string]link{}, byIndex: map[int]string{}}
}

// named returns the link of that name; the error is ENODEV if there is none.
func (ls *links) named(name string) (link, error) {
	if l, ok := ls.byName[name]; ok {
		return l, nil
	}
	if name == "" || len(name) >= unix.IFNAMSIZ {
		return link{}, fmt.Errorf("link %q: %w", name, unix.ENODEV)
	}
	beginGetLink(ls.c, 0)
	ls.c.Out.AttrString(unix.IFLA_IFNAME, name)
	l, err := ls.fetch()
	if err == nil && l.Name != name { // the kernel looks at alternative names, too
		err = unix.ENODEV
	}
	if err != nil {
		return link{}, fmt.Errorf("link %s: %w", name, err)
	}
	ls.byName[name], ls.byIndex[l.index] = l, name
	return l, nil
}

// nameOf returns the name of the link with that index, or its number if the
// link is gone.
func (ls *links) nameOf(index int) (string, error) {
	if name, ok := ls.byIndex[index]; ok || index == 0 {
		return name, nil
	}
	beginGetLink(ls.c, index)
	l, err := ls.fetch()
	switch {
	case nl.IsGone(err):
		l.Name = fmt.Sprintf("if%d", index)
	case err != nil:
		return "", fmt.Errorf("link with index %d: %w", index, err)
	}
	ls.byIndex[index] = l.Name
	return l.Name, nil
}

// forget drops the remembered links after one has changed.
func (ls *links) forget() {
	clear(ls.byName)
	clear(ls.byIndex)
}

func (ls *links) fetch() (link, error) {
	ls.c.Out.End()
	body, err := ls.c.Do()
	if err != nil {
		return link{}, err
	}
	return parseLink(body)
}

// all reads every link of the host, by index.
func (ls *links) all() ([]link, error) {
	c := ls.c
	c.Begin(unix.RTM_GETLINK, unix.NLM_F_DUMP)
	putIfinfo(c, 0, 0, 0)
	c.Out.AttrU32(unix.IFLA_EXT_MASK, skipStats)
	c.Out.End()
	b, err := c.Dump()
	if err != nil {
		return nil, fmt.Errorf("dump links: %w", err)
	}
	var all []link
	for body := range nl.Answers(b, unix.RTM_NEWLINK, unix.AF_UNSPEC) {
		l, err := parseLink(body)
		if err != nil {
			return nil, err
		}
		ls.byName[l.Name], ls.byIndex[l.index] = l, l.Name
		all = append(all, l)
	}
	return all, nil
}

func beginGetLink(c *nl.Conn, index int) {
	c.Begin(unix.RTM_GETLINK, 0)
	putIfinfo(c, index, 0, 0)
	c.Out.AttrU32(unix.IFLA_EXT_MASK, skipStats)
}

// putIfinfo writes struct ifinfomsg.
func putIfinfo(c *nl.Conn, index int, flags, change uint32) {
	c.Out.U8(unix.AF_UNSPEC, 0)
	c.Out.U16(0)
	c.Out.U32(uint32(index))
	c.Out.U32(flags)
	c.Out.U32(change)
}

// parseLink reads an RTM_NEWLINK. The parent is left as an index.
func parseLink(body []byte) (link, error) {
	if len(body) < unix.SizeofIfInfomsg {
		return link{}, fmt.Errorf("link message of %d bytes is too short", len(body))
	}
	flags := nl.Native.Uint32(body[8:])
	l := link{index: int(int32(nl.Native.Uint32(body[4:]))), loopback: flags&unix.IFF_LOOPBACK != 0}
	l.Up = flags&unix.IFF_UP != 0
	l.carrier = flags&unix.IFF_LOWER_UP != 0
	l.Params = noKind
	userspace := false
	partner, elsewhere := false, false // a veth has another end, in another namespace
	for kind, value := range nl.Attrs(body[unix.SizeofIfInfomsg:]) {
		switch kind {
		case unix.IFLA_IFNAME:
			l.Name = nl.Text(value)
		case unix.IFLA_MTU:
			l.MTU = int(nl.U32(value))
		case unix.IFLA_ADDRESS:
			if len(value) == len(l.MAC) {
				l.MAC = dataplane.MAC(value)
			}
		case unix.IFLA_MASTER:
			l.master = int(nl.U32(value))
		case unix.IFLA_PROTO_DOWN:
			l.ProtoDown = len(value) > 0 && value[0] != 0
		case unix.IFLA_LINK:
			partner = true
		case unix.IFLA_LINK_NETNSID:
			elsewhere = true
		case unix.IFLA_IFALIAS:
			userspace = nl.Text(value) == userspaceAlias
		case unix.IFLA_LINKINFO:
			l.parseInfo(value)
		case unix.IFLA_AF_SPEC:
			l.parseForwarding(value)
		}
	}
	if userspace && l.Kind() == dataplane.LinkTUN {
		l.Params = dataplane.WireGuard{Userspace: true}
	}
	l.joined = l.Kind() == vethKind && partner && !elsewhere
	return l, nil
}

// forwardingAt says where the attributes of a link hold its own forwarding
// setting: in which array of settings, at which index (Linux
// include/uapi/linux/ip.h and ipv6.h; for IPv6 since Linux 6.17).
var forwardingAt = [2]struct {
	family, array uint16
	index         int
}{
	cidr.V4: {unix.AF_INET, 1, 0},   // IFLA_INET_CONF, IPV4_DEVCONF_FORWARDING
	cidr.V6: {unix.AF_INET6, 2, 59}, // IFLA_INET6_CONF, DEVCONF_FORCE_FORWARDING
}

// parseForwarding reads IFLA_AF_SPEC. The answers have it anyway, and reading a
// file for each of 1,000 links would take several times as long as all of them.
func (l *link) parseForwarding(families []byte) {
	for kind, arrays := range nl.Attrs(families) {
		for f, at := range forwardingAt {
			if kind != at.family {
				continue
			}
			for kind, array := range nl.Attrs(arrays) {
				if kind == at.array && len(array) >= 4*(at.index+1) {
					l.forwards[f] = new(nl.U32(array[4*at.index:]) != 0)
				}
			}
		}
	}
}

// specified returns an address attribute; zero if it holds 0.0.0.0 or ::.
func specified(value []byte) netip.Addr {
	a := nl.Addr(value)
	if a.IsUnspecified() {
		return netip.Addr{}
	}
	return a
}

func (l *link) parseInfo(info []byte) {
	var data []byte
	for kind, value := range nl.Attrs(info) {
		switch kind {
		case unix.IFLA_INFO_KIND:
			l.Params = dataplane.NoParams(dataplane.LinkKind(nl.Text(value)))
		case unix.IFLA_INFO_DATA:
			data = value
		}
	}
	kindOf(l.Kind()).parse(data, l)
}
