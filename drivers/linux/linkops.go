package linux

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/driver"
	"github.com/flanneld/flannel/drivers/linux/internal/nl"
)

// link performs an op on a link.
func (a *applier) link(verb dataplane.Verb, want dataplane.Link) error {
	defer a.links.forget()
	if want.MAC[0]&1 != 0 { // the kernel says EADDRNOTAVAIL, which reads like a missing address
		return fmt.Errorf("MAC is a multicast address: %w", driver.ErrInvalid)
	}
	switch verb {
	case dataplane.Create:
		return kindOf(want.Kind()).create(a, want)
	case dataplane.Replace:
		if want.Was != "" {
			if err := a.links.rename(want.Was, want.Name); err != nil {
				return fmt.Errorf("rename link %s: %w", want.Was, err)
			}
			a.d.proxies.rename(want.Was, want.Name)
			want.Was = ""
		}
		return a.links.adjust(want)
	default:
		a.d.wg.stop(want.Name)
		return a.links.remove(want.Name)
	}
}

// create makes a device in one request, so that a refusal leaves nothing behind.
// Params writes the parameters of its kind. sameKey returns an error for a link that
// the kernel cannot distinguish from the new one.
func (ls *links) create(want dataplane.Link, params func(*nl.Encoder), sameKey func(link) error) error {
	c := ls.c
	var up uint32
	if want.Up {
		up = unix.IFF_UP
	}
	c.Begin(unix.RTM_NEWLINK, unix.NLM_F_CREATE|unix.NLM_F_EXCL)
	putIfinfo(c, 0, up, up)
	c.Out.AttrString(unix.IFLA_IFNAME, want.Name)
	putLinkAttrs(c, want, dataplane.Link{})
	putParams(c, want.Kind(), params)
	c.Out.End()
	_, err := c.Do()
	if errors.Is(err, unix.EEXIST) {
		return ls.explainExists(want, err, sameKey)
	}
	return explainKind(want.Kind(), err)
}

// change changes parameters of a device's kind.
func (ls *links) change(have link, params func(*nl.Encoder)) error {
	c := ls.c
	c.Begin(unix.RTM_NEWLINK, 0)
	putIfinfo(c, have.index, 0, 0)
	putParams(c, have.Kind(), params)
	c.Out.End()
	_, err := c.Do()
	return err
}

// putParams writes the nested attributes that hold the parameters of a kind.
func putParams(c *nl.Conn, kind dataplane.LinkKind, params func(*nl.Encoder)) {
	info := c.Out.Nest(unix.IFLA_LINKINFO)
	c.Out.Attr(unix.IFLA_INFO_KIND, []byte(kind))
	data := c.Out.Nest(unix.IFLA_INFO_DATA)
	params(&c.Out)
	c.Out.Unnest(data)
	c.Out.Unnest(info)
}

// explainExists names the link that blocks a new one: a link of the same name,
// or one that, by sameKey, the kernel cannot distinguish from it.
func (ls *links) explainExists(want dataplane.Link, cause error, sameKey func(link) error) error {
	all, err := ls.all()
	if err != nil {
		return cause
	}
	for _, l := range all {
		if l.Name == want.Name {
			return fmt.Errorf("a link of this name, type %s, is there: %w", l.Kind(), cause)
		}
	}
	for _, l := range all {
		if err := sameKey(l); err != nil {
			return fmt.Errorf("%w: %w", err, cause)
		}
	}
	if want.Kind() == dataplane.LinkVXLAN { // one that moves keeps its VNI and port in the namespace that made it
		cause = fmt.Errorf("no link of this namespace has this VNI and port, so the one that does has moved to "+
			"another network namespace, such as a container's: delete it there; ip netns and lsns -t net list them: %w",
			cause)
	}
	return cause
}

// adjust changes an existing link in place, with requests that hold only what
// differs. The kernel refuses parameters and MTU in one request. A parameter may
// shrink the MTU, so the MTU is in the second. The kernel handles "up" last.
func (ls *links) adjust(want dataplane.Link) error {
	have, err := ls.named(want.Name)
	if err != nil {
		return err
	}
	if err := ls.nameOthers(&have); err != nil {
		return err
	}
	if err := have.Become(want); err != nil {
		return fmt.Errorf("%w; delete and create the link: %w", err, driver.ErrUnsupported)
	}
	changed, err := kindOf(want.Kind()).adjust(ls, have, want)
	if err != nil {
		return err
	}
	if changed {
		have.MTU = 0 // the request may have changed it
	}
	var flags, change uint32
	if want.Up != have.Up {
		change = unix.IFF_UP
	}
	if want.Up {
		flags = change
	}
	c := ls.c
	c.Begin(unix.RTM_NEWLINK, 0)
	putIfinfo(c, have.index, flags, change)
	putLinkAttrs(c, want, have.Link)
	c.Out.End()
	_, err = c.Do()
	return err
}

// rename gives a link another name. Before Linux 6.2 the link has to be down for that, and loses
// its routes (net/core/dev.c, dev_change_name); adjust sets it up again.
func (ls *links) rename(from, to string) error {
	have, err := ls.named(from)
	if err != nil {
		return err
	}
	defer ls.forget()
	request := func(change uint32) error {
		ls.c.Begin(unix.RTM_NEWLINK, 0)
		putIfinfo(ls.c, have.index, 0, change)
		if change == 0 {
			ls.c.Out.AttrString(unix.IFLA_IFNAME, to)
		}
		ls.c.Out.End()
		_, err := ls.c.Do()
		return err
	}
	err = request(0)
	if !errors.Is(err, unix.EBUSY) || !have.Up {
		return err
	}
	if err := request(unix.IFF_UP); err != nil {
		return err
	}
	return request(0)
}

// explainKind adds the remedy to the refusal of a kind that the kernel does not
// know.
func explainKind(kind dataplane.LinkKind, err error) error {
	if errors.Is(err, unix.EOPNOTSUPP) {
		return fmt.Errorf("%s: %w", kind.Missing(), err)
	}
	return err
}

// parentIndex returns the index of an underlay link, 0 for no name.
func (ls *links) parentIndex(name string) (int, error) {
	if name == "" {
		return 0, nil
	}
	l, err := ls.named(name)
	return l.index, err
}

// nameOthers puts the names of the underlay link and of the master into the link.
func (ls *links) nameOthers(l *link) error {
	name, err := ls.nameOf(l.parent)
	if err != nil {
		return err
	}
	l.Master, err = ls.nameOf(l.master)
	if err != nil {
		return err
	}
	l.Params = kindOf(l.Kind()).nameParent(l.Params, name)
	return nil
}

func (ls *links) remove(name string) error {
	have, err := ls.named(name)
	if err != nil {
		return err
	}
	ls.c.Begin(unix.RTM_DELLINK, 0)
	putIfinfo(ls.c, have.index, 0, 0)
	ls.c.Out.End()
	_, err = ls.c.Do()
	return err
}

// putLinkAttrs writes MTU and MAC where they are wanted and differ, and frees the link from a
// master and from another program's hold on its carrier.
func putLinkAttrs(c *nl.Conn, want, have dataplane.Link) {
	if want.MTU != 0 && want.MTU != have.MTU {
		c.Out.AttrU32(unix.IFLA_MTU, uint32(want.MTU))
	}
	if !want.MAC.IsZero() && want.MAC != have.MAC {
		c.Out.Attr(unix.IFLA_ADDRESS, want.MAC[:])
	}
	if have.Master != "" {
		c.Out.AttrU32(unix.IFLA_MASTER, 0)
	}
	if have.ProtoDown {
		c.Out.AttrFlag(unix.IFLA_PROTO_DOWN, false)
	}
}
