package linux

import (
	"errors"

	"golang.org/x/sys/unix"

	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/drivers/linux/tunnel"
)

// tunLink implements [linkKind] for [dataplane.TUN].
type tunLink struct{ plainLink }

// create makes a device. The kernel makes no TUN device over netlink, so it
// takes two steps, and a refusal of the second undoes the first.
func (tunLink) create(a *applier, want dataplane.Link) error {
	if err := createTUN(a, want); err != nil {
		return err
	}
	ls := a.links
	if err := ls.adjust(want); err != nil {
		return errors.Join(err, ls.remove(want.Name))
	}
	return nil
}

// createTUN makes a persistent TUN device with the link's name.
func createTUN(a *applier, want dataplane.Link) error {
	ls := a.links
	_, err := ls.named(want.Name)
	if err == nil {
		return ls.explainExists(want, unix.EEXIST, func(link) error { return nil })
	}
	if !errors.Is(err, unix.ENODEV) {
		return err
	}
	return a.d.ns.Do(func() error { return tunnel.CreateDevice(want.Name) })
}
