package linux

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/driver"
	"github.com/flanneld/flannel/drivers/linux/internal/nl"
	"github.com/flanneld/flannel/drivers/linux/wireguard"
)

// userspaceAlias is the alias (IFLA_IFALIAS) of a TUN device that is WireGuard in
// userspace. A restarted daemon recognises its device by it.
const userspaceAlias = "flannel: wireguard in userspace"

// wireguardLink implements [linkKind] for [dataplane.WireGuard]. Key, port and
// peers are not part of a link in the kernel, see [wireguards].
type wireguardLink struct{ plainLink }

// create makes a device in steps; a refusal undoes the earlier ones. The device
// goes up last, since that opens the socket.
func (wireguardLink) create(a *applier, want dataplane.Link) error {
	ls := a.links
	var err error
	if isUserspace(want) {
		err = createUserspace(a, want)
	} else {
		down := want
		down.Up = false
		err = ls.create(down, func(*nl.Encoder) {}, func(link) error { return nil })
	}
	if err != nil {
		return err
	}
	if err := ls.adjust(want); err != nil {
		a.d.wg.stop(want.Name)
		return errors.Join(err, ls.remove(want.Name))
	}
	return nil
}

// createUserspace makes a TUN device with our mark.
func createUserspace(a *applier, want dataplane.Link) error {
	if err := createTUN(a, want); err != nil {
		return err
	}
	ls := a.links
	ls.forget()
	made, err := ls.named(want.Name)
	if err != nil {
		return err
	}
	ls.c.Begin(unix.RTM_NEWLINK, 0)
	putIfinfo(ls.c, made.index, 0, 0)
	ls.c.Out.Attr(unix.IFLA_IFALIAS, []byte(userspaceAlias))
	ls.c.Out.End()
	if _, err := ls.c.Do(); err != nil {
		return errors.Join(err, ls.remove(want.Name))
	}
	ls.forget()
	a.d.wg.made[want.Name] = true
	return nil
}

// adjust sets key and port if they differ, and starts a userspace device that
// does not run. A device that has both already may have a key that the node has lost.
func (wireguardLink) adjust(ls *links, have link, wanted dataplane.Link) (changed bool, err error) {
	want, w := wanted.Params.(dataplane.WireGuard), ls.wg
	now, err := w.read(have)
	if err != nil {
		return false, err
	}
	d, running := w.alive(have)
	if now.Public == want.PublicKey && now.Port == want.ListenPort && running == want.Userspace {
		if !running {
			return false, nil
		}
		if d.Fits(wanted.MTU) {
			d.SetMTU(wanted.MTU)
			return false, nil
		}
	}
	key, err := w.key()
	if err != nil {
		return false, err
	}
	if key.PublicKey() != want.PublicKey {
		return false, fmt.Errorf("the node's key is now that of %s: %w", key.PublicKey(), driver.ErrInvalid)
	}
	if want.Userspace {
		return false, ls.startUserspace(have, wanted, key)
	}
	kernel, err := w.inKernel()
	if err != nil {
		return false, err
	}
	if err := kernel.configure(have.index, now, key, want.ListenPort); err != nil {
		return false, explainPort(want.ListenPort, err)
	}
	return false, kernel.greet(have.index, now.Peers)
}

// startUserspace starts a device on a TUN device, or gives a running one its key
// and port. The kernel notices the new carrier of a TUN device in the background,
// up to a second later, unless it is asked about the link.
func (ls *links) startUserspace(have link, want dataplane.Link, key dataplane.Secret) error {
	w, port := ls.wg, want.Params.(dataplane.WireGuard).ListenPort
	return w.ns.Do(func() error {
		d, alive := w.alive(have)
		if !alive || !d.Fits(want.MTU) {
			former := d != nil || !w.made[have.Name] // in this process, or in an earlier one
			w.stop(have.Name)
			var err error
			d, err = wireguard.Open(have.Name, want.MTU, w.changed)
			if err != nil {
				return err
			}
			w.running[have.Name] = d
			if former {
				d.Greet()
			}
		}
		d.SetMTU(want.MTU)
		if err := d.Configure(key, port); err != nil {
			return explainPort(port, err)
		}
		ls.forget()
		_, err := ls.named(have.Name)
		return err
	})
}

// explainPort adds the remedy to the refusal of a port.
func explainPort(port uint16, err error) error {
	if errors.Is(err, unix.EADDRINUSE) {
		return fmt.Errorf("UDP port %d: %w: another program has it; stop that, or choose another ListenPort", port, err)
	}
	return err
}
