package linux

import (
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/driver"
)

// wgPeer performs an op on a peer. It never touches the others.
func (a *applier) wgPeer(verb dataplane.Verb, p dataplane.WGPeer) error {
	l, err := a.links.named(p.Link)
	if err != nil {
		return err
	}
	params, ok := l.Params.(dataplane.WireGuard)
	if !ok {
		return fmt.Errorf("link %s is of type %s: %w", l.Name, l.Kind(), driver.ErrInvalid)
	}
	psk, err := a.d.wg.psk(p.PSK)
	if err != nil {
		return err
	}
	if params.Userspace {
		return a.d.wg.applyUserspace(verb, l, p, psk)
	}
	return a.applyKernel(verb, l, p, psk)
}

// applyUserspace performs an op on a peer of a device in this process.
func (w *wireguards) applyUserspace(verb dataplane.Verb, l link, p dataplane.WGPeer, psk dataplane.Secret) error {
	d, alive := w.alive(l)
	if !alive {
		return fmt.Errorf("nothing carries packets on %s: %w", l.Name, unix.ENODEV)
	}
	if err := possible(verb, d.HasPeer(p.Public)); err != nil {
		return err
	}
	if verb == dataplane.Delete {
		d.RemovePeer(p.Public)
		return nil
	}
	return d.SetPeer(p, psk)
}

// applyKernel performs an op on a peer of a device in the kernel, which does not
// report whether a peer existed.
func (a *applier) applyKernel(verb dataplane.Verb, l link, p dataplane.WGPeer, psk dataplane.Secret) error {
	kernel, err := a.d.wg.inKernel()
	if err != nil {
		return err
	}
	if verb == dataplane.Replace {
		if known := a.wgKeys[l.index]; known != nil {
			known[p.Public] = true
		}
		return kernel.setPeer(l.index, p, psk)
	}
	known, err := a.keysOf(l)
	if err != nil {
		return err
	}
	if err := possible(verb, known[p.Public]); err != nil {
		return err
	}
	if verb == dataplane.Delete {
		delete(known, p.Public)
		return kernel.removePeer(l.index, p.Public)
	}
	known[p.Public] = true
	return kernel.setPeer(l.index, p, psk)
}

// possible returns the error with which a kernel refuses to create an object that is there, or to
// delete one that is not.
func possible(verb dataplane.Verb, there bool) error {
	switch {
	case verb == dataplane.Create && there:
		return unix.EEXIST
	case verb == dataplane.Delete && !there:
		return unix.ENOENT
	}
	return nil
}

// keysOf returns the keys of a device's peers, which it reads once for all ops.
func (a *applier) keysOf(l link) (map[dataplane.PublicKey]bool, error) {
	if known := a.wgKeys[l.index]; known != nil {
		return known, nil
	}
	r, err := a.d.wg.read(l)
	if err != nil {
		return nil, err
	}
	known := make(map[dataplane.PublicKey]bool, len(r.Peers))
	for _, p := range r.Peers {
		known[p.Public] = true
	}
	if a.wgKeys == nil {
		a.wgKeys = map[int]map[dataplane.PublicKey]bool{}
	}
	a.wgKeys[l.index] = known
	return known, nil
}
